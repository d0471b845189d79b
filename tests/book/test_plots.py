import matplotlib.pyplot as plt
import numpy as np
import pytest

from book import plots
from transformer_core.gradient_check import GradientError, gradient_error


@pytest.fixture
def ax():
    """Axes in the book's style, drawn at the end to show that they can be."""
    with plt.rc_context():
        plots.use_style()
        fig, ax = plt.subplots()
        yield ax
        fig.canvas.draw()
        plt.close(fig)


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_the_style_sets_the_colours(ax):
    colours = plt.rcParams["axes.prop_cycle"].by_key()["color"]
    assert colours[0] == plots.BLUE and len(set(colours)) == len(colours)
    assert plt.rcParams["axes.grid"]


def test_the_terms_of_the_layer_norm_gradient_have_three_colours():
    assert len({plots.SCALE_TERM, plots.MEAN_TERM, plots.VARIANCE_TERM}) == 3


def test_gradient_errors_has_a_row_for_each_array(ax):
    errors = {
        "central differences": {"x": GradientError(1e-10, 1e-9), "gamma": GradientError(0.0, 0.0)},
        "complex step": {"x": GradientError(1e-16, 1e-15), "gamma": GradientError(2e-16, 1e-15)},
    }
    plots.gradient_errors(ax, errors)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["x", "gamma"]
    assert legend(ax) == ["central differences", "complex step"]
    central, complex_ = (line.get_xdata() for line in ax.lines)
    assert list(central) == [1e-10, 1e-18] and list(complex_) == [1e-16, 2e-16]
    assert ax.get_xscale() == "log"
    assert ax.yaxis_inverted()


def test_gradient_errors_shows_the_worst_gradients_too(ax):
    gradient = np.array([3.0, -1.0])
    plots.gradient_errors(ax, {"witness": {"x": gradient_error(-gradient, gradient)}})
    low, high = ax.get_xlim()
    assert low < ax.lines[0].get_xdata()[0] < high


@pytest.mark.slow
@pytest.mark.parametrize("methods", [1, 2, 7])
def test_error_against_step_has_a_line_for_each_method(ax, methods):
    steps = [1e-6, 1e-4, 1e-2]
    errors = {f"method {i}": [0.0, 1e-9, 1e-6] for i in range(methods)}
    plots.error_against_step(ax, steps, errors)
    assert legend(ax) == list(errors)
    for line in ax.lines:
        assert list(line.get_xdata()) == steps
        assert list(line.get_ydata()) == [1e-18, 1e-9, 1e-6]
    assert ax.get_xscale() == ax.get_yscale() == "log"


@pytest.mark.parametrize("limit, expected", [(None, 3.0), (5.0, 5.0)])
def test_matrix_writes_every_number_over_symmetric_colours(ax, limit, expected):
    values = np.array([[0.5, -3.0, 1.0], [0.0, 2.0, 0.125]])
    plots.matrix(ax, values, ["a", "b"], ["x", "y", "z"], limit)
    written = {text.get_position(): text.get_text() for text in ax.texts}
    assert written[(1, 0)] == "-3.00" and written[(2, 1)] == "0.12"
    assert len(written) == 6
    assert ax.images[0].get_clim() == (-expected, expected)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["x", "y", "z"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]


def test_matrix_writes_as_many_decimals_as_it_is_told(ax):
    plots.matrix(ax, np.array([[2.0, -0.125]]), ["a"], ["x", "y"], decimals=0)
    assert [text.get_text() for text in ax.texts] == ["2", "-0"]


def test_a_matrix_of_zeros_can_be_drawn(ax):
    plots.matrix(ax, np.zeros((1, 2)), ["a"], ["x", "y"])
    assert [text.get_text() for text in ax.texts] == ["0.00", "0.00"]


def test_seeds_has_a_row_of_dots_and_a_median_for_each_setting(ax):
    plots.seeds(ax, {"short": [1.0, 3.0, 2.0], "long": [4.0, 9.0]}, label="Adam", shift=-0.1)
    plots.seeds(ax, {"short": [5.0], "long": [6.0]}, colour=plots.RED, shift=0.1)
    dots, medians = ax.lines[:4:2], ax.lines[1:4:2]
    assert [list(line.get_xdata()) for line in dots] == [[1.0, 3.0, 2.0], [4.0, 9.0]]
    assert [line.get_ydata()[0] for line in dots] == [-0.1, 0.9]
    assert [line.get_xdata()[0] for line in medians] == [2.0, 6.5]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["short", "long"]
    assert ax.get_xscale() == "log" and ax.yaxis_inverted()
    ax.legend()
    assert legend(ax) == ["Adam"]


def test_training_curve_has_curves_and_labelled_baselines(ax):
    curves = {"post": ([1, 2, 3], [1.0, 0.1, 0.01]), "pre": ([1, 2], [0.9, 0.2])}
    plots.training_curve(ax, curves, {"predict zero": 0.991, "floor": 0.0123})
    assert legend(ax) == ["post", "pre"]
    assert [text.get_text() for text in ax.texts] == ["predict zero  0.99", "floor  0.012"]
    heights = [line.get_ydata()[0] for line in ax.lines]
    assert heights == [1.0, 0.9, 0.991, 0.0123]
    assert ax.get_yscale() == "log"
