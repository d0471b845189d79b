"""Readers of dates from five starts: what they read, what they look at, and two mistakes."""

import unicodedata
from datetime import date
from functools import cache
from unittest import mock

import numpy as np
from babel.dates import format_date, tokenize_pattern

from transformer_core.distributed import DataParallel
from transformer_core.layers import LayerSpec
from transformer_core.models import EncoderDecoder, StackSpec
from transformer_core.ops import padding_keep
from transformer_core.optim import Adam, warmup_stable_decay
from transformer_core.tasks.dates import Dates, split_days
from transformer_core.tasks.dates.reader import DateReader
from transformer_core.training import train

SEEDS = range(5)
STEPS, SHORT = 2500, 250  # of a whole training, and of one that a mistake is shown in
LEFT_OUT_FORMATS = {
    ("de", "full"),
    ("fr", "yMEd"),
    ("es", "yMMMEd"),
    ("ru", "medium"),
    ("ja", "yMMMEd"),
    ("ko", "yMEd"),
}
NEW_LANGUAGES = {
    "pt": "Portuguese",
    "ro": "Romanian",
    "da": "Danish",
    "id": "Indonesian",
    "nl": "Dutch",
    "uk": "Ukrainian",
    "fi": "Finnish",
}
MASK = "transformer_core.models.encoder_decoder.causal_keep"
WRITTEN = {"year": range(0, 4), "month": range(5, 7), "day": range(8, 10)}
READ = ["year", "month", "day", "weekday", "rest"]
ERRORS = ["no digit", "digits in order", "digit too many", "digit lost"]


def runs():
    """The settings of every run."""
    for seed in SEEDS:
        for change in (None, "no mask", "one layer"):
            yield {"kind": "short", "change": change, "seed": seed}
    for seed in SEEDS:
        yield {"kind": "whole", "seed": seed}


def run(kind, **settings):
    """One training: ``whole`` with the course's recipe, ``short`` with or without a mistake."""
    return {"whole": whole, "short": short}[kind](**settings)


@cache
def dates():
    return Dates(without=LEFT_OUT_FORMATS)


def build(rng, placement="pre", dtype=np.float32):
    data = dates()
    return EncoderDecoder(
        LayerSpec(64, 4, 256, placement, dtype=dtype),
        source=StackSpec(len(data.source), length=data.longest, layers=2),
        target=StackSpec(len(data.target), length=11, layers=2),
        rng=rng,
    )


def train_reader(model, steps, decay, seed=0, after_step=None):
    """Train with Adam, and return the history."""
    return train(
        DataParallel(model, counted_tokens, threads=2),
        Adam(model.parameters()),
        dates().batches(64, seed=seed),
        steps,
        schedule=lambda step: warmup_stable_decay(step, steps, 3e-3, 100, decay),
        after_step=after_step,
    )


def counted_tokens(source, source_lengths, target, target_lengths):
    return int((target_lengths - 1).sum())


def reader_of(model):
    return DateReader(model, dates().source, dates().target)


def share_right(answers, examples):
    return float(np.mean([a == b for a, b in zip(answers, examples.answers, strict=True)]))


def validation():
    return dates().sample(600, split_days().validation, np.random.default_rng(2))


def unseen():
    return dates().sample(4000, split_days().test, np.random.default_rng(1))


# Two mistakes


def short(seed, change=None):
    """The first steps of a training: their last loss, and the dates read right after them."""
    model = build(np.random.default_rng(seed))
    if change == "one layer":
        hear_the_last_layer_alone(model)
    with mock.patch(MASK, everybody if change == "no mask" else causal):
        history = train_reader(model, SHORT, 0, seed)
    last = [record["loss"] for record in history[-20:]]
    right = share_right(reader_of(model).read(validation().texts), validation())
    return {"loss": float(np.mean(last)), "right": right}


def causal(length):
    return np.tril(np.ones((length, length), bool))


def everybody(length):
    return np.ones((length, length), bool)


def hear_the_last_layer_alone(model):
    """Let the first decoder layer return zeros for the source."""
    first_layer = model.decoder.layers[0]

    def without_source(dy, cache, backward=first_layer.backward):
        dx, dsource, grads = backward(dy, cache)
        return dx, np.zeros_like(dsource), grads

    first_layer.backward = without_source


# What a trained reader can do


def whole(seed, steps=STEPS):
    """A whole training, and all that the chapter says of the reader."""
    model = build(np.random.default_rng(seed))
    some = dates().sample(600, split_days().test, np.random.default_rng(5))
    at_start = np.diag(alignment(model, some)).tolist()
    train_reader(model, steps, steps // 2, seed)
    reader = reader_of(model)
    return {
        "right": share_right(reader.read(unseen().texts), unseen()),
        "looked": {"start": at_start, "trained": np.diag(alignment(model, some)).tolist()},
        "hidden": hidden(model, some).tolist(),
        "typing errors": typing_errors(reader.read),
        "new formats": new_formats(reader),
        "new languages": new_languages(reader),
        "Dutch": dutch(reader),
    }


def fields(form, day):
    """The field of each character of ``form.write(day)``, from the pattern of CLDR."""
    found = []
    for kind, piece in tokenize_pattern(form.pattern):
        if kind == "chars":
            text, field = piece, "rest"
        else:
            letter, count = piece
            text = format_date(day, letter * count, form.locale)
            field = {"y": "year", "M": "month", "d": "day"}.get(letter, "weekday")
        found += [field for c in text if unicodedata.category(c) != "Cf"]
    assert len(found) == len(form.write(day))
    return np.array(found)


def encoded(examples):
    source, lengths = dates().source.encode(examples.texts)
    target, _ = dates().target.encode(examples.answers, framed=True)
    return source, target, padding_keep(lengths, source.shape[1])


def alignment(model, examples):
    """Cross-attention from each field that is written to each that is read, over the examples."""
    source, target, keep = encoded(examples)
    _, cache = model.forward(source, target[:, :-1], keep)
    layers = cache.decoded.decoder.layers
    weights = np.mean(
        [layer.cross_attention.branch.attention.weights for layer in layers], axis=(0, 2)
    )
    shares = np.zeros((len(WRITTEN), len(READ)))
    for of_text, form, answer in zip(weights, examples.formats, examples.answers, strict=True):
        found = fields(form, date.fromisoformat(answer))
        for row, positions in enumerate(WRITTEN.values()):
            for column, field in enumerate(READ):
                mass = of_text[positions][:, np.nonzero(found == field)[0]].sum(axis=1)
                shares[row, column] += mass.mean()
    return shares / len(examples.texts)


def hidden(model, examples):
    """Characters right in each written field, while one field is hidden from cross-attention.

    Rows: nothing is hidden, or the year, the month, the day. The encoder reads everything.
    """
    source, target, keep = encoded(examples)
    memory, _ = model.encode(source, keep)
    shares = []
    for field in (None, *WRITTEN):
        seen = np.broadcast_to(keep, (len(source), 1, 1, source.shape[1])).copy()
        for b, (form, answer) in enumerate(zip(examples.formats, examples.answers, strict=True)):
            found = fields(form, date.fromisoformat(answer))
            seen[b, 0, 0, : len(found)] &= found != field
        logits, _ = model.decode(target[:, :-1], memory, seen)
        right = logits.argmax(axis=-1) == target[:, 1:]
        shares.append([float(right[:, positions].mean()) for positions in WRITTEN.values()])
    return np.array(shares)


# Harder cuts


def mistype(text, characters, rng):
    """The text with one character replaced, left out or exchanged with the next, and the kind.

    It may be the text itself, where the two are equal.
    """
    kind = rng.choice(["replaced", "left out", "exchanged"])
    at = rng.integers(len(text) - (kind == "exchanged"))
    if kind == "replaced":
        before, after = text[at], str(rng.choice(characters))
    elif kind == "left out":
        before, after = text[at], ""
    else:
        before, after = text[at : at + 2], text[at : at + 2][::-1]
    return text[:at] + after + text[at + len(before) :], error_kind(before, after)


def error_kind(before, after):
    """What an error does to the digits of a text."""
    digits_before, digits_after = (
        "".join(c for c in part if c.isdigit()) for part in (before, after)
    )
    if not digits_before + digits_after:
        return "no digit"
    if digits_before == digits_after:
        return "digits in order"
    return "digit too many" if not digits_before else "digit lost"


@cache
def mistyped():
    typed = {}
    for form in dates().formats:
        typed.setdefault(form.language, set()).update(
            *(form.write(d) for d in split_days().training[::997])
        )
    typed = {language: sorted(characters) for language, characters in typed.items()}
    rng = np.random.default_rng(7)
    examples = unseen()
    return [
        mistype(text, typed[form.language], rng)
        for text, form in zip(examples.texts, examples.formats, strict=True)
    ]


def typing_errors(read):
    """For each kind of error the share of texts that are read right nevertheless."""
    texts, kinds = zip(*mistyped(), strict=True)
    right = np.array([a == b for a, b in zip(read(list(texts)), unseen().answers, strict=True)])
    return {kind: float(right[np.array(kinds) == kind].mean()) for kind in ERRORS}


def new_formats(reader):
    """For each format that was left out the share of texts that are read right."""
    days = split_days().test
    found = {}
    for form in Dates().formats:
        if (str(form.locale), form.name) in LEFT_OUT_FORMATS:
            rng = np.random.default_rng(6)
            some = [days[n] for n in rng.integers(len(days), size=300)]
            answers = reader.read([form.write(day) for day in some])
            found[form.language] = float(
                np.mean([a == d.isoformat() for a, d in zip(answers, some, strict=True)])
            )
    return found


def in_language(reader, language):
    """Texts of a new language, their answers, and which of them the reader has characters for."""
    new = Dates([language])
    texts, answers, _ = new.sample(500, split_days().test, np.random.default_rng(8))
    known = [
        set(text) <= set(reader.source.characters) and len(text) <= dates().longest
        for text in texts
    ]
    return texts, answers, known


def new_languages(reader):
    """For each new language the share of texts that can be read, and of these that are right."""
    found = {}
    for language in NEW_LANGUAGES:
        texts, answers, known = in_language(reader, language)
        pairs = [(t, a) for t, a, k in zip(texts, answers, known, strict=True) if k]
        read = reader.read([text for text, _ in pairs])
        right = [a == b for a, (_, b) in zip(read, pairs, strict=True)]
        found[language] = float(np.mean(known)), float(np.mean(right))
    return found


def dutch(reader):
    """Dutch texts read right, with the day first and hyphens, and without."""
    texts, answers, _ = in_language(reader, "nl")
    hyphen = np.array([text[-5] == "-" for text in texts])
    right = np.array([a == b for a, b in zip(reader.read(texts), answers, strict=True)])
    return {"hyphens": float(right[hyphen].mean()), "others": float(right[~hyphen].mean())}
