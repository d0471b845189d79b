"""Mini-BERT as the book trains it: how it starts, how it is measured, how it is asked."""

from math import sqrt

import numpy as np

from transformer_core.foundation.checks import check_positive_int, check_shape
from transformer_core.models import Bert
from transformer_core.ops import cross_entropy, softmax
from transformer_core.tasks.bert.wordpiece import CLS, MASK, SEP, encode

SIZES = {"length": 64, "layers": 3, "width": 192, "heads": 4, "hidden_width": 768}


def mini_bert(shares, rng, **sizes):
    r"""Build a Mini-BERT that starts with what is known before any training.

    Tied, with GELU and with a LayerNorm after the embeddings. The bias of the read-out starts at
    the logarithms of the tokens' frequencies, the positions as sinusoids with the standard
    deviation of the embeddings, 0.02, and each head of the first layer with its eye on a
    neighbour, see :func:`look_at_neighbours`.

    Parameters
    ----------
    shares : ndarray (V,)
        The frequency of each token, see :func:`frequencies`. What never occurs starts at half
        the smallest.
    rng : numpy.random.Generator
    **sizes : int
        Other ``length``, ``layers``, ``width``, ``heads`` or ``hidden_width`` than
        T = 64, L = 3, D = 192, H = 4 and F = 768.

    Returns
    -------
    Bert
    """
    check_shape("shares", shares, "V")
    sizes = SIZES | sizes
    bert = Bert(
        len(shares),
        **sizes,
        activation="gelu_tanh",
        tied=True,
        embedding_norm=True,
        rng=rng,
    )
    bert.readout.bias[...] = np.log(np.maximum(shares, shares[shares > 0].min() / 2))
    width = sizes["width"]
    frequencies = np.pi * (np.arange(width // 2) + 0.5) / (width // 2)
    angles = np.outer(np.arange(sizes["length"]), frequencies)
    positions = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
    bert.positions.table[...] = 0.02 * sqrt(2) * positions.reshape(-1, width)
    look_at_neighbours(bert.encoder.layers[0].attention.branch, frequencies, rng)
    return bert


def look_at_neighbours(attention, frequencies, rng, score=6.5):
    r"""Start the heads of a layer with their eyes on the tokens at -1, 1, -2, 2, ...

    .. math:: \mathbf{W}_Q = \mathbf{R}_k \mathbf{W}_K

    With the rotation :math:`\mathbf{R}_k` that shifts sinusoidal positions by k
    (eq:positions-shift), the query of position t is the key of position t + k.

    Parameters
    ----------
    attention : MultiHeadSelfAttention
        Its queries and keys are changed in place.
    frequencies : ndarray (D/2,)
        Of the sinusoids, in radians a position.
    rng : numpy.random.Generator
    score : float
        The expected score of that neighbour, if half of the input is its position.
    """
    width, heads = 2 * len(frequencies), attention.heads
    key_width = width // heads
    std = sqrt(2 * score / (width * sqrt(key_width)))
    query, key, _ = np.split(attention.query_key_value.weight, 3, axis=1)
    for head in range(heads):
        columns = slice(head * key_width, (head + 1) * key_width)
        shift = (1 + head // 2) * (-1 if head % 2 == 0 else 1)
        weight = rng.normal(0, std, (width, key_width))
        key[:, columns] = weight
        query[:, columns] = rotation(shift * frequencies) @ weight


def rotation(angles):
    """Return the matrix (D, D) that turns each pair of entries by an angle."""
    matrix = np.zeros((2 * len(angles), 2 * len(angles)))
    sine = np.arange(0, len(matrix), 2)
    cosine = sine + 1
    matrix[sine, sine] = matrix[cosine, cosine] = np.cos(angles)
    matrix[cosine, sine] = np.sin(angles)
    matrix[sine, cosine] = -np.sin(angles)
    return matrix


def measure(bert, inputs, ids, masked, together=16):
    """Return the mean cross-entropy of the masked tokens, and the share of them that is right.

    Parameters
    ----------
    bert : Bert
    inputs, ids : ndarray of int (N, T)
        What the model sees, and what was there.
    masked : ndarray of bool (N, T)
    together : int
        How many sequences are worked on at once.

    Returns
    -------
    loss, accuracy : float
    """
    check_positive_int("together", together)
    total, right = 0.0, []
    for start in range(0, len(ids), together):
        part = slice(start, start + together)
        if not masked[part].any():
            continue
        logits, _ = bert.forward(inputs[part], masked[part])
        targets = ids[part][masked[part]]
        total += len(targets) * float(cross_entropy(logits, targets)[0])
        right.append(logits.argmax(axis=-1) == targets)
    right = np.concatenate(right)
    return total / len(right), float(right.mean())


def fill(bert, tokenizer, sentence, top=5):
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

    Raises
    ------
    ValueError
        If the sentence has no [MASK] or is too long for the model.
    """
    check_positive_int("top", top)
    (ids,) = encode(tokenizer, [sentence])
    longest = len(bert.positions.table) - 2
    if MASK not in ids:
        raise ValueError(f"sentence: expected a [MASK], got {sentence!r}")
    if len(ids) > longest:
        raise ValueError(
            f"sentence: expected at most {longest} pieces of words, got {len(ids)}"
        )
    ids = np.array([[CLS, *ids, SEP]])
    p, _ = softmax(bert.forward(ids, ids == MASK)[0])
    return [
        [(tokenizer.id_to_token(k), float(row[k])) for k in (-row).argsort()[:top]]
        for row in p
    ]
