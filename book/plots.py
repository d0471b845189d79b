"""The figures that more than one notebook draws, and the colours they share.

Query, key, value and cotangent, the terms of the LayerNorm gradient, and right and wrong have the
same colours in every figure. The other colours only tell the curves of one figure apart. The book
draws each of them in a shade that fits its light or its dark page.
"""

import sys
from collections.abc import Mapping, Sequence
from itertools import cycle

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from transformer_core.gradient_check import GradientError

# Okabe and Ito's palette, told apart also by colour-blind readers.
BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, GREY = "#CC79A7", "#56B4E9", "#6E6E6E"
QUERY, KEY, VALUE, COTANGENT = BLUE, ORANGE, GREEN, PURPLE
SCALE_TERM, MEAN_TERM, VARIANCE_TERM = BLUE, ORANGE, GREEN  # of the LayerNorm gradient
RIGHT, WRONG = BLUE, RED  # what is computed as derived, and what with a mistake
ON_LIGHT, ON_DARK = ("#1a1a1a", "#fafafa")  # text on a coloured cell, whatever the page is


def use_style() -> None:
    """Set type sizes and line widths for the book's figures, which notebooks draw as SVG."""
    if "IPython" in sys.modules and sys.modules["IPython"].get_ipython():
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        set_matplotlib_formats("svg", metadata={"Date": None})
    plt.rcParams.update(
        {
            "figure.figsize": (5, 3.2),  # its type can be read on a phone
            "figure.dpi": 110,
            "figure.constrained_layout.use": True,
            "font.family": ["STIXGeneral", "DejaVu Sans"],  # the pages' face, and what it lacks
            "mathtext.fontset": "stix",
            "font.size": 11.5,
            "axes.prop_cycle": plt.cycler(color=[BLUE, GREEN, ORANGE, RED, PURPLE, SKY]),
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.alpha": 0.25,
            "legend.frameon": False,
            "lines.linewidth": 1.8,
            "svg.hashsalt": "transformer_core",  # the same figure, the same text
            "image.interpolation": "none",
            "image.composite_image": False,
        }
    )


def gradient_errors(ax: Axes, errors: Mapping[str, Mapping[str, GradientError]]) -> None:
    """Draw the error of each gradient, one row an array, one colour a witness.

    Parameters
    ----------
    ax : matplotlib Axes
    errors : dict of str to dict of str to GradientError
        Witness to array to error, as ``check_gradients`` returns it.

    An error of exactly 0 is drawn at 1e-18.
    """
    for witness, of_arrays in errors.items():
        rows = np.arange(len(of_arrays))
        norms = [max(error.norm, 1e-18) for error in of_arrays.values()]
        ax.plot(norms, rows, "o", label=witness)
        ax.set_yticks(rows, of_arrays.keys())
    ax.set_xscale("log")
    ax.set_xlim(1e-19, 10)  # the error of a wrong sign is 2
    ax.invert_yaxis()
    ax.set_xlabel("relative error (norm)")
    ax.legend(loc="lower right")


def error_against_step(
    ax: Axes, steps: Sequence[float], errors: Mapping[str, Sequence[float]]
) -> None:
    """Draw the error of difference quotients against the step, one line a method.

    Parameters
    ----------
    ax : matplotlib Axes
    steps : sequence of float
    errors : dict of str to sequence of float
        Method to its error at each step. An error of exactly 0 is drawn at 1e-18.
    """
    for (method, values), marker in zip(errors.items(), cycle("osd^v"), strict=False):
        ax.loglog(steps, np.maximum(values, 1e-18), marker=marker, markersize=4, label=method)
    ax.set_xlabel("step h")
    ax.set_ylabel("relative error")
    ax.legend()


def matrix(
    ax: Axes,
    values: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    limit: float | None = None,
    decimals: int = 2,
) -> None:
    """Draw a matrix as a signed heat map with its numbers written in.

    Parameters
    ----------
    ax : matplotlib Axes
    values : ndarray (R, C)
    rows, columns : sequence of str
        Their labels.
    limit : float, optional
        The magnitude of the strongest colour. Default: the largest in ``values``.
    decimals : int
        Of the numbers written in.
    """
    limit = np.abs(values).max() if limit is None else limit
    ax.imshow(values, cmap="RdBu_r", vmin=-limit, vmax=limit)
    ax.set_xticks(range(len(columns)), columns)
    ax.set_yticks(range(len(rows)), rows)
    ax.grid(False)
    for (i, j), value in np.ndenumerate(values):
        colour = ON_DARK if abs(value) > 0.6 * limit else ON_LIGHT
        number = f"{value:.{decimals}f}"
        ax.text(j, i, number, ha="center", va="center", color=colour, fontsize=10.5)


def seeds(
    ax: Axes,
    found: Mapping[str, Sequence[float]],
    colour: str = BLUE,
    label: str | None = None,
    shift: float = 0,
) -> None:
    """Draw what each seed found as a dot and the median as a bar, one row a setting.

    Parameters
    ----------
    ax : matplotlib Axes
        Its horizontal axis becomes logarithmic.
    found : dict of str to sequence of float
        Setting to the number of each seed.
    colour, label : str
    shift : float
        Of the rows, downwards, so that a second call fits beside the first.
    """
    for row, values in enumerate(found.values()):
        y = row + shift
        ax.plot(values, [y] * len(values), "o", color=colour, markersize=4, alpha=0.7)
        ax.plot([np.median(values)] * 2, [y - 0.13, y + 0.13], color=colour, label=label)
        label = None
    ax.set_xscale("log")
    ax.set_yticks(range(len(found)), found)
    ax.set_ylim(len(found) - 0.5, -0.5)


def training_curve(
    ax: Axes,
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    baselines: Mapping[str, float],
) -> None:
    """Draw losses against steps on a log scale, with the baselines as labelled lines.

    Parameters
    ----------
    ax : matplotlib Axes
    curves : dict of str to (steps, losses)
    baselines : dict of str to float
    """
    for name, (steps, losses) in curves.items():
        ax.semilogy(steps, losses, label=name)
    above = np.inf
    for name, value in sorted(baselines.items(), key=lambda item: -item[1]):
        ax.axhline(value, color=GREY, linestyle="--", linewidth=1)
        close = value > above / 1.3  # then the label stands below its line
        above = value
        ax.annotate(
            f"{name}  {value:.2g}",
            (1, value),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="top" if close else "bottom",
            color=GREY,
        )
    ax.set_xlabel("step")
    ax.set_ylabel("loss")
    ax.legend()
