"""Sessions in a workspace, as a reader has them in a shell."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import numpy as np
import pytest
from helpers.texts import ROOT, read

from transformer_core.__main__ import main as core_main
from transformer_core.tasks.bert import recipe as bert
from transformer_core.tasks.dates import recipe as dates
from transformer_core.tasks.gpt import recipe as gpt
from transformer_core.tasks.gpt import writing
from transformer_core.training import Run
from transformer_practice.__main__ import main
from transformer_practice.engine import repair
from transformer_practice.engine.examiner import report_on
from transformer_practice.engine.exercise import titles_of
from transformer_practice.exercises import every_exercise
from transformer_practice.workspace.folder import changes, chapters, file_of, states
from transformer_practice.workspace.substitution import GROUPED, places

LINEAR = """\
import numpy as np


def linear(x, weight, bias):
    return x @ weight + bias, (x, weight)


def linear_backward(dy, cache):
    x, weight = cache
    rows = dy.reshape(-1, dy.shape[-1])
    dweight = x.reshape(-1, x.shape[-1]).T @ rows
    return dy @ weight.T, dweight, rows.sum(axis=0)
"""
GELU_TANH = """\
import math

import numpy as np


def gelu_tanh(x):
    t = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    return x * (1 + t) / 2, (x, t)


def gelu_tanh_backward(dy, cache):
    x, t = cache
    slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x**2)
    return dy * ((1 + t) / 2 + x * (1 - t**2) * slope / 2)
"""
SILU = """\
import numpy as np


def silu(x):
    s = 1 / (1 + np.exp(-x))
    return x * s, (x, s)


def silu_backward(dy, cache):
    x, s = cache
    return dy * s * (1 + x * (1 - s))
"""
AVERAGED = LINEAR.replace("rows.sum(axis=0)", "rows.mean(axis=0)")
NUMBER = len(list(every_exercise()))
GROUPS = chapters().items()


@pytest.fixture(autouse=True)
def without_own_lines(request, monkeypatch):
    if not request.node.get_closest_marker("own_lines"):
        monkeypatch.setattr(repair, "CHANGES", 0)


@pytest.fixture
def folder(tmp_path, capsys):
    """A new workspace."""
    path = tmp_path / "mine"
    assert main(["start", str(path)]) == 0
    capsys.readouterr()
    return path


@pytest.fixture
def practice(folder, capsys):
    """Run a command in the workspace; return its status and what it printed."""

    def run(command, *arguments):
        status = main([command, str(folder), *arguments])
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    return run


def write(folder, text, chapter="120_linear"):
    (folder / file_of(chapter)).write_text(text)


def remembered(folder):
    return json.loads((folder / "progress.json").read_text())


def texts(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_start_says_what_it_wrote_and_what_it_left(tmp_path, capsys):
    folder = tmp_path / "mine"
    assert main(["start", str(folder)]) == 0
    printed = capsys.readouterr().out
    names = ["README.txt", *map(file_of, chapters())]
    assert printed == "".join(
        [f"wrote {folder / name}\n" for name in names] + [f"first steps: {folder / 'README.txt'}\n"]
    )
    assert sorted(texts(folder)) == sorted(names)

    write(folder, "mine")
    (folder / "README.txt").write_text("mine, too")
    (folder / "150_layer_norm.py").unlink()
    assert main(["start", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"wrote {folder / '150_layer_norm.py'}\nleft unchanged: ")
    assert "120_linear.py has no linear, Linear, three_linear: start a new" in printed
    assert "130_softmax.py has no" not in printed
    assert (folder / "120_linear.py").read_text() == "mine"
    assert (folder / "README.txt").read_text() == "mine, too"


def test_a_new_workspace_has_nothing_written(folder, practice):
    before = texts(folder)
    status, printed = practice("check")
    assert status == 0
    assert printed.splitlines() == [
        *(f"{file_of(c)}: 0 of {len(group)}, not written yet" for c, group in GROUPS),
        f"0 of {NUMBER} are yours. Next: linear.",
    ]
    assert texts(folder) == before


def test_of_a_chapter_that_is_begun_every_exercise_is_told(folder, practice):
    write(folder, LINEAR)
    status, printed = practice("check")
    assert status == 0
    assert "120_linear.py: 1 of 3\n" in printed
    assert re.search("^  Linear +not written yet", printed, re.MULTILINE)
    assert "130_softmax.py: 0 of 2, not written yet\n" in printed


@pytest.mark.parametrize(
    "name, said",
    [
        ("linear", "linear_backward: right."),
        ("linear_backward", "linear_backward: right."),
        ("Linear.backward", "Linear: not written yet (the file has no Linear)"),
    ],
)
def test_a_function_stands_for_its_exercise(folder, practice, name, said):
    write(folder, LINEAR)
    assert said in practice("check", name)[1]
    hint = practice("hint", name)[1]
    assert hint.startswith(f"{name.partition('.')[0].removesuffix('_backward')}, hint 1")


def test_the_case_of_a_name_does_not_matter_where_one_exercise_has_it(practice):
    assert practice("check", "adam")[1].startswith("Adam: not written yet")
    assert practice("check", "linear")[1].startswith("linear: not written yet")
    assert practice("check", "Linear")[1].startswith("Linear: not written yet")
    assert "expected one of" in practice("check", "LINEAR")[1]


def test_a_backward_pass_that_is_missing_is_told_beside_a_forward_pass_alone(folder, practice):
    body = "raise NotImplementedError\n"
    write(folder, LINEAR.partition("    x, weight = cache")[0] + f"    {body}")
    status, printed = practice("check", "linear")
    assert status == 0
    assert printed.startswith("linear: right. linear_backward: not written yet.\n")


def test_a_hint_without_a_name_is_for_the_next_exercise(folder, practice):
    assert practice("hint")[1].startswith("linear, hint 1 of 3: ")
    write(folder, LINEAR)
    practice("check")
    assert practice("hint")[1].startswith("Linear, hint 1 of 3: ")
    entries = remembered(folder)
    everything = {each.name: entries["linear"] for _, group in GROUPS for each in group}
    (folder / "progress.json").write_text(json.dumps(everything))
    assert practice("hint")[1] == f"All {NUMBER} are yours.\n"


def test_what_fails_in_the_examiner_itself_stops_no_other_exercise(folder, practice, monkeypatch):
    def fails(answer):
        if answer.exercise.name == "softmax":
            raise ValueError("scale: expected a number")
        return report_on(answer)

    monkeypatch.setattr("transformer_practice.workspace.examined.report_on", fails)
    write(folder, LINEAR)
    write(folder, "def softmax(x, keep=None):\n    return x, x\n", "130_softmax")
    status, printed = practice("check")
    assert status == 1
    assert re.search("^  linear +right$", printed, re.MULTILINE)
    told = "softmax +wrong: the examiner itself fails: ValueError: scale: expected a number"
    assert re.search(f"^  {told}", printed, re.MULTILINE)
    assert set(remembered(folder)) == {"linear", "softmax"}


def test_control_characters_in_what_is_raised_are_not_printed_as_they_are(folder, practice):
    raised = LINEAR.replace("return x @", "raise ValueError('a\\x1b[2Jb' * 10_000)\n    return x @")
    write(folder, raised)
    _, printed = practice("check", "linear")
    assert "raises ValueError: a\\x1b[2Jba" in printed and "\x1b" not in printed
    assert len(printed) < 3000


def test_a_folder_that_is_watched_and_deleted_is_told(folder):
    before = states(folder)
    shutil.rmtree(folder)
    with pytest.raises(ValueError, match="mine: the folder was being watched, and is gone"):
        next(changes(folder, before))


def test_a_name_that_is_nearly_right_is_answered(practice):
    for command in ("check", "hint"):
        status, printed = practice(command, "sofmax")
        assert status == 1
        assert "got 'sofmax': did you mean softmax" in printed
        assert len(printed) < 150


def test_a_forgotten_return_is_wrong(folder, practice):
    write(folder, LINEAR.replace("return x @ weight", "y = x @ weight"))
    status, printed = practice("check", "linear")
    assert status == 1
    assert "linear: returns None: is there a `return`?" in printed


def test_a_function_under_another_name_is_told(folder, practice):
    write(folder, LINEAR.replace("linear(", "linaer("))
    status, printed = practice("check", "linear")
    assert status == 1
    assert "linear: wrong: there is no linear: is linaer meant to be it?" in printed
    write(folder, LINEAR.replace("linear(", "mine("))
    _, printed = practice("check", "linear")
    assert "(the file has no linear)" in printed


def test_a_class_in_another_chapters_file_is_told(folder, practice):
    layer = "class EncoderLayer:\n    def forward(self, x):\n        return x, x\n"
    write(folder, layer, "270_residual")
    said = "EncoderLayer in 270_residual.py is not examined: it belongs in 310_train"
    assert said in practice("check")[1]
    assert said in practice("check", "EncoderLayer")[1]
    assert said not in practice("check", "linear")[1]


def test_the_command_for_a_hint_can_be_pasted(folder, practice):
    write(folder, AVERAGED)
    _, printed = practice("check", "linear")
    command = re.search(r"python -m transformer_practice (.*?)  ", printed)[1].split()
    assert command == ["hint", str(folder), "linear"]
    assert "FOLDER" not in printed


@pytest.mark.own_lines
def test_a_session(folder, practice):
    """A mistake, a hint, the right answer; what is edited between two checks is seen."""
    write(folder, AVERAGED)
    status, printed = practice("check")
    assert status == 1
    assert re.search("^  linear +wrong: linear_backward: dbias is wrong", printed, re.M)
    assert printed.count('"linear-bias-averaged"') == 1  # the report of the only wrong one
    assert f"noted in {folder / 'progress.json'}\n" in printed
    assert f"0 of {NUMBER} are yours." in printed

    status, printed = practice("hint", "linear")
    assert (status, printed.split(":")[0]) == (0, "linear, hint 1 of 3")

    write(folder, LINEAR)
    status, printed = practice("check", "linear")
    assert status == 0
    assert "softmax" not in printed.split("remembered")[0]
    assert "linear: right. linear_backward: right." in printed
    assert f"1 of {NUMBER} are yours. Next: " in printed
    entry = remembered(folder)["linear"]
    assert [said for _, said in entry["mistakes"]] == ["linear-bias-averaged"]
    assert (entry["state"], entry["hints"]) == ("right", 1)

    status, printed = practice("ledger")
    assert status == 0
    assert printed.startswith(f"wrote {folder / 'ledger.html'}\n")
    page = (folder / "ledger.html").read_text()
    assert "linear-bias-averaged" in page and "Hints: 1 of 3." in page


@pytest.mark.thorough
def test_the_next_one_is_of_the_chapter_that_was_written_last(folder, practice):
    names = [each.name for _, group in GROUPS for each in group]
    first = names.index("linear")
    write(folder, LINEAR)
    assert "Next: Linear.\n" in practice("check", "linear")[1]
    entries = remembered(folder)
    for name in names[first : first + 3]:
        entries[name] = entries["linear"]
    (folder / "progress.json").write_text(json.dumps(entries))
    assert "Next: softmax.\n" in practice("check", "linear")[1]
    for name in names[first:]:
        entries[name] = entries["linear"]
    (folder / "progress.json").write_text(json.dumps(entries))
    assert f"Next: {names[0]}.\n" in practice("check", "linear")[1]
    write(folder, "x = 1\n", "150_layer_norm")
    del entries["LayerNorm"]
    (folder / "progress.json").write_text(json.dumps(entries))
    assert "Next: LayerNorm.\n" in practice("check", "linear")[1]


def test_files_that_do_not_run_are_told_and_the_others_go_on(folder, practice):
    write(folder, LINEAR)
    write(folder, "def softmax(x:\n", "130_softmax")
    write(folder, "import numpy\n1 / 0\n", "150_layer_norm")
    status, printed = practice("check")
    assert status == 1
    assert "  130_softmax.py does not run: line 1: '(' was never closed\n" in printed
    line = "ZeroDivisionError: division by zero, line 2: 1 / 0\n"
    assert f"  150_layer_norm.py does not run: raises {line}" in printed
    assert re.search("^  linear +right$", printed, re.MULTILINE)
    assert practice("check", "softmax")[0] == 1


def test_hints_are_given_one_at_a_time(folder, practice):
    exercise = next(each for each in every_exercise() if each.name == "softmax")
    for number, hint in enumerate(exercise.hints, start=1):
        _, printed = practice("hint", "softmax")
        said = f"softmax, hint {number} of 3: {hint}"
        assert " ".join(printed.split()).startswith(" ".join(said.split()))
        assert remembered(folder)["softmax"]["hints"] == number
    status, printed = practice("hint", "softmax")
    assert (status, printed) == (
        0,
        "softmax: there are no more hints. Read on in the chapter 130_softmax: "
        "eq:softmax, eq:softmax-backward\n",
    )


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["check", "{}", "nobody"], "name: expected .*, got 'nobody'"),
        (["hint", "{}", "nobody"], "name: expected .*, got 'nobody'"),
        (["check", "{}/none"], "none: expected a folder made by 'transformer-practice start', .*"),
        (["hint", "{}/none", "linear"], "none: expected a folder made .*"),
        (["ledger", "{}/none"], "none: expected a folder made .*"),
        (["train", "{}/none", "encoder"], "none: expected a folder made .*"),
        (["train", "{}", "encoder"], "expected a function that is right, found none"),
        (
            ["train", "{}", "encoder", "--only", "softmax"],
            "softmax: expected a function to train with: not written yet",
        ),
        (
            ["train", "{}", "encoder", "--only", "RMSprop"],
            "RMSprop: expected a function to train with: the package has no such part",
        ),
        (["train", "{}", "encoder", "--only", "nobody"], "name: expected .*"),
        (["start", "{}/120_linear.py"], r".*File exists: .*120_linear.py.*"),
    ],
)
def test_bad_arguments_are_one_line(folder, capsys, arguments, message):
    arguments = [each.format(folder) for each in arguments]
    assert main([*arguments]) == 1
    captured = capsys.readouterr()
    assert re.fullmatch(f"error: (.*/)?{message}\n", captured.err)
    assert captured.out == ""
    assert not (folder / "none").exists()


@pytest.mark.parametrize(
    "command", [["check"], ["hint", "linear"], ["ledger"], ["check", "linear"]]
)
def test_a_broken_memory_is_one_line_and_is_kept(folder, practice, command):
    (folder / "progress.json").write_text('{"linear": 3}')
    before = texts(folder)
    name, *arguments = command
    assert practice(name, *arguments) == (
        1,
        f"error: {folder / 'progress.json'}: linear: expected a JSON object\n",
    )
    assert texts(folder) == before


@pytest.mark.parametrize("order", [["linear", "--watch"], ["--watch", "linear"]])
def test_a_name_may_stand_before_and_after_an_option(folder, practice, monkeypatch, order):
    def interrupted(folder, before):
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr("transformer_practice.commands.changes", interrupted)
    status, printed = practice("check", *order)
    assert status == 0
    assert printed.startswith("linear: not written yet\n")
    assert printed.endswith(f"watching {folder}; Ctrl-C ends it\nstopped\n")


@pytest.mark.parametrize("more", [["linear", "softmax"], ["--wacth"]])
def test_too_many_arguments_are_refused(folder, practice, more):
    with pytest.raises(SystemExit):
        practice("check", *more)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_file_is_examined_on_every_save_until_ctrl_c(folder):
    printed = []
    with subprocess.Popen(
        [sys.executable, "-m", "transformer_practice", "check"] + [str(folder), "--watch"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        reader = threading.Thread(target=lambda: printed.extend(process.stdout))
        reader.start()

        def wait_for(text):
            for _ in range(600):
                if text in "".join(printed):
                    return
                time.sleep(0.05)
            pytest.fail(f"{text!r} in {''.join(printed)!r}")

        try:
            wait_for("watching")
            for text, said in (
                (AVERAGED, "linear-bias-averaged"),
                ("def (", "line 1: invalid syntax"),
                (LINEAR, f"1 of {NUMBER} are yours"),
            ):
                write(folder, text)
                wait_for(said)
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            reader.join()
    assert printed[-1] == "stopped\n"
    later = "".join(printed).partition("watching")[2]
    assert later.count("120_linear.py: ") == 3
    assert "130_softmax.py: " not in later  # only what was saved


def scores(printed):
    """Read a table of scores: name to yours and the package's."""
    found = re.findall(r"^(\S.*?) {2,}([\d.]+%?)  +([\d.]+%?)$", printed, re.MULTILINE)
    return {name: (yours, package) for name, yours, package in found}


def test_a_training_with_one_part_of_ones_own(folder, practice, tmp_path, capsys):
    write(folder, LINEAR)
    out = tmp_path / "runs"
    status, printed = practice("train", "encoder", "--epochs", "1", "--out", str(out))
    assert status == 0
    assert printed.startswith("yours: linear\n")
    assert printed.endswith(f"saved in {out}/yours and {out}/package\n")
    assert "yours  the package's\n" in printed
    differ = any(yours != package for yours, package in scores(printed).values())
    assert ("The last digits may differ by rounding.\n" in printed) == differ

    assert core_main(["train", "encoder", "--out", str(tmp_path / "run"), "--epochs", "1"]) == 0
    expected = dict(re.findall(r"^(MSE.*?) +([\d.]+)$", capsys.readouterr().out, re.MULTILINE))
    assert len(expected) == 3
    for name, (yours, package) in scores(printed).items():
        assert package == expected.pop(name)
        assert float(yours) == pytest.approx(float(package), rel=1e-3)
    assert expected == {}
    checkpoint = "checkpoint.safetensors"
    assert (out / "package" / checkpoint).read_bytes() == (
        tmp_path / "run" / checkpoint
    ).read_bytes()
    assert Run(out / "yours").settings() == Run(tmp_path / "run").settings()


@pytest.mark.slow
def test_what_is_wrong_takes_no_part(folder, practice):
    write(folder, LINEAR)
    write(folder, "def softmax(x, keep=None):\n    return x, x\n", "130_softmax")
    write(folder, "import nothing_of_this_name\n", "150_layer_norm")
    status, printed = practice("train", "encoder", "--epochs", "1")
    assert status == 0
    assert "left out: softmax: wrong: softmax: " in printed
    assert "left out: layer_norm: wrong: 150_layer_norm.py does not run" in printed
    assert "\nyours: linear\n" in printed


@pytest.mark.slow
def test_what_a_training_does_not_call_is_told(folder, practice):
    write(folder, LINEAR)
    write(folder, GELU_TANH, "160_feed_forward")
    _, printed = practice("train", "encoder", "--epochs", "1")
    assert "yours: linear, gelu_tanh\n" in printed
    idle = "not called by this model's ops and layers, which may not need it: gelu_tanh"
    assert idle in " ".join(printed.split())
    _, printed = practice("train", "encoder", "--epochs", "1", "--only", "linear")
    assert "yours: linear\n" in printed
    assert "gelu_tanh" not in printed


def test_a_training_that_calls_nothing_of_ones_own_is_not_run_twice(folder, practice, tmp_path):
    write(folder, GELU_TANH, "160_feed_forward")
    out = tmp_path / "runs"
    status, printed = practice("train", "encoder", "--epochs", "1", "--out", str(out))
    assert status == 1
    message = "error: expected functions that this training calls, got only gelu_tanh\n"
    assert printed == f"yours: gelu_tanh\n{message}"
    assert not (out / "package").exists()


@pytest.mark.slow
def test_of_many_that_are_not_called_a_few_are_named(folder, practice):
    write_everything(folder)
    _, printed = practice("train", "encoder", "--epochs", "1")
    _, _, idle = " ".join(printed.split()).partition("which may not need it: ")
    assert re.fullmatch(r"(\w+, ){4}\w+ and \d+ more", idle)


@pytest.mark.thorough
def test_double_precision_is_told(folder, practice):
    write(folder, LINEAR.replace("x @ weight + bias", "x @ weight + np.float64(1) * bias"))
    status, printed = practice("train", "encoder", "--epochs", "1")
    assert status == 0
    assert "given float32 and returned float64: linear." in printed


def test_what_fails_in_a_training_names_the_function_and_the_line(folder, practice):
    late = "    if len(x) > 30:\n        return 1 / 0\n"
    write(folder, LINEAR.replace("    return x @ weight", late + "    return x @ weight"))
    status, printed = practice("train", "encoder", "--epochs", "1")
    assert status == 1
    message = "linear raises ZeroDivisionError: division by zero line 6: return 1 / 0"
    assert " ".join(printed.split()).endswith(message)


def test_a_folder_in_use_is_told_before_the_training(folder, practice, tmp_path):
    write(folder, LINEAR)
    status, printed = practice("train", "encoder", "--out", str(tmp_path))
    assert status == 1
    assert f"out: expected a new or empty folder, got {tmp_path}\n" in printed


def write_everything(folder):
    """Import every function of the package into the workspace, under the name that is asked for."""
    for chapter, exercises in chapters().items():
        lines = []
        for exercise in exercises:
            if places(exercise) and exercise.name != GROUPED:
                functions = filter(None, (exercise.forward, exercise.backward))
                for title, function in zip(titles_of(exercise), functions, strict=True):
                    own = title.partition(".")[0]
                    right = function.__qualname__.partition(".")[0]
                    lines.append(f"from {function.__module__} import {right} as {own}\n")
        write(folder, "".join(lines), chapter)


def shrink(monkeypatch):
    """Make the models that read a text small."""
    for recipe, vocabulary in ((bert, 60), (gpt, 300)):
        small = {"length": 16, "layers": 1, "vocabulary": vocabulary, "batch": 8}
        for name, value in small.items():
            monkeypatch.setitem(recipe.DEFAULTS, name, value)


def cats(folder):
    """Write a text into a folder; return its path."""
    rng = np.random.default_rng(0)
    sentences = ["the cat will chase a mouse .", "one mouse may eat some cheese ."]
    sentences += ["a dog can bite his bone ."]
    text = folder / "cats.txt"
    text.write_text("\n\n".join(" ".join(rng.choice(sentences, 40)) for _ in range(60)))
    return text


@pytest.mark.thorough
def test_a_gpt_writes_what_the_readers_functions_have_taught_it(
    folder, practice, tmp_path, monkeypatch
):
    shrink(monkeypatch)
    monkeypatch.setitem(gpt.DEFAULTS, "spec", gpt.DEFAULTS["spec"] | {"width": 24})
    write(folder, LINEAR)
    write(folder, SILU, "530_gated_feed_forward")
    out = tmp_path / "runs"
    options = "--minutes", "0.005", "--text", str(cats(tmp_path)), "--out", str(out)
    status, printed = practice("train", "gpt", *options)
    assert status == 0, printed
    assert printed.startswith("yours: linear, silu\n")
    assert len(scores(printed)) == 3
    assert Run(out / "package").settings()["steps"] == len(Run(out / "yours").history())
    others = re.search(r"^the package's: (.*?)$\n(?=not|given|\n)", printed, re.M | re.S)[1]
    named = others.replace("\n", " ").split(", ")
    assert {"softmax", "attention", "rotary", "RmsNorm", "Muon"} <= {*named}
    assert not {"linear", "silu", "relu"} & {*named}

    pattern = r"^written with your functions:\nReturn the(.*?)\n\nsaved"
    text = re.search(pattern, printed, re.M | re.S)[1]
    model, pairs = gpt.load(out / "yours")
    rng = np.random.default_rng(0)
    assert text == "".join(writing.write(model, pairs, "Return the", rng, writing.USUAL))


def test_a_gpt_of_wrong_functions_is_told_what_is_wrong(folder, practice):
    write(folder, LINEAR.replace("weight.T", "weight"))
    write(folder, SILU.replace(" * (1 - s)", ""), "530_gated_feed_forward")
    status, printed = practice("train", "gpt", "--steps", "1")
    assert status == 1
    assert "left out: silu: wrong: silu_backward: dx is wrong" in printed
    assert "left out: linear: wrong: linear_backward: raises" in printed
    assert printed.endswith("error: expected a function that is right, found none\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    "model, options",
    [
        ("encoder", ["--epochs", "2"]),
        ("dates", ["--steps", "2"]),
        ("bert", ["--steps", "2", "--text", "{}"]),
        ("gpt", ["--steps", "2", "--text", "{}"]),
    ],
)
def test_with_all_parts_of_ones_own_a_model_is_the_same_to_the_bit(
    folder, practice, tmp_path, monkeypatch, model, options
):
    monkeypatch.setitem(dates.DEFAULTS, "batch", 4)
    monkeypatch.setattr(dates, "UNSEEN", 20)
    shrink(monkeypatch)
    out = tmp_path / "runs"
    write_everything(folder)

    options = [option.format(cats(tmp_path)) for option in options]
    status, printed = practice("train", model, *options, "--out", str(out))
    assert status == 0, printed
    assert "left out: " not in printed
    assert len(scores(printed)) > 1
    assert all(yours == package for yours, package in scores(printed).values())
    name = "checkpoint.safetensors"
    yours, package = ((out / run / name).read_bytes() for run in ("yours", "package"))
    assert yours == package


@pytest.mark.parametrize("subcommand", ["start", "check", "hint", "ledger", "train"])
def test_help_names_what_is_asked_for(capsys, subcommand):
    with pytest.raises(SystemExit) as exit_:
        main([subcommand, "--help"])
    assert exit_.value.code == 0
    assert "FOLDER" in capsys.readouterr().out


def test_the_trainings_have_the_settings_of_train(capsys):
    options = {}
    for call, command in ((core_main, ["train"]), (main, ["train", "FOLDER"])):
        for model in ("encoder", "dates", "bert", "gpt"):
            with pytest.raises(SystemExit):
                call([*command, model, "--help"])
            found = set(re.findall("^  (--[a-z-]+)", capsys.readouterr().out, re.MULTILINE))
            options.setdefault(model, []).append(found)
    for alone, practising in options.values():
        assert practising - {"--only"} == alone - {"--resume", "--tensor-parallel", "--zero-stage"}


def masked(text):
    """Return the lines of an output without its numbers and spaces."""
    return [re.sub(r"\d\S*", "#", " ".join(line.split())) for line in text.splitlines()]


@pytest.mark.slow
def test_the_page_shows_a_session_as_it_is(tmp_path, monkeypatch, capsys):
    page = read(ROOT / "book/practice.md")
    blocks = re.findall(r"^```(console|python)\n(.*?)^```$", page, re.M | re.S)
    stub, wrong, mend = (text for kind, text in blocks[:9] if kind == "python")
    right = re.sub(r"    mean = dy.*(?=    leading)", mend, wrong, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine" / file_of("150_layer_norm")
    codes = iter([wrong, wrong, right])
    shown = [text for kind, text in blocks if kind == "console"]
    assert len(shown) == 6
    for text in shown:
        command, _, expected = text.partition("\n")
        arguments = command.removeprefix("$ python -m transformer_practice ").split()
        if "check" in arguments:
            path.write_text(f"import numpy as np\n\n\n{next(codes)}")
        main(arguments)
        printed = masked(capsys.readouterr().out)
        for line in masked(expected):
            assert line == "..." or line in printed, line
        if "start" in arguments:
            assert stub in path.read_text()
    assert f" of {NUMBER} are yours" in page
