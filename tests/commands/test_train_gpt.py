import re

import pytest
from helpers.small_trainings import edit

from transformer_core.__main__ import main
from transformer_core.ranks import on_threads
from transformer_core.tasks.gpt import load, recipe
from transformer_core.training import Run, train_on_disk

FIGURE = r"^bits per byte of held-out names, {} +(\d+\.\d\d\d)$"


@pytest.fixture
def model():
    return "gpt"


@pytest.mark.slow
def test_it_learns_and_prints_what_it_learned(tmp_path, train, capsys):
    assert train(tmp_path / "run", "--steps", "300") == 0
    printed = capsys.readouterr().out
    gpt, counts, both = (
        float(re.search(FIGURE.format(name), printed, re.MULTILINE)[1])
        for name in ("the GPT", "Kneser-Ney 5-grams", r"both, \d+% GPT")
    )
    history = Run(tmp_path / "run").history()
    assert history[-1]["loss"] < 0.5 * history[0]["loss"]
    assert counts < gpt < 0.5  # sentences that repeat are easy to count
    assert both < 1.1 * counts


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [{"zero_stage": 2}, {"tensor_parallel": 2}])
def test_adamw_alone_is_cut_over_ranks_and_opens_on_one(tmp_path, train, text, scheme):
    given = {"text": text, "steps": 4, "optimizer": "adamw"}
    assert train(tmp_path / "one", "--steps", "4", "--optimizer", "adamw") == 0

    def work(c):
        train_on_disk(recipe.RECIPE, tmp_path / "two", given, False, c, scheme)

    on_threads(2, work)
    one, two = ([r["loss"] for r in Run(tmp_path / name).history()] for name in ("one", "two"))
    assert two == pytest.approx(one, rel=1e-4)
    (alone, _), (opened, _) = load(tmp_path / "one"), load(tmp_path / "two")
    for name, array in alone.parameters().items():
        assert opened.parameters()[name] == pytest.approx(array, abs=1e-4), name
    assert train(tmp_path / "two", "--resume", "--steps", "6") == 0
    assert Run(tmp_path / "two").steps() == 6


def test_a_table_of_pairs_is_trained_and_writes(tmp_path, train, capsys):
    assert train(tmp_path / "run", "--steps", "3", "--pairs", "64") == 0
    gpt, _ = load(tmp_path / "run")
    assert gpt.parameters()["pairs.table"].any(axis=1).sum() > 10
    assert main(["write", str(tmp_path / "run"), "The cats ", "--tokens", "5"]) == 0


def test_the_matrices_of_the_decoder_have_muon_and_the_rest_adamw(uninterrupted):
    gpt, _ = load(uninterrupted)
    optimizer = recipe.make_optimizer(gpt.parameters, Run(uninterrupted).settings())
    averages = {name.partition(".")[0]: [] for name in optimizer.state()}
    for name in optimizer.state():
        average, _, parameter = name.partition(".")
        averages[average].append(parameter)
    assert averages["first_moment"] == averages["second_moment"]
    matrices = {n for n, a in gpt.parameters().items() if a.ndim == 2}
    assert {*averages["momentum"]} == matrices - {"tokens.table"}
    assert {*averages["first_moment"]} == gpt.parameters().keys() - {*averages["momentum"]}


# write


def test_write_streams_and_a_seed_gives_the_same_text(uninterrupted, capsys):
    texts = []
    for seed in ("3", "3", "4"):
        options = "--seed", seed, "--tokens", "9", "--temperature", "2"
        assert main(["write", str(uninterrupted), "the cat ", *options]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2]
    assert all(text.startswith("the cat") and text.endswith("\n") for text in texts)


@pytest.mark.parametrize(
    "options, message",
    [
        (["--temperature", "-1"], "temperature: expected a number of at least 0, got -1.0"),
        (["--top-p", "0"], "top_p: expected a number above 0, up to 1, got 0.0"),
        (["--seed", "-1"], "seed: expected a whole number of at least 0, got -1"),
    ],
)
def test_bad_options_are_one_line(one_line, options, message):
    one_line(main(["write", "no run", "the cat", *options]), re.escape(message))


@pytest.mark.parametrize(
    "prompt, damage, message",
    [
        ("cats " * 20, None, "prompt: expected at most 15 tokens, got .*"),
        ("\udcff", None, ".*expected.*"),
        ("cats", edit("model", "dates"), "expected a run of 'train gpt', got .*"),
    ],
)
def test_what_cannot_be_written_is_one_line(uninterrupted, one_line, prompt, damage, message):
    if damage:
        damage(uninterrupted)
    one_line(main(["write", str(uninterrupted), prompt]), f".*{message}")
