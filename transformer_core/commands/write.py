"""``write``: a text goes on as a model that ``train gpt`` has trained would have it."""

import numpy as np

from transformer_core.foundation.checks import check_whole
from transformer_core.models import Sampling
from transformer_core.tasks.gpt import load
from transformer_core.tasks.gpt.writing import USUAL, write


def add_parser(commands):
    parser = commands.add_parser(
        "write",
        help="continue a text",
        description=(
            "Print a text, and what the GPT in RUN writes after it, token by token, until it ends "
            "the text or has no position left."
        ),
    )
    parser.add_argument("folder", metavar="RUN", help="folder that 'train gpt' made")
    parser.add_argument("prompt", metavar="PROMPT", help='such as "Return the "')
    for option, meaning, default in (
        (
            "--temperature",
            "below 1 favours likely tokens, 0 takes only the likeliest",
            USUAL.temperature,
        ),
        (
            "--top-p",
            "draw from the fewest tokens with this share of the probability",
            USUAL.top_p,
        ),
        ("--min-p", "and with at least this share of the best one's", USUAL.min_p),
        (
            "--penalty",
            "above 1 penalises tokens that the text already has",
            USUAL.penalty,
        ),
    ):
        said = f"{meaning} (default: {default})"
        parser.add_argument(option, type=float, default=default, help=said)
    parser.add_argument(
        "--top-k", type=int, help="draw from this many tokens (default: from all)"
    )
    parser.add_argument("--tokens", type=int, help="write at most this many")
    parser.add_argument(
        "--seed", type=int, default=0, help="for the draws (default: 0)"
    )
    parser.set_defaults(run=run)


def run(options):
    check_whole("seed", options.seed)
    sampling = Sampling(
        options.penalty,
        options.temperature,
        options.top_k,
        options.top_p,
        options.min_p,
    )
    gpt, pairs = load(options.folder)
    rng = np.random.default_rng(options.seed)
    text = write(gpt, pairs, options.prompt, rng, sampling, options.tokens)
    first = next(text)  # which refuses a prompt before it is printed
    print(options.prompt.rstrip(" ") + first, end="", flush=True)
    for piece in text:
        print(piece, end="", flush=True)
    print()
