"""Products of what the package computes on its way: a factor that is missing, or a term."""

from collections.abc import Iterator
from itertools import islice

import numpy as np

from transformer_practice.engine.explain import ratios
from transformer_practice.engine.runs import close, values_at

POWERS = 1, -1, 2, -2, 0.5, -0.5
MOST_ENTRIES = 60  # by which products are told apart first
SAME = 1e-6
MOST_VALUES = 24  # whose row sums are taken, and products that are looked at


Product = tuple[tuple[str, float], ...]  # names of values, each with its power


def by_products(output):
    """Find a product by which the output is multiplied, that is added to it, or that it is."""
    cases = output.cases[:2]
    if cases[0].own.size < 4 or not all(np.isfinite(c.own).all() for c in cases):
        return ""
    values = [alphabet(output, case) for case in cases]
    for target, said in ((ratio, said_of_ratio), (own, said_of_own)):
        found = best(output, target, cases, values)
        if found:
            return said(output.name, *found)
    term = by_factor_of_a_term(output, cases, values)
    found = not term and best(output, gap, cases, values)
    return said_of_gap(output.name, *found) if found else term


def by_zeros(output):
    """Find what stands where the output should be 0, if it is right elsewhere."""
    cases = output.wrong
    zeros = [(case.right == 0) & (case.own != 0) for case in cases]
    if zeros[0].sum() < 4 or not all(
        at.any() and close(case.own[~at], case.right[~at])
        for at, case in zip(zeros, cases, strict=True)
    ):
        return ""
    values = [alphabet(output, case) for case in cases]
    for name in values[0]:
        factors = [
            ratios.factor(case.own[at], np.broadcast_to(known[name], at.shape)[at])
            for at, case, known in zip(zeros, cases, values, strict=True)
            if name in known
        ]
        known_at = min(2, len(cases))  # where it is one number, it is no product
        if len(factors) >= known_at and None not in factors and np.allclose(factors, factors[0]):
            times = f"{factors[0]:.4g} * " * (not np.isclose(factors[0], 1))
            return f"{output.name} is {times}{name} where it should be 0, and right elsewhere."
    return ""


def best(output, fraction, cases, values):
    """Return the simplest product of which a fraction is a multiple, and the number before it."""
    found = []
    for product in islice(products(quotient(*fraction(cases[0])), values[0]), MOST_VALUES):
        numbers = [multiple(*fraction(c), product, v) for c, v in zip(cases, values, strict=True)]
        if None in numbers:
            continue
        sizes = {name: at[: len(cases)] for name, at in output.sizes.items()}
        names = ratios.names_of(numbers, sizes)
        if np.allclose(np.abs(numbers), 1):
            number = "-" * (numbers[0] < 0)
        elif names or len(cases) > 1 and np.allclose(numbers, numbers[0], rtol=SAME):
            number = names[0] if names else f"{numbers[0]:.4g}"
        else:
            continue
        found.append((len(product) + len(number), len(found), number, product))
    return min(found)[2:] if found else None


def by_factor_of_a_term(output, cases, values):
    """Find a term of the derivation that has a factor too many, or lacks one."""
    terms_of = output.exercise.terms.get(output.name)
    for label in terms_of(cases[0].point) if terms_of else ():

        def term(case, label=label):
            terms = terms_of(case.point)
            rest = sum(each for other, each in terms.items() if other != label)
            return case.own - rest, np.broadcast_to(terms[label], case.right.shape)

        found = best(output, term, cases, values)
        if found:
            return f"{output.name} is right except for {label}: " + said_of_ratio("it", *found)
    return ""


def ratio(case):
    return case.own, case.right


def own(case):
    return case.own, np.ones(case.own.shape)


def gap(case):
    return case.own - case.right, np.ones(case.own.shape)


def quotient(above, below):
    """Return the quotient of two arrays, NaN where one of them is 0, to rounding."""
    tiny = 1e-12 * max(np.abs(above).max(), np.abs(below).max())
    known = (np.abs(above) > tiny) & (np.abs(below) > tiny)
    return np.divide(above, below, out=np.full(above.shape, np.nan), where=known)


def said_of_ratio(name, number, product):
    if not number and len(product) == 1:
        ((factor, power),) = product
        if power == -1:
            return f"{name} lacks the factor {factor}."
        if power == 1:
            return f"{name} has one factor of {factor} too many."
    if not number and sorted(power for _, power in product) == [-1, 1]:
        (there, _), (missing, _) = sorted(product, key=lambda each: -each[1])
        return f"{name} has {there} in place of {missing}."
    if not number and all(power == -1 for _, power in product):
        return f"{name} lacks the factors {' and '.join(factor for factor, _ in product)}."
    return f"{name} is {written(number, product)} times what it should be."


def said_of_own(name, number, product):
    return f"{name} is {written(number, product)}, and nothing else."


def said_of_gap(name, number, product):
    sign = "less" if number.startswith("-") else "more"
    return f"{name} is {written(number.removeprefix('-'), product)} {sign} than it should be."


def written(number, product):
    names, powers = zip(*product, strict=True)
    text = ratios.quotient(names, powers)
    return f"{number}{text}" if number in ("", "-") else f"{number} * {text}"


def alphabet(output, case):
    """Name what the package computes on its way, in shapes that fit the output."""
    exercise, point, shape = output.exercise, case.point, case.own.shape
    found: dict[str, np.ndarray] = {}

    def add(name, value):
        if (
            isinstance(value, np.ndarray)
            and value.dtype.kind == "f"
            and value.size
            and broadcasts_to(value.shape, shape)
            and np.isfinite(value).all()
            and value.any()
            and np.ptp(value) > 0
            and not any(
                value.shape == known.shape and np.allclose(value, known) for known in found.values()
            )
        ):
            found[name] = value

    named = dict(values_at(exercise, point, output.stage.name))
    for name, value in named.items():
        add(name, value)
    for name, value in named.items():  # such as words: how often each stands there
        rows = shape[0] if shape else 0
        if isinstance(value, np.ndarray) and value.dtype.kind == "i" and value.size:
            if value.min() >= 0 and value.max() < rows:
                often = np.bincount(value.ravel(), minlength=rows).reshape(
                    -1, *[1] * len(shape[1:])
                )
                add(f"(how often each of {name} occurs)", np.maximum(often, 1.0))
    for name, value in list(found.items())[:MOST_VALUES]:
        if value.min() >= 0 and value.max() <= 1:
            add(f"(1 - {name})", 1 - value)
    for name, value in list(named.items())[:MOST_VALUES]:
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.ndim:
            add(f"the row sums of {name}", value.sum(axis=-1, keepdims=True))
            add(f"the row sums of {name}^2", (value**2).sum(axis=-1, keepdims=True))
    return found


def broadcasts_to(shape, whole):
    try:
        return np.broadcast_shapes(shape, whole) == whole
    except ValueError:
        return False


def products(target: np.ndarray, values: dict[str, np.ndarray]) -> Iterator[Product]:
    """Yield the products of one or two values to powers of which an array is a multiple.

    They are found by their logarithms, at some entries.
    """
    use = np.flatnonzero(np.isfinite(target))[:MOST_ENTRIES]
    if len(use) < 4:
        return
    with np.errstate(all="ignore"):
        wanted = centred(np.log(np.abs(target.ravel()[use])))
        logs = {
            name: np.log(np.abs(np.broadcast_to(value, target.shape).ravel()[use]))
            for name, value in values.items()
        }
    logs = {name: centred(at) for name, at in logs.items() if np.isfinite(at).all()}
    if not logs or np.abs(wanted).max() < SAME:  # it is a multiple as it is
        return
    factors = [(name, power) for name in logs for power in POWERS]
    table = np.stack([power * logs[name] for name, power in factors])
    scale = max(1.0, np.abs(wanted).max())
    for factor, each in zip(factors, table, strict=True):
        if np.abs(wanted - each).max() < SAME * scale:
            yield (factor,)
    for i, each in enumerate(table):
        same = np.abs(wanted - each - table[i + 1 :]).max(axis=1) < SAME * scale
        for j in np.flatnonzero(same):
            one, other = factors[i], factors[i + 1 + j]
            if one[0] != other[0]:
                yield one, other


def centred(array):
    return array - array.mean()


def multiple(above, below, product, values):
    """Return c if above / below is c times a product, everywhere; None if it is not."""
    for name, power in product:
        if name not in values:
            return None
        value = values[name] if abs(power) == 1 else np.abs(values[name])
        if power > 0:
            below = below * value**power
        else:
            above = above * value**-power
    return ratios.factor(above, below) or None
