"""The code of the page on a model of one's own, as it stands there."""

import re

import numpy as np
import pytest
from helpers.texts import ROOT, read

pytestmark = pytest.mark.slow
BLOCKS = re.findall(r"^```python\n(.*?)^```$", read(ROOT / "book/own_model.md"), re.M | re.S)


def test_the_code_of_the_page_runs_its_gradients_are_right_and_it_learns():
    names = {}
    for block in BLOCKS:
        exec(compile(block, "own_model.md", "exec"), names)
    assert names["report"].right
    assert max(error.norm for error in names["report"].values()) < 1e-12
    assert len(names["history"]) == 600
    assert names["baseline"] < 0.6 and names["accuracy"] > 0.9


def test_a_wrong_mean_is_found():
    names = {}
    for block in BLOCKS[:2]:
        assert block is not BLOCKS[0] or block.count(" / length") == 1
        exec(block.replace(" / length", ""), names)
    assert not names["report"].right
    assert np.isclose(names["report"]["output.weight"].norm, 0, atol=1e-12)
