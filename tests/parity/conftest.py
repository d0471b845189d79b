"""Without PyTorch, the modules beside this one are skipped when they import it."""

import numpy as np
import pytest


@pytest.fixture(params=[np.float64, np.float32], ids=lambda dtype: dtype.__name__)
def parity(request, rng, record_property):
    """Compare with PyTorch in one precision, and record the error found."""
    from parity.pytorch import Parity

    return Parity(request.param, rng, record_property)
