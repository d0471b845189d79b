"""What pytest sets up for every test."""

import os
import signal

os.environ["TQDM_DISABLE"] = "1"  # before tqdm is imported
os.environ["MPLBACKEND"] = "Agg"  # before Matplotlib is imported

import numpy as np
import pytest
from helpers.share import chosen
from helpers.witnesses import CENTRAL_DIFFERENCES, COMPLEX_STEP, Check
from hypothesis import settings

# The same examples on every run and every machine; --hypothesis-profile=random draws others.
settings.register_profile("course", deadline=None, derandomize=True, max_examples=30, database=None)
settings.register_profile("quick", settings.get_profile("course"), max_examples=10)
settings.register_profile(
    "random", deadline=None, max_examples=1000, database=None, print_blob=True
)
settings.load_profile("course")


def pytest_configure():
    # A shell lets what it starts in the background ignore Ctrl-C, and tests press it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(
    params=[
        # Twice as many forward passes, half the digits: left out of the quick loop.
        pytest.param(CENTRAL_DIFFERENCES, marks=pytest.mark.slow),
        COMPLEX_STEP,
    ],
    ids=lambda witness: witness.name,
)
def check(request, rng, record_property):
    """Compare gradients with both witnesses, and record the errors found."""
    return Check(request.param, rng, record_property)


@pytest.fixture
def symbolic(monkeypatch):
    """Let NumPy take roots and exponentials of SymPy expressions."""
    import sympy

    monkeypatch.setattr(sympy.Expr, "sqrt", lambda a: sympy.sqrt(a), raising=False)
    monkeypatch.setattr(sympy.Expr, "exp", lambda a: sympy.exp(a), raising=False)


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    """The path of sentences in which the object follows from the verb."""
    from studies.kills import write_text

    path = tmp_path_factory.mktemp("text") / "cats.txt"
    write_text(path)
    return str(path)


@pytest.fixture
def doctor(tmp_path):
    """Compare two sets of intermediate values, each from a file of its own."""
    from transformer_core.interop import compare, write_recording

    def compare_values(ours, theirs):
        paths = tmp_path / "ours.safetensors", tmp_path / "theirs.safetensors"
        for path, values in zip(paths, (ours, theirs), strict=True):
            write_recording(path, values)
        return compare(*paths)

    return compare_values


def pytest_collection_modifyitems(config, items):
    """Say in the report what a test witnesses, and how: the book's ledger reads it there.

    With SHARE=1/3, leave out two of three slow tests that witness no equation.
    """
    for item in items:
        for marker in item.iter_markers("equation"):
            item.user_properties.append(("equation", marker.args[0]))
        if "exact" in item.name or "symbolic" in item.fixturenames:
            item.user_properties += [("witness", "sympy"), ("error", 0)]
    slow = [
        item.nodeid
        for item in items
        if item.get_closest_marker("slow") and not item.get_closest_marker("equation")
    ]
    left_out = {*slow} - {*chosen(slow)}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
    items[:] = [item for item in items if item.nodeid not in left_out]
