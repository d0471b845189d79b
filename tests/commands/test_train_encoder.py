import io
import re
from contextlib import redirect_stdout
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest

from transformer_core import __version__
from transformer_core.__main__ import main
from transformer_core.layers import LayerSpec
from transformer_core.tasks.reconstruction import Reconstruction, load, recipe
from transformer_core.training import Run


@pytest.fixture
def model():
    return "encoder"


@pytest.fixture(scope="module", params=["pre", "post"])
def finished(request, tmp_path_factory):
    """A run of all its 500 epochs, and the three errors that it printed."""
    folder = tmp_path_factory.mktemp("runs") / request.param
    printed = io.StringIO()
    with redirect_stdout(printed):
        status = main(["train", "encoder", "--out", str(folder), "--placement", request.param])
    figures = re.findall(r"^MSE .* (\d\.\d{5})$", printed.getvalue(), re.MULTILINE)
    return SimpleNamespace(
        placement=request.param,
        folder=folder,
        status=status,
        printed=printed.getvalue(),
        figures=[float(figure) for figure in figures],
    )


@pytest.mark.slow
def test_the_encoder_learns_the_task(finished):
    on_training, on_unseen, _ = finished.figures
    assert finished.status == 0
    assert on_training <= 0.0005
    assert on_unseen <= 0.0043


@pytest.mark.slow
def test_a_finished_run_is_on_disk(finished):
    assert finished.printed.endswith(f"saved in {finished.folder}\n")
    run = Run(finished.folder)
    assert run.settings() == recipe.DEFAULTS | {
        "model": "encoder",
        "version": __version__,
        "spec": asdict(LayerSpec(64, 4, 256, finished.placement)),
    }
    assert [record["step"] for record in run.history()] == list(range(1, 501))
    assert run.history()[-1]["loss"] < 1e-3 * run.history()[0]["loss"]


@pytest.mark.slow
def test_the_printed_errors_are_those_of_the_checkpoint(finished):
    rng = np.random.default_rng(0)
    task = Reconstruction(rng)
    samples = [task.sample(sequences, rng) for sequences in (32, 256)]
    encoder = load(finished.folder)
    errors = [((encoder.forward(inputs)[0] - targets) ** 2).mean() for inputs, targets in samples]
    errors.append((samples[1][1] ** 2).mean())
    assert finished.figures == pytest.approx(errors, abs=6e-6)


def test_a_run_that_is_older_than_a_field_of_the_spec_is_loaded(tmp_path, train, monkeypatch):
    older = {name: v for name, v in recipe.DEFAULTS["spec"].items() if name != "dropout"}
    with monkeypatch.context() as patch:
        patch.setitem(recipe.DEFAULTS, "spec", older)
        assert train(tmp_path / "run", "--epochs", "1") == 0
    assert "dropout" not in Run(tmp_path / "run").settings()["spec"]
    assert load(tmp_path / "run").encoder.layers[0].attention.dropout == 0
    assert train(tmp_path / "run", "--resume") == 0


@pytest.mark.parametrize(
    "content, message",
    [
        ({"notes.txt": "mine"}, "expected a new or empty folder, got one in use"),
        ({"settings.json": "{}"}, "in use; --resume continues the run in it"),
    ],
)
def test_a_folder_in_use_is_one_line_and_stays_as_it_is(
    tmp_path, train, files, one_line, content, message
):
    for name, text in content.items():
        (tmp_path / name).write_text(text)
    one_line(train(tmp_path), f".*{message}")
    assert files(tmp_path) == {name: text.encode() for name, text in content.items()}


@pytest.mark.parametrize("arguments", [[], ["train"], ["train", "encoder"]])
def test_a_command_that_is_not_complete_is_explained(capsys, arguments):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("usage: transformer-core")
    assert "the following arguments are required" in error
