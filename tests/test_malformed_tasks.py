"""Malformed input to what the tasks are made of."""

from datetime import date
from itertools import islice

import numpy as np
import pytest
from malformed import (
    DTYPE,
    RNG,
    Answers,
    Booleans,
    Choice,
    Floats,
    Ids,
    Mask,
    Reals,
    Setting,
    Weights,
    Whatever,
    both_tests,
    call,
    positive,
    public_names,
    whole,
)

from transformer_core.layers import LayerSpec, MultiHeadSelfAttention
from transformer_core.models import EncoderDecoder, StackSpec
from transformer_core.tasks import dates, reconstruction
from transformer_core.tasks.bert import (
    counts,
    documents,
    interpolated,
    masking,
    mini_bert,
    wordpiece,
)
from transformer_core.tasks.bert.documents import Document
from transformer_core.tasks.dates import (
    Characters,
    DateReader,
    DateRules,
    Dates,
    normalise,
)
from transformer_core.tasks.reconstruction import Reconstruction, Reconstructor


def seeded():
    return np.random.default_rng(1)


def text(value):
    """A string, whose content a function may refuse."""
    return Choice(value, [None, 3, 0.5, [], ["text"], b"text", {}, ("a", "b")])


def texts(value):
    return Choice(value, [None, 3, [3], [None], [b"a"], [["a"]], {3}])


SPEC = LayerSpec(6, 2, 7, "pre", dtype="float64")
RECONSTRUCTOR = Reconstructor(SPEC, 1, seeded())
X = np.random.default_rng(2).normal(size=(2, 3, 6))
LETTERS = Characters("-0123456789")
DATES = Dates(["fr"])
READER = DateReader(
    EncoderDecoder(SPEC, StackSpec(14, 11, 1), StackSpec(14, 11, 1), seeded()),
    LETTERS,
    LETTERS,
)
SHARE = Setting(0.2, lambda v: 0 < v <= 1)

RECONSTRUCTION = {
    "Reconstruction": call(
        Reconstruction,
        rng=RNG,
        vocabulary=whole(9),
        length=whole(4),
        width=Setting(6, lambda v: isinstance(v, int) and v == 2),
        std=positive(1.0),
        dtype=DTYPE,
    ),
    "Reconstruction.sample": call(
        Reconstruction(seeded(), 9, 4, 6).sample, sequences=whole(2), rng=RNG
    ),
    "Reconstructor": call(
        lambda layers, rng: Reconstructor(SPEC, layers, rng), layers=whole(1), rng=RNG
    ),
    "Reconstructor.backward": call(
        lambda dy: RECONSTRUCTOR.backward(dy, RECONSTRUCTOR.forward(X)[1]),
        dy=Floats("2 3 6"),
    ),
    "Reconstructor.forward": call(
        RECONSTRUCTOR.forward, x=Floats("B T 6"), keep=Mask("B 2 T T"), rng=RNG
    ),
    "Reconstructor.loss_and_gradients": call(
        RECONSTRUCTOR.loss_and_gradients,
        inputs=Floats("B T 6"),
        targets=Floats("B T 6"),
        keep=Mask("B 2 T T"),
        rng=RNG,
    ),
    "layer_norm_floor": call(
        reconstruction.layer_norm_floor,
        targets=Reals("... D"),
        gamma=Reals("D"),
        beta=Reals("D"),
    ),
    "predict_mean": call(reconstruction.predict_mean, targets=Reals("... D")),
    "predict_zero": call(reconstruction.predict_zero, targets=Reals("...")),
}

DATE_TASK = {
    "Characters": call(Characters, characters=texts("abc")),
    "Characters.check": call(LETTERS.check, text=text("2020-01-01")),
    "Characters.decode": call(LETTERS.decode, ids=Ids("T", below=14, listed=True)),
    "Characters.encode": call(LETTERS.encode, texts=texts(["2020", "1-2"])),
    "DateReader": call(READER.read, texts=texts(["2020", "1-2"]), together=whole(2)),
    "DateReader.prepare": call(READER.prepare, text=text("2020-01-01")),
    "DateReader.read": call(
        READER.read, texts=texts(["2020", "1-2"]), together=whole(2)
    ),
    "DateRules": call(DateRules, languages=texts(["fr"])),
    "DateRules.read": call(DateRules(["fr"]).read, text=text("1 mai 1998")),
    "Dates": call(Dates, languages=texts(["fr"])),
    "Dates.batches": call(
        lambda **given: next(DATES.batches(**given)),
        size=Setting(2, lambda v: isinstance(v, (int, np.integer)) and 1 <= v < 2**31),
        seed=whole(0, least=0),
        first=whole(1),
    ),
    "Dates.sample": call(
        DATES.sample,
        size=whole(2),
        days=Whatever(lambda rng: (date(2020, 1, 2), date(1999, 3, 4))),
        rng=RNG,
    ),
    "normalise": call(normalise, text=text("1 Mai 1998")),
}

TEXTS = ["the cat sees the dog", "a dog sees a cat and the cat"]
TOKENIZER = wordpiece.train_wordpiece(TEXTS, 34)
BLOCKS = np.random.default_rng(4).integers(5, 9, (20, 6))
MASKED = np.random.default_rng(5).random((20, 6)) < 0.5
TRIGRAMS = counts.Trigrams(BLOCKS, 9)
COUNTED = interpolated.Interpolated(BLOCKS, 9)
BERT = mini_bert.mini_bert(np.full(34, 1 / 34), seeded(), SPEC, 12, 1)


class Tokens(Ids):
    """Ids that are not special."""

    def valid(self, rng):
        return rng.integers(5, self.below, self.shape())


SEEN = {"inputs": Tokens("B T", below=9), "masked": Booleans("B T")}
ASKED = SEEN | {"targets": Tokens("B T", below=9)}
VOCABULARY = Setting(9, lambda v: False)

BERT_TASK = {
    "Interpolated": call(
        interpolated.Interpolated,
        blocks=Tokens("B T", below=9),
        vocabulary=VOCABULARY,
        weights=Weights("2 2 2 5 6"),
    ),
    "Interpolated.fit": call(COUNTED.fit, **ASKED, steps=whole(2)),
    "Interpolated.measure": call(COUNTED.measure, **ASKED),
    "Interpolated.probabilities": call(COUNTED.probabilities, **SEEN),
    "Trigrams": call(
        counts.Trigrams, blocks=Tokens("B T", below=9), vocabulary=VOCABULARY
    ),
    "Trigrams.predict": call(TRIGRAMS.predict, **SEEN),
    "check_shares": call(counts.check_shares, shares=Weights("V", optional=False)),
    "entropy": call(counts.entropy, shares=Weights("V", optional=False)),
    "fill_masks": call(
        lambda sentence, top: mini_bert.fill_masks(BERT, TOKENIZER, sentence, top),
        sentence=text("the [MASK] sees"),
        top=whole(2),
    ),
    "frequencies": call(
        counts.frequencies, blocks=Tokens("...", below=9), vocabulary=VOCABULARY
    ),
    "interpolated": call(
        interpolated.interpolated,
        blocks=Tokens("M T", below=9),
        vocabulary=VOCABULARY,
        rng=RNG,
        steps=whole(1),
    ),
    "look_at_neighbours": call(
        lambda frequencies, score: mini_bert.look_at_neighbours(
            MultiHeadSelfAttention(6, 2, seeded()), frequencies, seeded(), score
        ),
        frequencies=Floats("3"),
        score=positive(6.5),
    ),
    "mask": call(
        masking.mask,
        ids=Tokens("B T", below=9),
        vocabulary=VOCABULARY,
        rng=RNG,
        share=SHARE,
    ),
    "masked_batches": call(
        lambda **given: list(islice(masking.masked_batches(**given), 3)),
        blocks=Tokens("B T", below=9),
        size=Setting(2, lambda v: isinstance(v, (int, np.integer)) and v in (1, 2)),
        vocabulary=VOCABULARY,
        seed=whole(0, least=0),
        first=whole(1),
        share=SHARE,
    ),
    "measure": call(
        lambda **given: mini_bert.measure(BERT, **given),
        inputs=Ids("B T", below=34),
        targets=Answers("B T", below=34),
        masked=Booleans("B T"),
        together=whole(2),
    ),
    "mini_bert": call(
        lambda shares, length, layers: mini_bert.mini_bert(
            shares, seeded(), SPEC, length, layers
        ),
        shares=Weights("V", optional=False),
        length=whole(5),
        layers=whole(1),
    ),
    "pack": call(
        masking.pack,
        documents=Choice(
            [[7, 8], [9] * 9],
            [None, 3, [], [None], [3], "text", ["text"], [[1.5] * 9], [[-1] * 9],
             [[2**40] * 9], [[2**70] * 9], [[None] * 9], [[]], [["a"] * 9]],
        ),
        length=Setting(5, lambda v: isinstance(v, (int, np.integer)) and 3 <= v <= 9),
    ),
    "read_documents": call(
        documents.read_documents,
        path=Choice(__file__, ["", None, 3, b"x", [], "no/such/folder", "\0"]),
    ),
    "rotation": call(mini_bert.rotation, angles=Floats("N")),
    "split": call(
        documents.split,
        documents=Whatever(lambda rng: [Document(f"{i}", "text") for i in range(40)]),
        share=Setting(0.4, lambda v: 0 < v < 1),
    ),
    "token_ids": call(
        lambda texts: wordpiece.token_ids(TOKENIZER, texts), texts=texts(["the cat"])
    ),
    "train_wordpiece": call(
        wordpiece.train_wordpiece,
        texts=texts(TEXTS),
        vocabulary=Setting(34, lambda v: False),
    ),
    "load_wordpiece": call(
        lambda path: wordpiece.load_wordpiece(path) if path != "valid" else None,
        path=Choice("valid", ["", None, 3, [], "no/such/file", "\0", __file__]),
    ),
}  # fmt: skip
# What has no argument of its own to spoil, or is a part of what is in the table.
OTHERS = {"Document", "Table", "load", "passages", "read_text", "split_days"}
CALLS = RECONSTRUCTION | DATE_TASK | BERT_TASK


@pytest.mark.parametrize(
    "modules, table",
    [
        ([reconstruction], RECONSTRUCTION),
        ([dates], DATE_TASK),
        (
            [counts, documents, interpolated, masking, mini_bert, wordpiece],
            BERT_TASK,
        ),
    ],
    ids=["reconstruction", "dates", "bert"],
)
def test_every_public_name_is_in_the_table(modules, table):
    assert sorted(set(public_names(*modules)) - OTHERS) == sorted(table)


test_valid_calls_pass, test_what_is_malformed_is_named = both_tests(CALLS)
