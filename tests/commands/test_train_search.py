import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from helpers.small_trainings import edit

from transformer_core.__main__ import main
from transformer_core.foundation.files import from_safetensors, to_safetensors
from transformer_core.interop import load as load_published
from transformer_core.interop import save
from transformer_core.models import Bert, BertEncoder
from transformer_core.ranks import on_threads
from transformer_core.tasks import bert
from transformer_core.tasks.search import load, recipe
from transformer_core.tasks.texts.documents import read_documents
from transformer_core.training import Run, train_on_disk

FIGURE = r"^mean reciprocal rank of held-out sentences, {} +(\d\.\d\d\d)$"


@pytest.fixture
def model():
    return "search"


@pytest.mark.slow
def test_it_learns_prints_what_it_learned_and_finds(tmp_path, train, capsys):
    run = tmp_path / "run"
    assert train(run, "--steps", "150") == 0
    printed = capsys.readouterr().out
    trained, before, words = (
        float(re.search(FIGURE.format(name), printed, re.MULTILINE)[1])
        for name in ("as trained", "before", "BM25")
    )
    assert trained > 0.9 > before + 0.1 and words == 1
    assert main(["search", str(run), "of hen and attic", "--top", "2"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r" \d\.\d{3}  attic hen.txt 0: .*", first)
    assert float(first[:6]) >= float(second[:6])


def test_a_run_is_on_disk_and_keeps_its_index(uninterrupted, files, capsys):
    names = {"settings.json", "history.json", "checkpoint.safetensors", "tokenizer.json"}
    names |= {"start.safetensors", "documents.json", ".lock"}
    assert set(files(uninterrupted)) == names
    found = load(uninterrupted).find("the cat", 3)
    assert set(files(uninterrupted)) == names | {recipe.INDEX}
    before = files(uninterrupted)
    assert load(uninterrupted).find("the cat", 3) == found
    assert files(uninterrupted) == before
    # One of another checkpoint is computed anew.
    arrays, made = from_safetensors(recipe.INDEX, before[recipe.INDEX])
    assert made["steps"] == Run(uninterrupted).steps()
    Run(uninterrupted).write(recipe.INDEX, to_safetensors({"vectors": -arrays["vectors"]}, 3))
    assert load(uninterrupted).find("the cat", 3) == found
    assert files(uninterrupted) == before


def test_a_small_text_has_a_small_vocabulary(tmp_path, train, monkeypatch):
    monkeypatch.setitem(recipe.DEFAULTS, "vocabulary", 8192)
    assert train(tmp_path / "run", "--steps", "2") == 0
    search = load(tmp_path / "run")
    size = search.tokenizer.get_vocab_size()
    assert size < 200 and len(search.model.encoder.tokens.table) == size
    assert train(tmp_path / "run", "--resume") == 0


def test_no_word_of_the_text_is_lost_in_the_passages(uninterrupted, places):
    search = load(uninterrupted)
    words = " ".join(document.text for document in read_documents(places)).split()
    assert " ".join(passage.text for passage in search.passages).split() == words
    assert np.linalg.norm(search.vectors, axis=1) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("kind", ["run", pytest.param("folder", marks=pytest.mark.thorough)])
def test_it_begins_with_a_bert(tmp_path, train, whole, kind):
    base, _ = whole("bert")
    model, tokenizer = bert.load(base)
    if kind == "folder":
        base, rng = tmp_path / "bert", np.random.default_rng(1)
        published = Bert(model.spec, model.stack, rng, True, 2, True, False, True)
        save(published, recipe.with_ends(tokenizer), base)
        model, _ = load_published(base)
    options = "--base", str(base), "--steps", "2", "--learning-rate", "1e-9"
    assert train(tmp_path / "run", *options) == 0
    search = load(tmp_path / "run")
    arrays = model.parameters()
    for name, array in search.model.parameters().items():
        assert array == pytest.approx(arrays[name], abs=1e-6), name
    assert train(tmp_path / "run", "--resume") == 0  # without looking at the base


@pytest.mark.parametrize("lack", ["another model", "no tokenizer"])
def test_what_cannot_be_begun_with_is_one_line(tmp_path, train, whole, one_line, lack):
    if lack == "another model":
        base, _ = whole("gpt")
        message = ".*expected a run of 'train bert', got one of 'train gpt'"
    else:
        base, message = tmp_path / "base", "base: expected a tokenizer.json in .*, got none"
        save(bert.load(whole("bert")[0])[0], None, base)
    one_line(train(tmp_path / "run", "--base", str(base)), message)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("dtype", "status"), [("float32", 0), ("float64", 1)])
def test_what_a_base_needs_is_said_before_there_is_a_folder(
    tmp_path, train, whole, capsys, monkeypatch, dtype, status
):
    """In double precision GELU needs SciPy."""
    base = tmp_path / "base"
    model, tokenizer = bert.load(whole("bert")[0])
    spec = replace(model.spec, feed_forward="gelu", dtype=dtype)
    rng = np.random.default_rng(1)
    save(BertEncoder(spec, model.stack, rng, 2, True, False), recipe.with_ends(tokenizer), base)
    for name in ("scipy", "scipy.special"):
        monkeypatch.setitem(sys.modules, name, None)
    assert train(tmp_path / "run", "--base", str(base), "--steps", "2") == status
    assert (tmp_path / "run").exists() == (status == 0)
    if status:
        install = "python -m pip install 'transformer-core[gelu]'"
        assert capsys.readouterr().err == f"error: scipy is not installed, try: {install}\n"


def test_a_text_of_few_passages_is_refused(tmp_path, train, one_line):
    few = tmp_path / "few.txt"
    few.write_text("The cat sees the dog. The dog sees the cat, and then nothing else at all.\n")
    expected = "text: expected 8 or more passages to train on .*, got . and ."
    one_line(train(tmp_path / "run", "--text", str(few)), expected)


def test_ranks_are_refused(tmp_path, train, places):
    def work(c):
        with pytest.raises(ValueError, match="expected no scheme over ranks.*got 2 processes"):
            train_on_disk(recipe.RECIPE, tmp_path / "two", {"text": places, "steps": 2}, False, c)

    on_threads(2, work)


@pytest.mark.parametrize(
    "arguments, damage, message",
    [
        (["--top", "0"], None, "top: expected a whole number of at least 1, got 0"),
        ([], edit("model", "gpt"), ".*expected a run of 'train search', got .*"),
        ([], lambda folder: (folder / "documents.json").write_text("[]"), ".*documents.json.*"),
    ],
)
def test_what_cannot_be_searched_is_one_line(uninterrupted, one_line, arguments, damage, message):
    if damage:
        damage(uninterrupted)
    one_line(main(["search", str(uninterrupted), "cats", *arguments]), message)
