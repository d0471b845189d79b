import os
import re
import shutil
import time
from itertools import count

import numpy as np
import pytest
from helpers.small_trainings import cut, edit

from transformer_core.__main__ import main
from transformer_core.tasks.bert import load, recipe
from transformer_core.tasks.bert.masking import mask
from transformer_core.tasks.bert.mini_bert import measure
from transformer_core.training import Run

FIGURE = r"^held-out masked tokens restored by {} +(\d+\.\d\d)%$"


@pytest.fixture
def model():
    return "bert"


@pytest.mark.slow
def test_it_learns_and_prints_what_it_learned(tmp_path, train, capsys):
    folder = tmp_path / "run"
    options = ["--steps", "400", "--learning-rate", "0.004"]
    assert train(folder, *options) == 0
    printed = capsys.readouterr().out
    bert, top = (
        float(re.search(FIGURE.format(name), printed, re.MULTILINE)[1])
        for name in ("Mini-BERT", "the most frequent token")
    )
    assert re.search(FIGURE.format("two-sided trigrams"), printed, re.MULTILINE)
    assert printed.endswith(f"saved in {folder}\n")
    assert bert > 2 * top

    model, _ = load(folder)
    held_out = dict(Run(folder).arrays("blocks.safetensors"))["held_out"]
    inputs, masked = mask(held_out, 60, np.random.default_rng([0, 2]))
    _, accuracy = measure(model, inputs, held_out, masked)
    assert bert == pytest.approx(100 * accuracy, abs=0.006)


def test_a_run_is_on_disk(uninterrupted, text, files):
    assert set(files(uninterrupted)) == {
        "settings.json",
        "history.json",
        "checkpoint.safetensors",
        "before_decay.safetensors",
        "tokenizer.json",
        "blocks.safetensors",
        ".lock",
    }
    run = Run(uninterrupted)
    settings = run.settings()
    assert settings["model"] == "bert"
    assert settings["text"] == text
    assert (settings["steps"], settings["minutes"]) == (12, None)
    assert [record["step"] for record in run.history()] == list(range(1, 13))


def parameters(folder):
    return {name: array.tobytes() for name, array in Run(folder).arrays()}


@pytest.mark.slow
def test_a_resumed_run_does_not_need_its_text(tmp_path, text, train, uninterrupted):
    copy = tmp_path / "copy" / "cats.txt"
    copy.parent.mkdir()
    shutil.copy(text, copy)
    folder = tmp_path / "run"
    assert train(folder, "--text", str(copy), "--steps", "12") == 0
    copy.unlink()
    assert train(folder, "--resume") == 0
    assert parameters(folder) == parameters(uninterrupted)


# Training for a time


@pytest.mark.thorough
def test_minutes_are_kept(tmp_path, train, capsys):
    begun = time.perf_counter()
    assert train(tmp_path / "run", "--minutes", "0.02") == 0
    assert time.perf_counter() - begun > 1.2
    warning = "0.02 minutes are too short to train well: the recipe takes 5\n"
    assert capsys.readouterr().err == warning
    history = Run(tmp_path / "run").history()
    assert len(history) > 10
    assert history[-1]["seconds"] >= 1.2 > history[-2]["seconds"]


def test_the_learning_rate_has_fallen_when_the_time_is_over(tmp_path, train, monkeypatch):
    rates = []
    update = recipe.AdamW.step

    def noting(optimizer, grads, max_norm):
        rates.append(optimizer.learning_rate)
        update(optimizer, grads, max_norm)

    clock = count(step=0.03)  # the same pace on every machine
    monkeypatch.setattr("transformer_core.training.recipe.perf_counter", lambda: next(clock))
    monkeypatch.setattr(recipe.AdamW, "step", noting)
    assert train(tmp_path / "run", "--minutes", "0.02") == 0
    peak = int(np.argmax(rates))
    assert 0 < peak < len(rates) / 2
    assert rates[-1] < 0.2 * rates[peak]


@pytest.mark.slow
def test_a_resumed_run_has_the_time_that_was_left(tmp_path, train, ctrl_c, files):
    folder = tmp_path / "run"
    with ctrl_c(5):
        assert train(folder, "--minutes", "0.02") == 130
    time.sleep(1.5)  # does not count
    assert train(folder, "--resume") == 0
    seconds = [record["seconds"] for record in Run(folder).history()]
    assert seconds == sorted(seconds)
    assert len(seconds) > 10
    assert seconds[-1] >= 1.2 > seconds[-2]

    before = files(folder)
    assert train(folder, "--resume") == 0
    assert files(folder) == before


# What can go wrong


@pytest.mark.parametrize(
    "content, message",
    [
        ({}, r"expected \.txt, \.md, \.rst files in the folder, found none"),
        ({"a.txt": b" \n"}, "expected text, found only white space"),
        ({"a.txt": b"na\xefve"}, "a.txt: expected text in UTF-8, got byte 0xef at 2"),
        ({"a.txt": b"one document"}, "to hold 5% out, got 1"),
        (
            {f"{k}.txt": b"cats chase dogs " * (k + 9) for k in range(60)},
            r"a vocabulary of 60, got \d+ different words, which make \d+ pieces",
        ),
    ],
)
def test_text_that_cannot_be_used_is_one_line_and_leaves_no_folder(
    tmp_path, train, one_line, content, message
):
    folder = tmp_path / "text"
    folder.mkdir()
    for name, octets in content.items():
        (folder / name).write_bytes(octets)
    one_line(train(tmp_path / "run", "--text", str(folder)), f".*{message}")
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(os.name == "nt", reason="names in bytes are those of POSIX")
def test_a_file_name_may_be_of_any_encoding(tmp_path, text, train):
    path = tmp_path / os.fsdecode(b"gar\xe7on.txt")
    shutil.copy(text, path)
    assert train(tmp_path / "run", "--text", str(path), "--steps", "1") == 0
    assert Run(tmp_path / "run").settings()["text"] == str(path)


# fill


def test_fill_prints_words_with_their_probabilities(uninterrupted, capsys):
    assert main(["fill", str(uninterrupted), "the [MASK] will chase", "--top", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all(re.fullmatch(r" *\d+\.\d\d%  \S+", line) for line in lines)


def test_fill_numbers_the_masks_if_there_are_several(uninterrupted, capsys):
    assert main(["fill", str(uninterrupted), "the [MASK] will ___"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [lines[0], lines[6]] == ["[MASK] 1", "[MASK] 2"]
    assert len(lines) == 12


@pytest.mark.slow
@pytest.mark.parametrize(
    "sentence, damage, message",
    [
        ("the cat", None, r"sentence: expected a \[MASK\], got 'the cat'"),
        ("[MASK] " * 15, None, "expected at most 14 pieces of words, got 15"),
        ("[MASK]", cut("tokenizer.json"), "tokenizer.json: expected the file that.*"),
        ("[MASK]", cut("checkpoint.safetensors"), "expected a whole safetensors .*"),
        ("[MASK] \udcff", None, "expected Unicode characters, got .*"),
        ("[MASK]", edit("model", "dates"), "expected a run of 'train bert', got .*"),
    ],
)
def test_what_cannot_be_filled_is_one_line(uninterrupted, one_line, sentence, damage, message):
    if damage:
        damage(uninterrupted)
    one_line(main(["fill", str(uninterrupted), sentence]), f".*{message}")


def test_fill_without_a_run_is_one_line(tmp_path, one_line):
    status = main(["fill", str(tmp_path), "[MASK]"])
    one_line(status, ".*settings.json: expected the file of a run.*")
