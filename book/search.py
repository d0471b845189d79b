"""The best value of a search, which has to lie inside it."""

from collections.abc import Callable, Iterable


def best_of(values: Iterable[float], loss: Callable[[float], float], edge: bool = False) -> float:
    """Return the value with the lowest loss.

    Parameters
    ----------
    values : iterable of float
        What was tried.
    loss : callable
    edge : bool
        Whether the best one is known to be the smallest or the largest of the values, and the
        text says so.

    Raises
    ------
    ValueError
        If it is and that is not known, or if it is not and should be.
    """
    values = list(values)
    best = min(values, key=loss)
    if (best in (min(values), max(values))) != edge:
        where = "inside" if edge else "at the edge of"
        raise ValueError(f"edge: expected {edge}, got the best value, {best}, {where} {values}")
    return best
