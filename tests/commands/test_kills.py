"""Trainings that are killed, twice each; ``studies/kills.py`` does it twenty times."""

import pytest
from helpers.ranks import on_mpi

from studies.kills import RECIPES, run

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("model", RECIPES)
def test_a_killed_training_resumes_to_the_same_bits(model):
    assert run(model, ranks=1, kills=2)["same"] == [True, True]


@on_mpi
def test_a_training_of_which_one_rank_is_killed_resumes_to_the_same_bits():
    assert run("encoder", ranks=2, kills=2)["same"] == [True, True]
