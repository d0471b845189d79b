"""Search in the documentation: by words, by a Mini-BERT and a real model, before and after."""

import tomllib
from collections import Counter
from functools import cache, partial

import numpy as np

from book.living_models import read_script
from studies import ROOT, fingerprint
from studies._minilm import SHA256, minilm_folder
from transformer_core.interop import load
from transformer_core.layers import LayerSpec
from transformer_core.models import BertEncoder, StackSpec
from transformer_core.optim import AdamW, warmup_stable_decay
from transformer_core.tasks.search import (
    Bm25,
    SentenceEncoder,
    embed,
    pairs,
    ranks,
    token_rows,
    with_ends,
)
from transformer_core.tasks.search.bm25 import words_of
from transformer_core.tasks.texts.documentation import documentation
from transformer_core.tasks.texts.documents import is_held_out
from transformer_core.training import train

SEEDS = range(5)
BATCH, STEPS, PEAK = 64, 60, 1e-3
MINILM_STEPS, MINILM_PEAK = 12, 1e-4  # a step takes 11 s
LENGTH = 64  # tokens of a text
MINI_BERT = ROOT / "book/_static/models/mini_bert.js"
QUESTIONS = ROOT / "studies/search_questions.toml"


def runs():
    """The settings of every run; those of all-MiniLM-L6-v2 need ``_minilm``."""
    for kind in ("shared words", "tf-idf", "bm25", "mini-bert", "minilm"):
        yield settings_of(kind, 0)
    for kind in ("fine-tuned", "minilm fine-tuned"):
        yield from (settings_of(kind, seed) for seed in SEEDS)


def settings_of(kind, seed):
    settings = {"kind": kind, "seed": seed}
    begins = kind in ("mini-bert", "fine-tuned")  # with the page's weights
    return settings | ({"weights": fingerprint(MINI_BERT)} if begins else {})


def run(kind, seed, weights="", steps=None):
    """The rank of the first right text, for each held-out name and for each question by hand.

    Of the kind "shared words" it is instead the share of the query's words that a right text has.
    """
    found = {}
    match kind:
        case "shared words":
            return {name: shared_words(*search) for name, search in searches().items()}
        case "tf-idf":
            scores_of = tf_idf
        case "bm25":
            scores_of = bm25
        case "minilm" | "minilm fine-tuned":
            model, tokenizer = minilm()
            if kind != "minilm":
                steps = steps or MINILM_STEPS
                found["losses"] = fine_tune(model, tokenizer, seed, steps, MINILM_PEAK)
            scores_of = partial(by_vectors, model, tokenizer)
        case _:
            model, tokenizer = mini_bert()
            if kind != "mini-bert":
                found["losses"] = fine_tune(model, tokenizer, seed, steps or STEPS)
            scores_of = partial(by_vectors, model, tokenizer)
    for name, (queries, texts, right) in searches().items():
        found[name] = ranks(scores_of(queries, texts), right)
    return found


@cache
def corpus():
    """All pairs, and the places of those whose names are held out, from the Mini-BERT too."""
    found = pairs(documentation())
    held_out = [k for k, pair in enumerate(found) if is_held_out(pair.name)]
    return found, held_out


def searches():
    """Two searches, each with its queries, its texts and the right ones of each query."""
    found, held_out = corpus()
    answers = [pair.answer for pair in found]
    wholes = [f"{pair.question} {pair.answer}" for pair in found]
    asked = questions()
    return {
        "held out": ([found[k].question for k in held_out], answers, [[k] for k in held_out]),
        "by hand": (list(asked), wholes, list(asked.values())),
    }


def questions():
    """The questions written by hand, with the places of the pairs that answer them."""
    found, _ = corpus()
    asked = {}
    for question, answers in tomllib.loads(QUESTIONS.read_text("utf-8")).items():
        wanted = [answer.partition(": ") for answer in answers]
        asked[question] = [
            k
            for k, pair in enumerate(found)
            if any(pair.name == name and pair.question.startswith(w) for name, _, w in wanted)
        ]
    return asked


def shared_words(queries, texts, right):
    """What fraction of a query's different words is in a right text; of several, the largest."""
    of_texts = [set(words_of(text)) for text in texts]
    fractions = []
    for query, places in zip(queries, right, strict=True):
        words = set(words_of(query))
        most = max(len(words & of_texts[k]) for k in places)
        fractions.append(round(most / len(words), 4))
    return fractions


def tf_idf(queries, texts):
    """The cosines of every query and text, whose entries are frequencies times rarity."""
    number = {w: k for k, w in enumerate(sorted({w for text in texts for w in words_of(text)}))}

    def counts(rows):
        table = np.zeros((len(rows), len(number)), np.float32)
        for row, text in zip(table, rows, strict=True):
            for word, count in Counter(words_of(text)).items():
                if word in number:
                    row[number[word]] = count
        return table

    asked, there = counts(queries), counts(texts)
    weight = np.log(len(texts) / (there > 0).sum(axis=0))
    there *= weight
    there /= np.linalg.norm(there, axis=1, keepdims=True)
    return (asked * weight) @ there.T


def bm25(queries, texts):
    found = Bm25(texts)
    return np.array([found.scores(query) for query in queries])


def by_vectors(model, tokenizer, queries, texts):
    asked, there = (embed(model, tokenizer, rows, LENGTH) for rows in (queries, texts))
    return asked @ there.T


def mini_bert():
    """The Mini-BERT of the page, in 8 bits, without its output layer, and its tokenizer."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    settings, weights = read_script(MINI_BERT)
    pieces = {piece: k for k, piece in enumerate(settings["pieces"])}
    tokenizer = Tokenizer(WordPiece(pieces, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = BertNormalizer(), BertPreTokenizer()
    spec = LayerSpec.from_settings(settings["spec"])
    stack = StackSpec(len(pieces), settings["length"], settings["layers"])
    encoder = BertEncoder(spec, stack, np.random.default_rng(0), embedding_norm=True)
    encoder.set_parameters({n: a for n, a in weights.items() if n in encoder.parameters()})
    return SentenceEncoder(encoder), with_ends(tokenizer)


def fine_tune(model, tokenizer, seed, steps, peak=PEAK):
    """Train on the pairs whose names are not held out; return the losses."""
    found, held_out = corpus()
    known = np.setdiff1d(np.arange(len(found)), held_out)

    def batches():
        rng = np.random.default_rng(seed)
        while True:
            order = rng.permutation(known)
            for start in range(0, len(order) - BATCH + 1, BATCH):
                part = [found[k] for k in order[start : start + BATCH]]
                yield tuple(
                    token_rows(tokenizer, [getattr(pair, side) for pair in part], LENGTH)
                    for side in ("question", "answer")
                )

    history = train(
        model,
        AdamW(model.parameters(), peak),
        batches(),
        steps,
        max_norm=1.0,
        schedule=partial(
            warmup_stable_decay,
            steps=steps,
            peak=peak,
            warmup=steps // 10,
            decay=steps - steps // 10,
        ),
    )
    return [round(float(record["loss"]), 3) for record in history]


def minilm():
    encoder, tokenizer = load(minilm_folder(), sha256=SHA256)
    return SentenceEncoder(encoder), tokenizer
