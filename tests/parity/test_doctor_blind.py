"""Differences that were planted after the catalogue was written, and what came of them.

No hypothesis has been made or changed for them: the verdicts are those of the first run.
"""

import inspect

import pytest
from helpers.texts import ROOT, read
from parity import programs
from parity.test_doctor import both, verdict

SLOPES = "2.0 ** -(2 * torch.arange(1, 5, dtype=x.dtype))[:, None, None]"
LAG = "(torch.arange(9)[:, None] - torch.arange(9)).to(x)"
OFF_BY_ONE = "hidden.exp() / (1 + hidden.exp().sum(-1, keepdim=True))"
KEEP = "keep & ((torch.arange(source) > 0) | (lag == 0))"
# The family, a line of the program and what is written in its place, where this is seen first,
# and a word that a right name of the cause would have.
PLANTED = {
    "logits capped": (
        "gpt2",
        'note("logits", logits)',
        'note("logits", 3 * torch.tanh(logits / 3))',
        "logits",
        "capped",
    ),
    "a loss on the normaliser": (
        "llama",
        'return counted.mean() if "all tokens" in self.wrong else total',
        "return total + 0.01 * logits.logsumexp(-1).square().mean()",
        "loss",
        "normaliser",
    ),
    "scores with a slope of the distance": (
        "gpt2",
        "q @ k.transpose(-1, -2) * scale",
        f"q @ k.transpose(-1, -2) * scale - {SLOPES} * {LAG}",
        "layers.0.attention.scores",
        "distance",
    ),
    "softmax with one more in its sum": (
        "llama",
        'note(p + "weights", weights)',
        f'note(p + "weights", {OFF_BY_ONE})',
        "layers.0.attention.weights",
        "one more",
    ),
    "gradient of the table by frequency": (
        "gpt2",
        'x = self.p["token_embedding.weight"][ids]',
        'x = F.embedding(ids, self.p["token_embedding.weight"], scale_grad_by_freq=True)',
        "gradient.parameter.token_embedding.weight",
        "frequency",
    ),
    "values alone tiled": (
        "llama",
        "k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)",
        "k, v = k.repeat_interleave(group, 1), v.repeat(1, group, 1, 1)",
        "layers.0.attention.context",
        "tiled",
    ),
    "first token hidden": (
        "gpt2",
        'mask = self.s.get("mask")',
        f'keep, mask = {KEEP}, self.s.get("mask")',
        "layers.0.attention.weights",
        "first",
    ),
    "keys detached": (
        "qwen",
        "kept = k, v",
        "kept, k = (k, v), k.detach()",
        "gradient.layers.1.attention.key_rotated",
        "detached",
    ),
    "a steeper sigmoid": (
        "llama",
        "act = activate[name]",
        "act = lambda x: x * torch.sigmoid(1.5 * x)",
        "layers.0.feed_forward.hidden",
        "1.5",
    ),
    "segments forgotten": ("bert", "[segments]", "[0 * segments]", "embedding_sum", "segment"),
    "positions from the end": (
        "gpt2",
        "[first : first + ids.shape[1]]",
        "[: ids.shape[1]].flip(0)",
        "embedding",
        "end",
    ),
    "branches in parallel": (
        "llama",
        'note(p + "norm", self.norm(p + "norm", x)) if pre else x',
        'note(p + "norm", self.norm(p + "norm", y := y if "feed" in p else x))',
        "layers.0.feed_forward.norm",
        "parallel",
    ),
}
NAMED = {"values alone tiled"}  # by the first run, which located all others


@pytest.mark.parametrize("case", PLANTED)
def test_the_verdict_is_that_of_the_first_run(doctor, monkeypatch, case):
    family, line, wrong, name, cause = PLANTED[case]
    source = inspect.getsource(programs.Net)
    assert source.count(line) == 1
    names = dict(vars(programs))
    exec(source.replace(line, wrong), names)
    monkeypatch.setattr("parity.test_doctor.Net", names["Net"])
    how, report = verdict(doctor(*both(family)), name, cause)
    assert how == ("named" if case in NAMED else "located"), report


def test_the_page_says_how_many_were_located_and_named():
    page = " ".join(read(ROOT / "book/doctor.md").split())
    assert f"{len(PLANTED)} were located, {len(NAMED)} was named" in page
