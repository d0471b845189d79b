"""What an examination has found: a verdict in words, then its numbers."""

from dataclasses import asdict, dataclass, field
from html import escape

import numpy as np

ROWS = 6  # of a table that shows everything
SCREEN = 16  # lines of a verdict and what explains it, unless everything is asked for
PRINTED = 5  # lines of what was printed, likewise
LEGEND = "Relative errors; 1e-8 or less is rounding."
ALL = "Errors at each point, and other observations"
REST = f"{ALL}: --all, or the report's whole()."


@dataclass
class Report:
    """What :func:`examine` answers: printed, it fits on a screen, and :meth:`whole` says the rest.

    In a notebook it is a text with a picture, and the rest is folded.

    Attributes
    ----------
    name : str
        Of the exercise.
    right : bool
    written : bool
        False: a function is not written yet.
    verdict : str
        One sentence or two; lines of code may follow.
    mistakes : tuple of str
        Names in the catalogue that explain it, best first, all of them in a tie; () if none does.
    explanations : tuple of str
    errors : dict
        For each output and each point the relative error.
    notes : tuple of str
        What else was seen: theorems, the witness, the dtype.
    next : str
        Where to read on, and how to get a hint.
    pictures : dict
        For a wrong output its error at the first point where it is wrong, for each entry.
    printed : str
        By the functions while they were examined.
    """

    name: str
    right: bool
    written: bool
    verdict: str
    mistakes: tuple[str, ...] = ()
    explanations: tuple[str, ...] = ()
    errors: dict[str, dict[str, float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    next: str = ""
    pictures: dict[str, np.ndarray] = field(default_factory=dict)
    printed: str = ""

    def __str__(self) -> str:
        said = "\n\n".join([self.verdict, *map(indented, self.explanations)])
        parts = [cut(said, SCREEN)]
        if self.right:
            parts += [indented("\n".join(self.notes))]
        if self.printed:
            parts.append(indented(cut(f"Printed:\n{self.printed}", PRINTED + 1)))
        more = "" if self.right or not (self.errors or self.notes) else REST
        parts.append(indented("\n".join(filter(None, [self.next, more]))))
        return "\n\n".join(filter(None, parts))

    __repr__ = __str__

    def whole(self) -> str:
        """Return everything as a text: with the errors at each point and the notes."""
        parts = [self.verdict, *map(indented, self.explanations)]
        if not self.right and self.errors:
            parts.append(indented("\n".join([*table(shown(self.errors)), LEGEND])))
        parts.append(indented("\n".join(self.notes)))
        if self.printed:
            parts.append(indented(f"Printed:\n{self.printed}"))
        parts.append(indented(self.next))
        return "\n\n".join(filter(None, parts))

    def as_dict(self) -> dict:
        """Return all but the pictures, for JSON: an error is None where there is no number."""
        found = asdict(self)
        del found["pictures"]
        found["errors"] = {
            name: {point: error if np.isfinite(error) else None for point, error in row.items()}
            for name, row in self.errors.items()
        }
        return found

    def _repr_html_(self) -> str:
        kind = "right" if self.right else "wrong" if self.written else "open"
        body = [f"<p><strong>{lines(self.verdict)}</strong></p>"]
        body += [f"<p>{lines(text)}</p>" for text in self.explanations]
        body += [picture(name, error) for name, error in self.pictures.items()]
        rest = [f"<p>{lines(text)}</p>" for text in self.notes]
        if not self.right and self.errors:
            rest.insert(0, html_table(shown(self.errors)) + f"<p>{LEGEND}</p>")
        if self.right:
            body += rest
        elif rest:
            body.append(f"<details><summary>{ALL}</summary>{''.join(rest)}</details>")
        if self.printed:
            body.append(f"<p>Printed:<br>{lines(self.printed)}</p>")
        if self.next:
            body.append(f"<p>{lines(self.next)}</p>")
        return f'<div class="examined examined-{kind}">{"".join(body)}</div>'


def cut(text, most):
    """Return the first lines of a text, with a mark if there are more."""
    all_lines = text.splitlines()
    return "\n".join(all_lines[:most] + ["  ..."] * (len(all_lines) > most))


def shown(errors):
    """Leave out of a long table the outputs that are right everywhere."""
    wrong = {name: row for name, row in errors.items() if not all(e < 1e-8 for e in row.values())}
    return wrong if len(errors) > ROWS and wrong else errors


def table(errors):
    """Yield the lines of a table: an output a line, a point a column, eighty columns at most."""
    points = in_order(errors)
    first = max(map(len, errors))
    widths = [max(len(point), 7) for point in points]
    while points:
        fitting = 1
        while fitting < len(points) and first + sum(widths[: fitting + 1]) + 2 * fitting + 2 <= 88:
            fitting += 1
        columns = list(zip(points[:fitting], widths[:fitting], strict=True))
        yield " " * first + "".join(f"  {point:>{width}}" for point, width in columns)
        for name, row in errors.items():
            cells = (f"  {figure(row.get(point)):>{width}}" for point, width in columns)
            yield f"{name:{first}}" + "".join(cells)
        points, widths = points[fitting:], widths[fitting:]


def in_order(errors):
    """List the points of a table: the generic ones, then the special ones."""
    points = dict.fromkeys(point for row in errors.values() for point in row)
    return sorted(points, key=lambda point: not point.startswith("generic"))


def figure(error):
    """Write an error so that a reader sees its size at once."""
    if error is None:
        return ""
    if np.isnan(error):
        return "NaN"
    if np.isinf(error):
        return "fails"
    return "0" if error == 0 else f"{error:.0e}"


def html_table(errors):
    """Return the same table in HTML."""
    points = in_order(errors)
    head = "".join(f"<th>{escape(point)}</th>" for point in points)
    rows = "".join(
        f"<tr><th>{escape(name)}</th>"
        + "".join(f"<td>{number(row.get(point))}</td>" for point in points)
        + "</tr>"
        for name, row in errors.items()
    )
    return f"<table><thead><tr><td></td>{head}</tr></thead><tbody>{rows}</tbody></table>"


def number(error):
    """Write an error so that no line breaks at its minus sign."""
    return figure(error).replace("-", "&#8209;")


def picture(name, error):
    """Draw the size of an error, entry by entry: a row of squares for each row of the array."""
    rows = error.reshape(-1, error.shape[-1] if error.ndim else 1)
    size = 14
    height, width = (count * size for count in rows.shape)
    largest = rows.max() or 1
    squares = "".join(
        f'<rect x="{j * size}" y="{i * size}" width="{size - 1}" height="{size - 1}" '
        f'fill="currentColor" fill-opacity="{0.06 + 0.94 * rows[i, j] / largest:.2f}"/>'
        for i in range(rows.shape[0])
        for j in range(rows.shape[1])
    )
    said = f"Where {name} is wrong: the darker an entry, the larger its error"
    return (
        f'<figure><svg role="img" aria-label="{escape(said)}" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}">{squares}</svg>'
        f"<figcaption>{escape(said)}.</figcaption></figure>"
    )


def indented(text):
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())


def lines(text):
    return "<br>".join(escape(line) for line in text.splitlines())
