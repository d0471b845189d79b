"""Factors and differences that are numbers: by which product of the sizes an output is wrong."""

from functools import lru_cache
from itertools import combinations, product
from math import pi, sqrt

import numpy as np

from transformer_practice.engine.points import Point
from transformer_practice.engine.runs import TOLERANCE

SAME = 1e-6  # relative: by which factors at several points may differ
POWERS = 1, -1, 0.5, -0.5
NUMBERS = {  # in the order in which they are tried
    "": 1.0,
    **{str(n): float(n) for n in (2, 3, 4)},
    **{f"1/{n}": 1 / n for n in (2, 3, 4)},
}
CONSTANTS = NUMBERS | {
    **{str(n): float(n) for n in (5, 6, 8, 10, 12, 16)},
    **{f"1/{n}": 1 / n for n in (5, 6, 8, 10, 12, 16)},
    "2/3": 2 / 3,
    "3/2": 1.5,
    "3/4": 0.75,
    "4/3": 4 / 3,
    "sqrt(2)": sqrt(2),
    "1/sqrt(2)": sqrt(1 / 2),
    "pi": pi,
    "2 pi": 2 * pi,
    "sqrt(2 pi)": sqrt(2 * pi),
    "1/sqrt(2 pi)": 1 / sqrt(2 * pi),
    "sqrt(2/pi)": sqrt(2 / pi),
    "sqrt(pi/2)": sqrt(pi / 2),
    "sqrt(pi)": sqrt(pi),
    "1/sqrt(pi)": 1 / sqrt(pi),
    "2/sqrt(pi)": 2 / sqrt(pi),
    "ln 2": np.log(2),
    "1/ln 2": 1 / np.log(2),
    "ln 10": np.log(10),
}
SIMPLE = 3.5  # how far from simple a name may be that is known from one point
MOST = 3  # names of one number that a sentence gives


def sizes_of(
    points: list[Point], generic: list[Point], defaults: dict[str, float], cotangent: str = ""
) -> dict[str, np.ndarray]:
    """Return the numbers by which people multiply, one at each point.

    Sizes of the points, arguments that are numbers, the ``cotangent`` under this name, what is one
    less than either or the rest to 1, and how many entries a mask keeps. A size that an axis of an
    argument has is that of the point's own argument; another is known at generic points alone.
    """
    found: dict[str, list] = {}
    if cotangent and all(isinstance(point.cotangent, float) for point in points):
        found[cotangent] = [point.cotangent for point in points]
    for name, value in (defaults | generic[0].arguments).items():
        at = [point.arguments.get(name, defaults.get(name)) for point in points]
        if all(isinstance(v, int | float) and not isinstance(v, bool) for v in [value, *at]):
            found.setdefault(name, at)
        elif all(isinstance(v, np.ndarray) and v.dtype == bool for v in [value, *at]):
            found[f"the number of True in {name}"] = [v.sum() for v in at]
    for letter in generic[0].sizes:
        axis = axis_of(letter, generic)
        if letter not in found:
            found[letter] = [size_at(point, letter, axis, generic) for point in points]
    known = {n: np.array(v, float) for n, v in found.items() if None not in v}
    for name, values in list(known.items()):
        if (values % 1 == 0).all() and (values > 2).all():
            known[f"({name} - 1)"] = values - 1
        elif ((0 < values) & (values < 1)).all():
            known[f"(1 - {name})"] = 1 - values
    distinct: dict[tuple, str] = {}
    for name, values in known.items():
        if values.all() or len(points) > 2:
            distinct.setdefault(tuple(values), name)
    return {name: np.array(values) for values, name in distinct.items()}


def axis_of(letter, generic):
    """Return the argument and the axis that have a size at all generic points."""
    sizes = [point.sizes.get(letter) for point in generic]
    for name, value in generic[0].arguments.items():
        for axis in range(-np.ndim(value), 0) if isinstance(value, np.ndarray) else ():
            shapes = [np.shape(point.arguments.get(name)) for point in generic]
            if all(len(s) >= -axis and s[axis] == n for s, n in zip(shapes, sizes, strict=True)):
                return name, axis
    return None


def size_at(point, letter, axis, generic):
    if axis and isinstance(point.arguments.get(axis[0]), np.ndarray):
        shape = point.arguments[axis[0]].shape
        return shape[axis[1]] if len(shape) >= -axis[1] else 1
    return point.sizes.get(letter) if point in generic else None


def factor(own, right):
    """Return c if own = c * right, to rounding, and None otherwise."""
    if not np.isfinite(own).all() or not np.isfinite(right).all():
        return None
    square = float((right * right).sum())
    if square == 0:
        return None
    c = float((own * right).sum()) / square
    return c if np.abs(own - c * right).max() <= TOLERANCE * np.abs(right).max() else None


def names_of(factors: list[float], sizes: dict[str, np.ndarray]) -> list[str]:
    """Return the simplest names of a number that is known at several points.

    Where there is one point, the names of what it is there.
    """
    target = np.array(factors, float)
    if len(target) > 1 and np.allclose(target, target[0], rtol=SAME, atol=0):
        return constant_names(target[0], sizes)
    labels = [n for n, at in sizes.items() if at.all() and (len(at) == 1 or tells(at))]
    if not labels:
        return constant_names(target[0], sizes) if len(target) == 1 else []
    powers = exponents(len(labels))
    table = np.array([sizes[n] for n in labels])
    values = np.exp(powers @ np.log(np.abs(table)))
    values *= (-1) ** ((powers % 2 == 1) @ (table < 0))  # a root is of the size without its sign
    rest = target / values
    found: dict[float, list[str]] = {}
    for i in np.flatnonzero(np.abs(rest / rest[:, :1] - 1).max(axis=1, initial=0) < SAME):
        chosen = {n: power for n, power in zip(labels, powers[i], strict=True) if power}
        for number, c in NUMBERS.items() if len(target) > 1 else [("", 1.0)]:
            if close_to(rest[i, 0], c):
                sign = "-" if rest[i, 0] < 0 else ""
                text = sign + times(number, quotient(chosen, chosen.values()))
                cost = cost_of(chosen) + bool(number)
                if len(target) > 1 or cost <= SIMPLE:
                    found.setdefault(cost, []).append(text)
    if not found and len(target) == 1:
        return constant_names(target[0], sizes)
    return found[min(found)][:MOST] if found else []


def tells(size):
    """Tell whether a size is another at each point, or no whole number."""
    return np.ptp(size) > 0 or size[0] % 1 != 0


@lru_cache
def exponents(labels: int) -> np.ndarray:
    """Return the powers of so many sizes in the products that are tried, a row for each."""
    chosen = [(number, POWERS) for number in (1, 2)] + [(1, (2, -2)), (3, (1, -1))]
    rows = [
        (places, powers)
        for number, some in chosen
        for places in combinations(range(labels), number)
        for powers in product(some, repeat=number)
    ]
    rows += [
        (places, number * (power,))
        for number, some in ((3, POWERS[2:]), (4, POWERS))
        for places in combinations(range(labels), number)
        for power in some
    ]
    table = np.zeros((len(rows), labels))
    for row, (places, powers) in zip(table, rows, strict=True):
        row[list(places)] = powers
    return table


def cost_of(powers):
    """Say how far from simple a product of sizes is."""
    signs = len({p < 0 for p in powers.values()}) + len({abs(p) for p in powers.values()})
    roots = sum(abs(p) < 1 for p in powers.values())
    return len(powers) + 0.5 * signs + 0.5 * roots + 0.25 * sum(" " in n for n in powers)


def times(number, text):
    """Join a number and a product."""
    if number.startswith("1/"):
        return f"1/({number[2:]} {text[2:]})" if text.startswith("1/") else f"{text}/{number[2:]}"
    return (
        f"{number}/{text[2:]}" if number and text.startswith("1/") else f"{number} {text}".strip()
    )


def constant_names(value, sizes):
    """Name a number that is the same at all points.

    A whole number that is the same everywhere is named only if nothing else has this value.
    """
    for whole in (False, True):
        table = {
            quotient([name], [power]): np.sign(at[0]) * abs(at[0]) ** power
            for name, at in sizes.items()
            if np.ptp(at) == 0 and at[0] and (at[0] % 1 == 0) == whole
            for power in POWERS
        }
        fits = {n: c for n, c in (table | CONSTANTS).items() if n and close_to(value, abs(c))}
        if fits:
            break
    return ["-" * bool(c * value < 0) + name for name, c in fits.items()][:MOST]


def quotient(names, powers):
    """Write a product of names to powers: "B/T", "1/sqrt(K)", "sqrt(K/S)"."""

    def joined(power):
        return [n for n, p in zip(names, powers, strict=True) if p == power]

    names = [f"({n})" if " " in n and n[0] != "(" else n for n in names]
    names = [f"{n}^2" if abs(p) == 2 else n for n, p in zip(names, powers, strict=True)]
    powers = [np.sign(p) if abs(p) == 2 else p for p in powers]

    def fraction(above, below):
        over = " * ".join(below)
        over = f"({over})" if len(below) > 1 else over
        return " * ".join(above) + (f"/{over}" if below else "") if above else f"1/{over}"

    above, below = joined(1), joined(-1)
    roots = joined(0.5), joined(-0.5)
    if roots[0]:
        above.append(f"sqrt({fraction(*roots)})")
    elif roots[1]:
        below.append(f"sqrt({' * '.join(roots[1])})")
    return fraction(above, below)


def difference(gaps: list[float], sizes: dict[str, np.ndarray]) -> list[str]:
    """Return the simplest names of a difference of two numbers: "4 D * L"."""
    target = np.array(gaps, float)
    found: dict[float, list[str]] = {}
    whole = [name for name in sizes if "True" not in name]
    for number in range(1, 5):
        for chosen in combinations(whole, number):
            for powers in product((1, 2), repeat=number):
                values = np.prod(
                    [sizes[n] ** p for n, p in zip(chosen, powers, strict=True)], axis=0
                )
                some = values != 0
                if np.ptp(values) == 0 or not np.array_equal(some, target != 0):
                    continue
                rest = target[some] / values[some]
                if not np.allclose(rest, rest[0], rtol=SAME, atol=0):
                    continue
                names = [n for name, c in CONSTANTS.items() for n in [name] if close_to(rest[0], c)]
                if names:
                    text = " * ".join(
                        f"{n}^2" if p == 2 else n for n, p in zip(chosen, powers, strict=True)
                    )
                    cost = sum(powers) + bool(names[0])
                    found.setdefault(cost, []).append(f"{names[0]} {text}".strip())
    return found[min(found)][:MOST] if found else []


def close_to(value, number):
    return np.isclose(abs(value), number, rtol=SAME, atol=0)
