import pytest

from transformer_core.tasks.dates import Dates


@pytest.fixture(scope="session")
def dates():
    return Dates()
