"""The training of a search by meaning, on the documentation or on a reader's own text."""

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from transformer_core.foundation.files import from_safetensors, to_json, to_safetensors
from transformer_core.foundation.names import summary
from transformer_core.interop import load as load_published
from transformer_core.layers import LayerSpec
from transformer_core.models import BertEncoder, StackSpec
from transformer_core.optim import AdamW, warmup_stable_decay
from transformer_core.ranks import Communicator
from transformer_core.tasks.bert import load as load_mini_bert
from transformer_core.tasks.bert.mini_bert import SPEC
from transformer_core.tasks.search.bm25 import Bm25
from transformer_core.tasks.search.index import (
    cut_documents,
    embed,
    nearest,
    ranks,
    token_rows,
    with_ends,
)
from transformer_core.tasks.search.pairs import pairs
from transformer_core.tasks.search.sentence_encoder import SentenceEncoder
from transformer_core.tasks.texts.documentation import documentation
from transformer_core.tasks.texts.documents import Document, is_held_out, read_documents
from transformer_core.tasks.texts.wordpiece import PAD, train_wordpiece
from transformer_core.training import Recipe, Run, Training, load_settings
from transformer_core.training.run import SETTINGS

if TYPE_CHECKING:
    from tokenizers import Tokenizer

DEFAULTS = {
    "base": None,  # an encoder that knows nothing
    "spec": asdict(SPEC),
    "length": 64,  # tokens of a passage
    "positions": 64,
    "layers": 3,
    "vocabulary": 8192,
    "segments": 0,
    "embedding_norm": True,
    "final_norm": True,
    "text": None,  # the documentation that is installed
    "minutes": 5.0,
    "steps": None,
    "batch": 64,
    "temperature": 0.05,
    "learning_rate": 1e-3,
    "max_norm": 1.0,
    "seed": 0,
    "checkpoint_every": 100,
}
TOKENIZER, START, DOCUMENTS = "tokenizer.json", "start.safetensors", "documents.json"
INDEX = "index.safetensors"


def prepare(settings: dict) -> dict[str, bytes]:
    """Read the text, and the encoder to begin with; its settings become those of the run."""
    text, base = settings["text"], settings["base"]
    for name in ("text", "base"):
        if settings[name] == "":
            raise ValueError(f"{name}: expected a path, got an empty one")
    if base is not None:
        bert, tokenizer = read_base(base)
        settings |= settings_of(bert)
        settings["length"] = min(settings["length"], settings["positions"])
    documents = documentation() if text is None else read_documents(text)
    known, held_out = sides(documents)
    if len(known) < settings["batch"] or not held_out:
        raise ValueError(
            f"text: expected {settings['batch']} or more passages to train on and some to hold "
            f"out, whose first sentence is followed by others, got {len(known)} and "
            f"{len(held_out)}"
        )
    if base is None:
        training = [d.text for d in documents if not is_held_out(d.name)]
        tokenizer = with_ends(
            train_wordpiece(training, settings["vocabulary"], at_most=True)
        )
        settings["vocabulary"] = tokenizer.get_vocab_size()
        encoder = build(settings)
    else:
        encoder = build(settings)
        arrays = bert.parameters()
        encoder.set_parameters({n: arrays[n] for n in encoder.parameters()})
    # What does not fit, or is not installed, is said before there is a folder.
    SentenceEncoder(encoder).forward(
        token_rows(tokenizer, [known[0].question], settings["length"])
    )
    return {
        TOKENIZER: tokenizer.to_str(pretty=True).encode(),
        START: to_safetensors(encoder.parameters()),
        DOCUMENTS: to_json("documents", [list(d) for d in documents]),
    }


def read_base(base: str) -> "tuple[BertEncoder, Tokenizer]":
    """Return the encoder of a run of ``train bert``, or of a folder as ``transformers`` has it."""
    if Path(base, SETTINGS).is_file():
        bert, tokenizer = load_mini_bert(base)
        return bert, with_ends(tokenizer)
    bert, tokenizer = load_published(base)
    if not isinstance(bert, BertEncoder):
        raise ValueError(f"base: expected a BERT, got {type(bert).__name__}")
    if tokenizer is None:
        raise ValueError(f"base: expected a tokenizer.json in {base}, got none")
    if tokenizer.id_to_token(PAD) != "[PAD]":
        raise ValueError(
            f"base: expected a tokenizer whose token {PAD} is [PAD], got "
            f"{tokenizer.id_to_token(PAD)!r}"
        )
    return bert, tokenizer


def settings_of(bert: BertEncoder) -> dict:
    """Return the settings of a run whose encoder is that of a model."""
    return {
        "spec": asdict(bert.spec),
        "positions": bert.stack.length,
        "layers": bert.stack.layers,
        "vocabulary": bert.stack.vocabulary,
        "segments": len(bert.segments.table) if bert.segments else 0,
        "embedding_norm": bert.embedding_norm is not None,
        "final_norm": bert.encoder.final_norm is not None,
    }


def build(settings: dict) -> BertEncoder:
    """Build what the settings of a run describe, untrained."""
    return BertEncoder(
        LayerSpec.from_settings(settings["spec"]),
        StackSpec(settings["vocabulary"], settings["positions"], settings["layers"]),
        np.random.default_rng(settings["seed"]),
        settings["segments"],
        settings["embedding_norm"],
        settings["final_norm"],
    )


def sides(documents: list[Document]) -> tuple[list, list]:
    """Return the pairs of the names to train on, and of those that are held out."""
    found: tuple[list, list] = [], []
    for pair in pairs(documents):
        found[is_held_out(pair.name)].append(pair)
    return found


def training(
    settings: dict, files: dict[str, bytes], communicator: Communicator, **scheme: int
) -> Training:
    if communicator.size > 1 or scheme:
        got = summary(scheme) if scheme else f"{communicator.size} processes"
        raise ValueError(
            "train search: expected no scheme over ranks, because every text of a batch is "
            f"compared with all others, got {got}"
        )
    documents = documents_of(files[DOCUMENTS])
    known, held_out = sides(documents)
    tokenizer, length = tokenizer_of(files[TOKENIZER]), settings["length"]
    peak = settings["learning_rate"]

    def begun():
        encoder = build(settings)
        encoder.set_parameters(from_safetensors(START, files[START])[0])
        return SentenceEncoder(encoder, settings["temperature"])

    model = begun()

    def batches(first):
        """All pairs in a random order, again and again; the last few wait for the next round."""
        size = settings["batch"]
        each = len(known) // size
        for step in range(first - 1, 2**53):
            rng = np.random.default_rng([settings["seed"], 1, step // each])
            order = rng.permutation(len(known))
            k = step % each * size
            part = [known[k] for k in order[k : k + size]]
            yield (
                token_rows(tokenizer, [pair.question for pair in part], length),
                token_rows(tokenizer, [pair.answer for pair in part], length),
            )

    def measures():
        answers = [pair.answer for pair in (*held_out, *known)]
        questions = [pair.question for pair in held_out]
        right = [[k] for k in range(len(questions))]
        words = Bm25(answers)
        for name, scores in (
            ("as trained", by_vectors(model, tokenizer, questions, answers, length)),
            ("before", by_vectors(begun(), tokenizer, questions, answers, length)),
            ("BM25", np.array([words.scores(question) for question in questions])),
        ):
            mean = np.mean(1 / np.array(ranks(scores, right)))
            yield f"mean reciprocal rank of held-out sentences, {name}", f"{mean:.3f}"

    return Training(
        model,
        AdamW(model.parameters, peak),
        batches,
        partial(schedule, peak=peak),
        measures,
    )


def by_vectors(model, tokenizer, queries, texts, length):
    """Return the inner products of all queries and texts."""
    query, key = (embed(model, tokenizer, rows, length) for rows in (queries, texts))
    return query @ key.T


def schedule(step: int, steps: int, peak: float) -> float:
    """Rise for a tenth of the steps, and fall to 0 over the rest (eq:warmup-stable-decay)."""
    warmup = steps // 10
    return warmup_stable_decay(step, steps, peak, warmup, decay=steps - warmup)


def tokenizer_of(content: bytes) -> "Tokenizer":
    from tokenizers import Tokenizer

    return Tokenizer.from_str(content.decode())


def documents_of(content: bytes) -> list[Document]:
    return [Document(*document) for document in json.loads(content)]


RECIPE = Recipe(
    "search",
    DEFAULTS,
    ("minutes", "steps"),
    training,
    prepare,
    (TOKENIZER, START, DOCUMENTS),
)


class Search(NamedTuple):
    """A trained encoder, and what it finds."""

    model: SentenceEncoder
    tokenizer: "Tokenizer"
    length: int  # tokens of a question, at most
    passages: list[Document]
    vectors: np.ndarray  # of the passages, (N, D)

    def find(self, question: str, top: int = 5) -> list[tuple[Document, float]]:
        """Return the passages that are nearest to a question, and their cosines with it."""
        (vector,) = embed(self.model, self.tokenizer, [question], self.length)
        return [
            (self.passages[k], score) for k, score in nearest(self.vectors, vector, top)
        ]


def load(folder: str | Path) -> Search:
    """Return what ``train search`` has trained into a folder.

    The vectors of all passages are computed once for a checkpoint, and kept in the folder.
    """
    run = Run(folder)
    settings = load_settings(run, RECIPE)
    tokenizer, length = tokenizer_of(run.read(TOKENIZER)), settings["length"]
    model = SentenceEncoder(build(settings))
    run.load_checkpoint(model.parameters())
    steps, documents = run.steps(), documents_of(run.read(DOCUMENTS))
    passages = cut_documents(tokenizer, documents, length)
    if run.has(INDEX):
        arrays, made = from_safetensors(INDEX, run.read(INDEX))
        if made["steps"] == steps:
            return Search(model, tokenizer, length, passages, arrays["vectors"])
    texts = [passage.text for passage in passages]
    vectors = embed(model, tokenizer, texts, length, progress=True)
    run.write(INDEX, to_safetensors({"vectors": vectors}, steps))
    return Search(model, tokenizer, length, passages, vectors)
