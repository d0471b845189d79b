"""The GPT that writes in the pages of the book, as its worker asks for it.

It is given its weights once, and holds them while the worker lives: :func:`is_open` says whether
it does. A text comes and goes as ids of tokens, everything else as JSON. The draw of a token
depends on a seed and its place alone.
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from transformer_core.models import Gpt, Sampling
from transformer_core.models.sampling import draw
from transformer_core.ops import log_softmax, softmax
from transformer_core.optim.optimizer import Optimizer
from transformer_core.tasks.gpt.byte_pairs import END_OF_TEXT, BytePairs
from transformer_core.tasks.gpt.recipe import RECIPE, build, make_optimizer
from transformer_core.tasks.gpt.why import changes_without, gradient_lengths

RIVALS = 5  # tokens that are shown at a place
FIRST = 3  # tokens of an order that are compared with those of another
ELSEWHERE = "Return a new array with the elements sorted."  # which no step is taken on


class Writer:
    """A GPT with what it has read last, its original weights and its optimiser.

    Parameters
    ----------
    settings : dict
        Of the model, as ``studies.page_gpt`` stores them, with the table of its byte pairs.
    weights : dict of str to buffer
        The numbers of each parameter, in float32.
    """

    def __init__(self, settings: dict, weights: dict):
        with TemporaryDirectory() as folder:
            path = Path(folder, "tokenizer.json")
            path.write_text(json.dumps(settings["tokenizer"]), encoding="utf-8")
            self.pairs = BytePairs.load(path)
        self.end = self.pairs.special[END_OF_TEXT]
        self.gpt: Gpt = build(RECIPE.defaults | settings)
        shapes = {name: array.shape for name, array in self.gpt.parameters().items()}
        if weights.keys() != shapes.keys():
            raise ValueError(f"weights: expected {[*shapes]}, got {[*weights]}")
        self.original = {
            name: np.array(weights[name], np.float32).reshape(shape)
            for name, shape in shapes.items()
        }
        self.restore()

    def restore(self) -> None:
        """Take back every step of training."""
        for name, array in self.gpt.parameters().items():
            array[...] = self.original[name]
        self.optimizer: Optimizer = make_optimizer(self.gpt.parameters(), RECIPE.defaults)
        self.forget()

    def forget(self):
        """Read anew what comes next: keys and values are those of older weights."""
        self.ids, self.state, self.logits = np.empty(0, int), self.gpt.begin(1), np.empty(0)

    def read(self, ids: np.ndarray) -> np.ndarray:
        """Return the logits of what may follow ids (V,); read only those that are new."""
        known = len(self.ids)
        if known >= len(ids) or (ids[:known] != self.ids).any():
            self.forget()
            known = 0
        logits, self.state = self.gpt.prefill(ids[np.newaxis, known:], self.state)
        self.ids, self.logits = ids, logits[0]
        return self.logits

    def encode(self, text: str) -> np.ndarray:
        """Return the ids of a text, after an end of text, as ``write`` begins."""
        ids = np.append(self.end, self.pairs.encode(text.rstrip(" ")))
        if len(ids) > self.gpt.longest:
            raise ValueError(
                f"The model reads {self.gpt.longest - 1} tokens, and these are {len(ids) - 1}."
            )
        return ids

    def shown(self, token: int) -> str:
        """Return a token as text; the end of a text is none."""
        return "" if token == self.end else self.pairs.tokens[token].decode(errors="replace")

    def log_p(self, ids: np.ndarray) -> np.ndarray:
        """Return ln p of each token of a text but the first."""
        found = log_softmax(self.gpt.forward(ids[np.newaxis, :-1])[0])[0]
        return found[np.arange(len(ids) - 1), ids[1:]]

    def token(self, token: int, p: np.ndarray, q: np.ndarray | None = None) -> dict:
        """Describe a token among its rivals: p of the model, and q, from which it was drawn."""
        rivals = np.argsort(-p, kind="stable")[:RIVALS].tolist()

        def described(one):
            drawn = {} if q is None else {"q": float(q[one])}
            return {"text": self.shown(one), "p": float(p[one])} | drawn

        others = [described(one) for one in rivals]
        place = rivals.index(token) if token in rivals else None
        return {"id": int(token)} | described(token) | {"rivals": others, "place": place}


opened: list[Writer] = []  # one, when its weights have come


def is_open() -> str:
    """Say whether the model is there."""
    return json.dumps(bool(opened))


def open_model(settings: str, weights: dict) -> str:
    """Take the model's settings, in JSON, and its weights; return how many tokens it reads."""
    opened[:] = [Writer(json.loads(settings), weights)]
    return json.dumps({"longest": opened[0].gpt.longest})


def begin(text: str) -> str:
    """Read a prompt: its tokens, each but the first with its probability and its rivals."""
    (writer,) = opened
    ids = writer.encode(text)
    p, _ = softmax(writer.gpt.forward(ids[np.newaxis])[0])
    tokens = [writer.token(token, p[0, i]) for i, token in enumerate(ids[1:].tolist())]
    return json.dumps([{"id": writer.end, "text": ""}, *tokens])


def write(ids: str, sampling: str, seed: int) -> str:
    """Draw the token after those of ids, from the model's distribution under a sampling."""
    (writer,) = opened
    text = np.array(json.loads(ids))
    logits = writer.read(text)[np.newaxis]
    seen = np.zeros(logits.shape, bool)
    seen[0, text] = True
    q = Sampling(**json.loads(sampling)).distribution(logits, seen)
    (token,) = draw(q, np.random.default_rng([int(seed), len(text)]))
    p, _ = softmax(logits)
    kept = int(np.count_nonzero(q))
    ends = bool(token == writer.end)
    return json.dumps(writer.token(int(token), p[0], q[0]) | {"kept": kept, "ends": ends})


def why(ids: str) -> str:
    """Ask both questions about the last token of ids, and say at which tokens they disagree.

    They disagree at a token that is among the first three by one of them, and not by the other.
    """
    (writer,) = opened
    text = np.array(json.loads(ids))
    lengths, changes = gradient_lengths(writer.gpt, text), changes_without(writer.gpt, text)
    by_length, by_change = np.argsort(-lengths), np.argsort(-np.abs(changes))
    differ = {*by_length[:FIRST].tolist()} ^ {*by_change[:FIRST].tolist()}
    return json.dumps(
        {
            "lengths": lengths.tolist(),
            "changes": changes.tolist(),
            "log_p": float(writer.log_p(text)[-1]),
            "most": [int(by_length[0]), int(by_change[0])],
            "differ": sorted(differ),
        }
    )


def learn(text: str, rate: float) -> str:
    """Take one step of training on a sentence, and measure it before and after.

    It is a step of the recipe, by the same optimiser, with the gradients clipped. Its loss is the
    mean of -ln p of the sentence's tokens. The loss of another sentence, on which no step is taken,
    is measured beside it.
    """
    (writer,) = opened
    ids, other = writer.encode(text), writer.encode(ELSEWHERE)
    if len(ids) < 2:
        raise ValueError("Write a sentence first.")
    before = writer.log_p(ids), writer.log_p(other)
    writer.optimizer.learning_rate = float(rate)
    loss, grads = writer.gpt.loss_and_gradients(ids[np.newaxis, :-1], ids[np.newaxis, 1:])
    writer.optimizer.step(grads, RECIPE.defaults["max_norm"])
    writer.forget()
    after = writer.log_p(ids), writer.log_p(other)
    return json.dumps(
        {
            "tokens": [writer.shown(token) for token in ids[1:].tolist()],
            "p": [np.exp(found[0]).tolist() for found in (before, after)],
            "loss": [float(loss), -float(after[0].mean())],
            "control": ELSEWHERE,
            "elsewhere": [-float(found[1].mean()) for found in (before, after)],
            "steps": writer.optimizer.steps,
        }
    )


def restore() -> str:
    """Return to the original weights."""
    (writer,) = opened
    writer.restore()
    return json.dumps({"steps": writer.optimizer.steps})
