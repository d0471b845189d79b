"""What a GPT writes, as text, while it writes it."""

from codecs import getincrementaldecoder
from collections.abc import Iterator

import numpy as np

from transformer_core.foundation.checks import check_positive_int
from transformer_core.models import Gpt, Sampling, sample
from transformer_core.tasks.gpt.byte_pairs import END_OF_TEXT, BytePairs

USUAL = Sampling(temperature=0.8, min_p=0.05)  # of the command line


def write(
    gpt: Gpt,
    pairs: BytePairs,
    prompt: str,
    rng: np.random.Generator,
    sampling: Sampling | None = None,
    tokens: int | None = None,
) -> Iterator[str]:
    """Go on with a text, as a document that begins with it: yield what each token adds.

    Spaces at the end of the prompt are left to the model: a token has the space before its word.
    A character that several tokens make is yielded by the last of them.

    Parameters
    ----------
    gpt : Gpt
    pairs : BytePairs
    prompt : str
    rng : numpy.random.Generator
    sampling : Sampling, optional
        Default: from the distribution as it is.
    tokens : int, optional
        The most tokens to write. Default: as many as the model has positions for.

    Yields
    ------
    str
        Until the model writes the end of the text.
    """
    if not isinstance(prompt, str):
        raise ValueError(f"prompt: expected a string, got {prompt!r:.60}")
    end = pairs.special[END_OF_TEXT]
    start = np.append(end, pairs.encode(prompt.rstrip(" ")))[np.newaxis]
    longest = gpt.longest + 1
    if start.shape[1] >= longest:
        raise ValueError(
            f"prompt: expected at most {longest - 2} tokens, got {start.shape[1] - 1}"
        )
    if tokens is not None:
        check_positive_int("tokens", tokens)
        longest = min(longest, start.shape[1] + tokens)
    decoder = getincrementaldecoder("utf-8")("replace")
    for (token,) in sample(gpt, start, rng, sampling, end=end, longest=longest):
        if token == end:
            break
        yield decoder.decode(pairs.tokens[token])
    yield decoder.decode(b"", final=True)
