"""The GPT in one file, which ``make onefile`` copies and the book offers for download."""

import re
import runpy
import subprocess
import sys

import numpy as np
import pytest
from helpers.texts import ROOT, imported, read

PATH = ROOT / "book/gpt.py"


@pytest.fixture(scope="module")
def gpt():
    return runpy.run_path(str(PATH))


@pytest.fixture
def model(gpt):
    """Parameters at a generic point, and two sequences."""
    rng = np.random.default_rng(5)
    p = gpt["draw_parameters"](rng, d=12, v=30, layers=3, hidden=10)
    p = {name: a + rng.normal(0, 0.3, a.shape) for name, a in p.items()}
    return p, rng.integers(30, size=(2, 9))


def wrong(tmp_path, old, new):
    """The file with another text in it, where it has this one once."""
    text = read(PATH)
    assert text.count(old) == 1
    path = tmp_path / "gpt.py"
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path


def test_it_has_at_most_300_lines():
    assert len(read(PATH).splitlines()) <= 300


def test_it_imports_numpy_and_the_standard_library_only():
    assert imported(read(PATH)) - sys.stdlib_module_names == {"numpy"}


def test_every_equation_that_it_names_is_in_the_book():
    named = set(re.findall(r"\((eq:[a-z0-9-]+)\)", read(PATH)))
    book = "".join(map(read, (ROOT / "book").glob("*.md")))
    assert len(named) > 10
    assert {label for label in named if f"({label})\n" not in book} == set()


def test_every_gradient_is_right_in_any_entry(gpt, model):
    p, ids = model
    rng = np.random.default_rng(6)
    _, grads = gpt["loss_and_gradients"](p, ids)
    assert grads.keys() == p.keys()
    for name, a in p.items():
        for at in zip(*(rng.integers(n, size=6) for n in a.shape), strict=True):
            moved = a.astype(complex)
            moved[at] += 1e-20j
            logits, _ = gpt["forward"](p | {name: moved}, ids[:, :-1])
            expected = gpt["cross_entropy"](logits, ids[:, 1:])[0].imag / 1e-20
            assert abs(grads[name][at] - expected) < 1e-13


def test_no_logit_depends_on_a_later_token(gpt, model):
    p, ids = model
    other = ids.copy()
    other[:, 5] = (other[:, 5] + 1) % 30
    logits, others = (gpt["forward"](p, each)[0] for each in (ids, other))
    np.testing.assert_array_equal(logits[:, :5], others[:, :5])
    assert (abs(logits - others)[:, 5:].max(-1) > 1e-6).all()


def test_with_a_cache_it_computes_the_same(gpt, model):
    p, ids = model
    expected, _ = gpt["forward"](p, ids)
    logits, (*_, kept) = gpt["forward"](p, ids[:, :4])
    parts = [logits]
    for t in range(4, ids.shape[1]):
        logits, (*_, kept) = gpt["forward"](p, ids[:, t : t + 1], kept)
        parts.append(logits)
    np.testing.assert_allclose(np.concatenate(parts, 1), expected, rtol=0, atol=1e-12)


def test_pairs_are_merged_from_left_to_right(gpt):
    def merged(text):
        return gpt["merge"](np.frombuffer(text, np.uint8).astype(int), (97, 97), 256).tolist()

    assert merged(b"aaaaa") == [256, 256, 97]
    assert merged(b"aa aaa") == [256, 32, 256, 97]
    assert merged(b"b") == [98]


def test_its_tokens_are_the_text(gpt):
    text = "the cats chase the mice, über 🐭 the mice chase\n" * 20
    tokens, pairs, ids = gpt["learn_pairs"](text, 280)
    assert len(tokens) == 280 and len(pairs) == 24
    assert b"".join(tokens[i] for i in ids).decode() == text
    assert gpt["encode"](text, pairs).tolist() == ids.tolist()
    assert not any(b" " in t[1:] for t in tokens)
    few, _, _ = gpt["learn_pairs"]("abcd", 280)
    assert len(few) == 256


@pytest.mark.slow
def test_it_learns_and_writes(gpt, capsys, monkeypatch):
    monkeypatch.setitem(gpt["train"].__globals__, "BATCH", 4)
    monkeypatch.setitem(gpt["train"].__globals__, "T", 32)
    text = "The cats chase the mice. The mice flee the cats.\n" * 400
    tokens, pairs, ids = gpt["learn_pairs"](text, 300)
    rng = np.random.default_rng(3)
    p = gpt["draw_parameters"](rng, d=32, v=len(tokens), layers=1, hidden=32)
    p = {name: a.astype(np.float32) for name, a in p.items()}
    before = gpt["bits_per_byte"](p, ids[:1000], tokens)
    gpt["train"](p, ids, rng, steps=150)
    assert "step 150 of 150, loss " in capsys.readouterr().out
    after = gpt["bits_per_byte"](p, ids[:1000], tokens)
    assert after < before / 3
    assert {a.dtype for a in p.values()} == {np.dtype("float32")}
    start = gpt["encode"]("The cats", pairs)
    written = list(gpt["write"](p, start, rng, temperature=0.01))
    assert len(written) == 32 - len(start)
    assert b"".join(tokens[i] for i in written).startswith(b" chase the mice. The mice flee")


@pytest.mark.parametrize(
    "old, new",
    [
        ("g - x_hat * (g * x_hat).mean(-1, keepdims=True)", "g"),
        ("rotary(dkey, 0, -1)", "dkey"),
        ("@ query).sum(2, keepdims=True)", "@ query).mean(2, keepdims=True)"),
        ("s * (1 + gate * (1 - s))", "s"),
        ('    np.add.at(grads["embedding"], ids, dx)', "    #"),
        ("da_q + da_k + da_v", "da_q + da_k"),
    ],
)
def test_it_does_not_train_on_a_wrong_gradient(tmp_path, monkeypatch, old, new):
    monkeypatch.setattr(sys, "argv", ["gpt.py"])
    with pytest.raises(SystemExit, match="a gradient is wrong"):
        runpy.run_path(str(wrong(tmp_path, old, new)), run_name="__main__")


@pytest.mark.parametrize("text, prompt", [("short", "Return"), ("long text " * 3000, "")])
def test_what_it_cannot_read_is_named(gpt, tmp_path, text, prompt):
    path = tmp_path / "text.txt"
    path.write_text(text, encoding="utf-8")
    expected = "expected 5120 tokens of text and 1 to 127 of a prompt, got"
    with pytest.raises(SystemExit, match=expected):
        gpt["main"](path, prompt)


@pytest.mark.slow
def test_in_an_empty_folder_it_reads_a_text_and_goes_on_from_the_prompt(tmp_path):
    path = wrong(tmp_path, "BATCH, STEPS, RATE, EPS = 16, 600,", "BATCH, STEPS, RATE, EPS = 2, 3,")
    (tmp_path / "text.txt").write_text("naïve cats chase mice\n" * 4000, encoding="utf-8")
    command = [sys.executable, str(path), "text.txt", "naïve "]
    printed = subprocess.check_output(command, cwd=tmp_path).decode()
    assert re.search(r"^largest relative error of a gradient  \S+e-1[2-6]$", printed, re.MULTILINE)
    bits = r"^\d+\.\d{3} bits for each byte of what it has not read$"
    assert re.search(bits, printed, re.MULTILINE)
    assert "\n\nnaïve " in printed
