"""What the ledger of the book shows of PyTorch."""

import ledger
import pytest
from texts import ROOT

pytest.importorskip("torch")


def test_the_stored_errors_of_the_ledger_hold():
    why = ledger.reason(ROOT, "PyTorch", ledger.read_store(ROOT)["PyTorch"])
    assert not why, f"{ledger.STORE}: {why}. make ledger"
