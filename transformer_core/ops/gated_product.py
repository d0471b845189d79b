"""The product of a gate and a value, in the middle of a gated feed-forward layer."""

from typing import NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_floats, check_kind


class GatedProductCache(NamedTuple):
    gate: np.ndarray
    value: np.ndarray


def gated_product(
    gate: np.ndarray, value: np.ndarray
) -> tuple[np.ndarray, GatedProductCache]:
    r"""Let a gate decide how much of each entry passes (eq:gated-product).

    .. math:: p = g \odot v

    Parameters
    ----------
    gate, value : ndarray (...)
        Both of one shape. The gate is the output of an activation.

    Returns
    -------
    product : ndarray (...)
    cache : GatedProductCache

    Source: Shazeer 2020.
    """
    check_floats("gate", gate, ...)
    check_floats("value", value, *gate.shape)
    return gate * value, GatedProductCache(gate, value)


def gated_product_backward(
    dproduct: np.ndarray, cache: GatedProductCache
) -> tuple[np.ndarray, np.ndarray]:
    r"""Backward pass of :func:`gated_product` (eq:gated-product-backward).

    .. math:: \bar{g} = \bar{p} \odot v, \qquad \bar{v} = \bar{p} \odot g

    Source: derived in the book.
    """
    gate, value = check_kind("cache", cache, GatedProductCache)
    check_floats("dproduct", dproduct, *gate.shape)
    return dproduct * value, dproduct * gate
