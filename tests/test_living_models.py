"""Weights in 8 bits: what rounding moves, and that the files are those that were measured."""

import re
from hashlib import sha256

import numpy as np
import pytest
from helpers.texts import ROOT, read

import studies
from book.living_models import in_eight_bits, read_script, write_script
from studies import page_bert, page_gpt

SETTINGS = {"spec": {"width": 3}, "pieces": ["a", "##é", '"', "</script>"]}


def parameters(seed=1):
    rng = np.random.default_rng(seed)
    return {
        "table": rng.normal(size=(5, 3)).astype(np.float32) * [[1], [9], [0.01], [0], [1]],
        "layer.weight": rng.normal(size=(3, 7)).astype(np.float32),
        "layer.bias": rng.normal(size=7).astype(np.float32),
    }


def test_only_matrices_are_rounded():
    before = parameters()
    after = in_eight_bits(before)
    assert list(after) == list(before)
    for name, array in after.items():
        assert array.dtype == np.float32 and array.shape == before[name].shape
        assert (array == before[name]).all() == (name == "layer.bias")


def test_what_is_read_is_what_eight_bits_leave(tmp_path):
    write_script(tmp_path / "model.js", "model", parameters(), SETTINGS)
    settings, found = read_script(tmp_path / "model.js")
    assert settings == SETTINGS
    for name, array in in_eight_bits(parameters()).items():
        assert np.array_equal(found[name], array)
    assert list(found) == list(parameters())


def test_the_bytes_are_those_that_the_page_reads(tmp_path):
    write_script(tmp_path / "m.js", "m", {"w": np.array([[2.0, -254]])}, {})
    assert read(tmp_path / "m.js") == (
        'models.register("m",{"settings":{},"shapes":{"w":[1,2]},"data":"AAAAQAGB"});\n'
    )


def test_the_same_parameters_give_the_same_file(tmp_path):
    for name in ("one.js", "two.js"):
        write_script(tmp_path / name, "model", parameters(), SETTINGS)
    assert read(tmp_path / "one.js") == read(tmp_path / "two.js")


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-20],
        lambda text: text.replace('"data":"', '"data":"AAAA'),
        lambda text: re.sub('.{8}"}', '"}', text),
        lambda text: text.replace("[5,3]", "[50,3]"),
        lambda text: text.replace("shapes", "forms"),
        lambda text: "",
    ],
)
def test_a_damaged_file_is_named(tmp_path, damage):
    path = tmp_path / "model.js"
    write_script(path, "model", parameters(), SETTINGS)
    path.write_text(damage(read(path)))
    with pytest.raises(ValueError, match="model.js: expected a model in 8 bits"):
        read_script(path)


def stored(study, script):
    """The run of a study, and the file with the weights that it wrote."""
    (run,) = studies.results(study)
    weights = ROOT / "book/_static/models" / script
    assert run["found"]["weights"] == sha256(weights.read_bytes()).hexdigest()
    return run, weights


def test_the_weights_of_the_reader_are_those_that_its_study_wrote():
    run, _ = stored("page_dates", "date_reader.js")
    steps = run["settings"]["steps"]
    assert len(run["found"]["losses"]) == steps == run["found"]["looks"]["step"][-1]
    found = {str(run["settings"]): run["found"] for run in studies.results("dates")}
    whole = found[str({"kind": "whole", "seed": 0})]
    before, rounded = run["found"]["right"]
    assert abs(whole["right"] - before) < 0.002 and abs(rounded - before) < 0.002


def test_the_weights_of_mini_bert_are_those_that_its_study_wrote():
    run, weights = stored("page_bert", "mini_bert.js")
    settings, parameters = read_script(weights)
    assert parameters["tokens.table"].shape == (len(settings["pieces"]), settings["spec"]["width"])
    steps = run["settings"]["steps"]
    assert (
        len(run["found"]["losses"]) * page_bert.MEAN == steps == run["found"]["looks"]["step"][-1]
    )
    before, rounded = run["found"]["loss"]
    assert abs(rounded - before) < 0.01


def test_the_weights_of_the_gpt_are_those_that_its_study_wrote():
    run, weights = stored("page_gpt", "gpt.js")
    settings, parameters = read_script(weights)
    assert run["found"]["parameters"] == sum(array.size for array in parameters.values())
    for name in ("length", "layers", "vocabulary"):
        assert settings[name] == page_gpt.SIZES[name], name
    before, rounded = run["found"]["bits"]
    assert abs(rounded - before) < 0.002
