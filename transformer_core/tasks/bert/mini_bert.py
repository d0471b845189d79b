"""Mini-BERT as the book trains it: how it starts, how it is measured, how it is asked."""

from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from transformer_core.foundation.checks import (
    check_floats,
    check_positive,
    check_positive_int,
    check_shape,
)
from transformer_core.layers import AttentionSpec, LayerSpec, MultiHeadSelfAttention
from transformer_core.models import Bert, StackSpec
from transformer_core.models.bert import check_masked
from transformer_core.ops import cross_entropy, softmax
from transformer_core.tasks.bert.counts import check_shares
from transformer_core.tasks.texts.wordpiece import CLS, MASK, SEP, token_ids

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPEC = LayerSpec(
    192, AttentionSpec(4, bias=False), 768, "post", feed_forward="gelu_tanh"
)
LENGTH, LAYERS = 64, 3


def mini_bert(
    shares: np.ndarray,
    rng: np.random.Generator,
    spec: LayerSpec = SPEC,
    length: int = LENGTH,
    layers: int = LAYERS,
) -> Bert:
    r"""Build a Mini-BERT that starts with what is known before any training.

    Tied, with GELU and with a LayerNorm after the embeddings. The bias of the output layer starts
    at the logarithms of the tokens' frequencies, the positions as sinusoids with the standard
    deviation of the embeddings, 0.02, and each head of the first layer with its eye on a
    neighbour, see :func:`look_at_neighbours`.

    Parameters
    ----------
    shares : ndarray (V,)
        The frequency of each token, see :func:`frequencies`. What never occurs starts at half
        the smallest.
    rng : numpy.random.Generator
    spec : LayerSpec
        Of every layer. Default: D = 192, H = 4, F = 768, Post-LN, GELU, attention without biases.
    length, layers : int
        T and L.

    Returns
    -------
    Bert
    """
    check_shares(shares)
    stack = StackSpec(len(shares), length, layers)
    bert = Bert(spec, stack, rng, tied=True, embedding_norm=True)
    bert.readout.bias[...] = np.log(np.maximum(shares, shares[shares > 0].min() / 2))
    width = spec.width
    if width % 2:
        raise ValueError(f"width: expected an even number, got {width}")
    frequencies = np.pi * (np.arange(width // 2) + 0.5) / (width // 2)
    angles = np.outer(np.arange(length), frequencies)
    positions = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
    bert.positions.table[...] = 0.02 * sqrt(2) * positions.reshape(-1, width)
    look_at_neighbours(bert.encoder.layers[0].attention.branch, frequencies, rng)
    return bert


def look_at_neighbours(
    attention: MultiHeadSelfAttention,
    frequencies: np.ndarray,
    rng: np.random.Generator,
    score: float = 6.5,
) -> None:
    r"""Start the heads of a layer with their eyes on the tokens at -1, 1, -2, 2, ...

    .. math:: \mathbf{W}_Q = \mathbf{R}_k \mathbf{W}_K

    With the rotation :math:`\mathbf{R}_k` that shifts sinusoidal positions by k
    (eq:positions-shift), the query of position t is the key of position t + k.

    Parameters
    ----------
    attention : MultiHeadSelfAttention
        Its queries and keys are changed in place.
    frequencies : ndarray (D/2,)
        Of the sinusoids, in radians per position.
    rng : numpy.random.Generator
    score : float
        The expected score of that neighbour, if half of the input is its position.
    """
    width, heads = len(attention.query_key_value.weight), attention.heads
    check_floats("frequencies", frequencies, width // 2)
    check_positive("score", score)
    key_width = width // heads
    std = sqrt(2 * score / (width * sqrt(key_width)))
    query, key, _ = np.split(attention.query_key_value.weight, 3, axis=1)
    for head in range(heads):
        columns = slice(head * key_width, (head + 1) * key_width)
        shift = (1 + head // 2) * (-1 if head % 2 == 0 else 1)
        weight = rng.normal(0, std, (width, key_width))
        key[:, columns] = weight
        query[:, columns] = rotation(shift * frequencies) @ weight


def rotation(angles: np.ndarray) -> np.ndarray:
    """Return the matrix (D, D) that turns each pair of entries by an angle."""
    check_floats("angles", angles, "D/2")
    matrix = np.zeros((2 * len(angles), 2 * len(angles)))
    sine = np.arange(0, len(matrix), 2)
    cosine = sine + 1
    matrix[sine, sine] = matrix[cosine, cosine] = np.cos(angles)
    matrix[cosine, sine] = np.sin(angles)
    matrix[sine, cosine] = -np.sin(angles)
    return matrix


def measure(
    bert: Bert,
    inputs: np.ndarray,
    targets: np.ndarray,
    masked: np.ndarray,
    together: int = 16,
) -> tuple[float, float]:
    """Return the mean cross-entropy of the masked tokens, and the share of them that is right.

    Parameters
    ----------
    bert : Bert
    inputs, targets : ndarray of int (N, T)
        What the model sees, and what was there.
    masked : ndarray of bool (N, T)
    together : int
        How many sequences are worked on at once.

    Returns
    -------
    loss, accuracy : float
    """
    check_shape("inputs", inputs, "N", "T")
    check_shape("targets", targets, *inputs.shape)
    check_masked(masked, inputs.shape)
    check_positive_int("together", together)
    loss, right = 0.0, 0
    for start in range(0, len(inputs), together):
        part = slice(start, start + together)
        if masked[part].any():
            logits, _ = bert.forward(inputs[part], masked[part])
            asked = targets[part][masked[part]]
            loss += len(asked) * float(cross_entropy(logits, asked)[0])
            right += int((logits.argmax(axis=-1) == asked).sum())
    count = int(masked.sum())
    return loss / count, right / count


def fill_masks(
    bert: Bert, tokenizer: "Tokenizer", sentence: str, top: int = 5
) -> list[list[tuple[str, float]]]:
    """Say what may stand at each [MASK] of a sentence.

    Parameters
    ----------
    bert : Bert
    tokenizer : tokenizers.Tokenizer
    sentence : str
    top : int

    Returns
    -------
    list of list of (str, float)
        For each [MASK] the most probable pieces of words, with their probabilities.
    """
    check_positive_int("top", top)
    if not isinstance(sentence, str):
        raise ValueError(f"sentence: expected a string, got {sentence!r}")
    if any("\ud800" <= character <= "\udfff" for character in sentence):
        raise ValueError(f"sentence: expected Unicode characters, got {sentence!r}")
    (ids,) = token_ids(tokenizer, [sentence])
    longest = len(bert.positions.table) - 2
    if MASK not in ids:
        raise ValueError(f"sentence: expected a [MASK], got {sentence!r}")
    if len(ids) > longest:
        raise ValueError(
            f"sentence: expected at most {longest} pieces of words, got {len(ids)}"
        )
    inputs = np.array([[CLS, *ids, SEP]])
    p, _ = softmax(bert.forward(inputs, inputs == MASK)[0])
    return [
        [(tokenizer.id_to_token(k), float(row[k])) for k in (-row).argsort()[:top]]
        for row in p
    ]
