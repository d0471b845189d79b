"""Tasks for a pencil, one kind a chapter: whole numbers, exact answers, fresh for each seed."""

from random import Random

from transformer_practice.drills.attention import attention
from transformer_practice.drills.cost import cost
from transformer_practice.drills.cross_entropy import cross_entropy
from transformer_practice.drills.drill import Drill
from transformer_practice.drills.dropout import dropout
from transformer_practice.drills.embedding import embedding
from transformer_practice.drills.feed_forward import feed_forward
from transformer_practice.drills.gradient_check import gradient_check
from transformer_practice.drills.layer_norm import layer_norm
from transformer_practice.drills.linear import linear
from transformer_practice.drills.multi_head_attention import multi_head_attention
from transformer_practice.drills.optimizers import optimizers
from transformer_practice.drills.residual import residual
from transformer_practice.drills.schedules import schedules
from transformer_practice.drills.softmax import softmax

DRILLS = {
    chapter.__name__: chapter
    for chapter in (
        gradient_check,
        linear,
        softmax,
        cross_entropy,
        layer_norm,
        feed_forward,
        attention,
        multi_head_attention,
        embedding,
        optimizers,
        schedules,
        residual,
        dropout,
        cost,
    )
}


def draw(name: str, seed: int) -> Drill:
    """Draw a task.

    Parameters
    ----------
    name : str
        One of ``DRILLS``.
    seed : int
        The same seed gives the same task.

    Returns
    -------
    Drill

    Raises
    ------
    ValueError
        If there is no such drill.
    """
    if name not in DRILLS:
        raise ValueError(f"name: expected one of {', '.join(DRILLS)}, got {name!r}")
    rng = Random(seed)
    while not (task := DRILLS[name](rng)).is_fair():
        pass
    return task
