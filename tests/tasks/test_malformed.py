"""Malformed input to what the tasks are made of."""

from datetime import date
from functools import partial
from itertools import islice

import numpy as np
from helpers.malformed import (
    Answers,
    Choice,
    Floats,
    Ids,
    Setting,
    Table,
    Weights,
    Whatever,
    call,
    count,
    positive,
    whole,
)

from transformer_core.layers import LayerSpec, MultiHeadSelfAttention
from transformer_core.models import EncoderDecoder, Gpt, StackSpec
from transformer_core.tasks import dates, reconstruction
from transformer_core.tasks.bert import counts, interpolated, masking, mini_bert
from transformer_core.tasks.dates import Characters, DateReader, DateRules, Dates
from transformer_core.tasks.gpt import byte_pairs, kneser_ney, pretokens, writing
from transformer_core.tasks.gpt import windows as gpt_windows
from transformer_core.tasks.reconstruction import Reconstruction, Reconstructor
from transformer_core.tasks.texts import documents, wordpiece
from transformer_core.tasks.texts.documents import Document


def seeded():
    return np.random.default_rng(1)


def text(value):
    """A string, whose content a function may refuse."""
    return Choice(value, [None, 3, 0.5, [], ["text"], b"text", {}, ("a", "b")])


def texts(value):
    return Choice(value, [None, 3, [3], [None], [b"a"], [["a"]], {3}])


SPEC = LayerSpec(6, 2, 7, "pre", dtype="float64")
LETTERS = Characters("-0123456789")
DATES = Dates(["fr"])
READER = DateReader(
    EncoderDecoder(SPEC, StackSpec(14, 11, 1), StackSpec(14, 11, 1), seeded()), LETTERS, LETTERS
)
TEXTS = ["the cat sees the dog", "a dog sees a cat and the cat"]
TOKENIZER = wordpiece.train_wordpiece(TEXTS, 34)
PAIRS = byte_pairs.train_byte_pairs(TEXTS, 265)
BLOCKS = np.random.default_rng(4).integers(5, 9, (20, 6))
BERT = mini_bert.mini_bert(np.full(34, 1 / 34), seeded(), SPEC, 12, 1)
GPT = Gpt(SPEC, StackSpec(PAIRS.vocabulary, 9, 1), seeded())
TOKENS = Ids("B T", least=5)
NATS = "N"


class Shares(Floats):
    def valid(self, rng):
        return rng.uniform(0.1, 0.9, self.shape())


OBJECTS = {
    "BytePairs": PAIRS,
    "Characters": LETTERS,
    "DateReader": READER,
    "KneserNey": kneser_ney.KneserNey(np.arange(9), 9, 3),
    "DateRules": DateRules(["fr"]),
    "Dates": DATES,
    "Interpolated": interpolated.Interpolated(BLOCKS, 9),
    "Reconstruction": Reconstruction(seeded(), 9, 4, 6),
    "Reconstructor": Reconstructor(SPEC, 1, seeded()),
    "Trigrams": counts.Trigrams(BLOCKS, 9),
}
NAMES = {
    "sequences": whole(2), "x": "B T 6", "keep": "mask B 2 T T", "characters": texts("abc"),
    "texts": texts(["2020", "1-2"]), "together": whole(2), "languages": texts(["fr"]),
    "text": text("1 mai 1998"), "blocks": TOKENS, "vocabulary": Setting(9, lambda v: False),
    "inputs": TOKENS, "masked": "booleans B T", "ids": TOKENS, "top": whole(2), "length": whole(5),
    "shares": Weights("V", optional=False), "share": Setting(0.2, lambda v: 0 < v <= 1),
    "size": count(2, lambda v: v in (1, 2)), "first": whole(1), "score": positive(6.5),
    "steps": whole(1), "std": positive(1.0), "angles": "N",
}  # fmt: skip
LINES = {
    # Reconstruction
    "Reconstruction": {
        "vocabulary": whole(9),
        "length": whole(4),
        "width": Setting(6, lambda v: isinstance(v, int) and v == 2),
    },
    "Reconstructor": call(lambda layers, rng: Reconstructor(SPEC, layers, rng)),
    "Reconstructor.loss_and_gradients": {"inputs": "B T 6", "targets": "B T 6"},
    "layer_norm_floor": {"targets": "reals ... D", "gamma": "reals D", "beta": "reals D"},
    "predict_mean": {"targets": "reals ... D"},
    "predict_zero": {"targets": "reals ..."},
    # Dates
    "Characters.check": {"text": text("2020-01-01")},
    "Characters.decode": {"ids": Ids("T", below=14, listed=True)},
    "DateReader": call(READER.read),
    "DateReader.prepare": {"text": text("2020-01-01")},
    "DateReader.probability": {"text": text("2020-01-01"), "answer": text("2020-01-01")},
    "Dates.batches": call(
        lambda size, seed, first: next(DATES.batches(size, seed, first)),
        size=count(2, lambda v: 1 <= v < 2**31),
    ),
    "Dates.sample": {
        "size": whole(2),
        "days": Whatever(lambda rng: (date(2020, 1, 2), date(1999, 3, 4))),
    },
    # BERT
    "Interpolated": {"weights": "weights 2 2 2 5 6"},
    "Interpolated.fit": {"targets": TOKENS, "steps": whole(2)},
    "Interpolated.measure": {"targets": TOKENS},
    "fill_masks": call(
        partial(mini_bert.fill_masks, BERT, TOKENIZER), sentence=text("the [MASK] sees")
    ),
    "frequencies": {"blocks": Ids("...", least=5)},
    "interpolated": {"blocks": Ids("M T", least=5)},
    "look_at_neighbours": call(
        lambda frequencies, score: mini_bert.look_at_neighbours(
            MultiHeadSelfAttention(6, 2, seeded()), frequencies, seeded(), score
        ),
        frequencies="3",
    ),
    "masked_batches": call(
        lambda blocks, size, vocabulary, seed, first, share: list(
            islice(masking.masked_batches(blocks, size, vocabulary, seed, first, share), 3)
        )
    ),
    "measure": call(
        partial(mini_bert.measure, BERT),
        inputs=Ids("B T", below=34),
        targets=Answers("B T", below=34),
    ),
    "mini_bert": call(
        lambda shares, length, layers: mini_bert.mini_bert(shares, seeded(), SPEC, length, layers)
    ),
    "pack": {
        "documents": Choice(
            [[7, 8], [9] * 9],
            [None, 3, [], [None], [3], "text", ["text"], [[1.5] * 9], [[-1] * 9],
             [[2**40] * 9], [[2**70] * 9], [[None] * 9], [[]], [["a"] * 9]],
        ),
        "length": count(5, lambda v: 3 <= v <= 9),
    },
    "read_documents": {
        "path": Choice(__file__, ["", None, 3, b"x", [], "no/such/folder", "\0"])
    },
    "split": {
        "documents": Whatever(lambda rng: [Document(f"{i}", "text") for i in range(40)]),
        "share": Setting(0.4, lambda v: 0 < v < 1),
    },
    "is_held_out": {"name": text("sum"), "share": Setting(0.4, lambda v: 0 < v < 1)},
    "token_ids": call(partial(wordpiece.token_ids, TOKENIZER), texts=texts(["the cat"])),
    "train_wordpiece": {"texts": texts(TEXTS), "vocabulary": Setting(34, lambda v: False)},
    "load_wordpiece": call(
        lambda path: wordpiece.load_wordpiece(path) if path != "valid" else None,
        path=Choice("valid", ["", None, 3, [], "no/such/file", "\0", __file__]),
    ),
    # GPT
    "BytePairs": call(
        lambda tokens, merges, special: byte_pairs.BytePairs(tokens, merges, special),
        tokens=Choice(PAIRS.tokens, [None, 3, [], [3], "text", PAIRS.tokens[:9], PAIRS.tokens * 2]),
        merges=Choice(PAIRS.merges, [None, 3, [3], [(1,)], [("a", "b")], [(1, 900)], [(1.5, 2)]]),
        special=Choice(PAIRS.special, [None, 3, [], {"a": 900}, {3: 0}, {"no": 0}, {"": 0}]),
    ),
    "BytePairs.encode": {"text": Choice("a cat", [None, 3, 0.5, [], ["a"], "\ud800"])},
    "BytePairs.load": call(
        lambda path: byte_pairs.BytePairs.load(path) if path != "valid" else None,
        path=Choice("valid", ["", None, 3, [], "no/such/file", "\0", __file__]),
    ),
    "BytePairs.of_file": {
        "path": Choice("tokenizer", ["", None, 3, []]),
        "content": Choice(PAIRS.to_file(), [b"", b"{}", b"[]", b"null", b"\xff", "{}", None]),
    },
    "BytePairs.save": call(
        lambda path: PAIRS.save(path) if path != "valid" else None,
        path=Choice("valid", ["", None, 3, []]),
    ),
    "train_byte_pairs": {
        "texts": Choice(TEXTS, [None, 3, [3], [None], [["a"]], "text", b"text", ["\ud800"], []]),
        "vocabulary": Setting(265, lambda v: False),
        "special": Choice(["<end>"], [None, 3, [3], [""], "text", ["x", "x"], ["a"]]),
        "ties": Choice("ids"),
    },
}  # fmt: skip
LINES |= {
    # A GPT
    "KneserNey": {"ids": Ids("M"), "order": count(3, lambda v: 1 <= v <= 500)},
    "KneserNey.losses": {"ids": Ids("T")},
    "KneserNey.begin": {"batch": whole(2)},
    "KneserNey.kinds": {"ids": Ids("T")},
    "KneserNey.distribution": {"history": Ids("T")},
    "KneserNey.prefill": call(
        lambda ids: OBJECTS["KneserNey"].prefill(ids, OBJECTS["KneserNey"].begin(2)), ids=Ids("B T")
    ),
    "best_weights": {
        "one": NATS,
        "other": NATS,
        "kinds": Ids("N", least=1),
        "number": count(24, lambda v: v >= 24),
        "steps": whole(3),
    },
    "bits_per_byte": {"losses": "T", "ids": Ids("S"), "sizes": Ids("V", least=1)},
    "join_texts": call(
        partial(gpt_windows.join_texts, PAIRS),
        texts=Choice(["the cat"], [None, 3, [3], [None], [["a"]], {3}, "text"]),
    ),
    "recent_kinds": {"one": NATS, "other": NATS},
    "mix": {"one": NATS, "other": NATS, "weight": Shares(NATS, ok=lambda v: 0 < v < 1)},
    "token_losses": call(partial(gpt_windows.token_losses, GPT), ids=Ids("N"), together=whole(2)),
    "windows": call(
        lambda ids, size, length, seed, first: next(
            gpt_windows.windows(ids, size, length, seed, first)
        ),
        ids=Ids("M"),
        size=count(2, lambda v: 1 <= v < 99),
        length=count(5, lambda v: 1 <= v < 166),
    ),
    "write": call(
        lambda prompt, tokens: list(writing.write(GPT, PAIRS, prompt, seeded(), tokens=tokens)),
        prompt=text("the cat"),
        tokens=whole(2, optional=True),
    ),
}
# What has no argument of its own to spoil, or is a part of what is in the table.
WITHOUT = {
    "Table", "load", "passages", "read_text", "merge_pair", "PairCounts", "PairCounts.first",
    "token_bytes", "PairCounts.greatest", "PairCounts.merge", "BytePairs.merge", "as_path",
    "BytePairs.decode", "BytePairs.decode_bytes",  # of no ids the text is empty
}  # fmt: skip
ROOMS = [
    reconstruction, dates, counts, documents, interpolated, masking, mini_bert, wordpiece,
    byte_pairs, pretokens, gpt_windows, kneser_ney, writing,
]  # fmt: skip
# What is in an argument: a file, the tokens, what a model is given; or what does not fit it.
INDIRECT = {
    "BytePairs": {"tokens": "special"},
    "BytePairs.load": {"path": "*"},
    "BytePairs.of_file": {"content": "tokenizer"},
    "DateReader.probability": {"answer": "texts"},
    "Interpolated": {"vocabulary": "blocks"},
    "KneserNey": {"vocabulary": "ids"},
    "Reconstructor.loss_and_gradients": {"inputs": "x", "targets": "target"},
    "Trigrams": {"vocabulary": "blocks"},
    "best_weights": {"one": "weight", "other": "weight", "number": "kinds"},
    "bits_per_byte": {"ids": "losses", "sizes": "ids"},
    "frequencies": {"vocabulary": "blocks"},
    "interpolated": {"vocabulary": "blocks"},
    "join_texts": {"texts": "text"},
    "load_wordpiece": {"path": "*"},
    "mask": {"vocabulary": "ids"},
    "masked_batches": {"blocks": "ids size", "vocabulary": "ids"},
    "measure": {"inputs": "ids"},
    "read_documents": {"path": "*"},
    "train_byte_pairs": {"special": "tokens"},
    "train_wordpiece": {"vocabulary": "texts"},
}
TASKS = Table("tests/tasks/test_malformed.py", ROOMS, LINES, NAMES, OBJECTS, WITHOUT, INDIRECT)
test_the_table_is_complete, test_valid_calls_pass, test_what_is_malformed_is_named = TASKS.tests()
