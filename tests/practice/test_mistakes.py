"""The catalogue of mistakes as files: what is not whole is refused by name."""

import numpy as np
import pytest

from transformer_core.layers import EncoderLayer, LayerSpec
from transformer_practice.engine.planting import planted
from transformer_practice.mistakes import CATALOGUE, MUTANTS, Mutant, read_catalogue

ENTRY = """
[a-mistake]
place = "backward"
mistake = "it is wrong"
edits = [['right', 'wrong']]
forms = [[['right', 'also wrong']], ['otherwise', ['right', 'left']]]
[[a-mistake.elsewhere]]
file = "ops/other.py"
edits = [['there', 'not there']]
"""


def read(folder, text, files=("ops/linear.toml",)):
    path = folder / "ops/linear.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return read_catalogue(folder, files)


def test_an_entry_is_a_mistake_in_the_file_of_its_name(tmp_path):
    elsewhere = (("ops/other.py", {"there": "not there"}),)
    forms = ({"right": "also wrong"}, "it is wrong"), ({"right": "left"}, "otherwise")
    expected = "a-mistake", "backward", "ops/linear.py", {"right": "wrong"}, "it is wrong"
    assert read(tmp_path, ENTRY) == [Mutant(*expected, forms, elsewhere)]


def test_the_catalogue_has_all_its_mistakes_in_all_their_forms():
    assert len(CATALOGUE) >= 226
    assert sum(1 for mutant in CATALOGUE for _ in mutant.in_all_forms()) >= 293


@pytest.mark.parametrize(
    "old, new, message",
    [
        ('place = "backward"', 'place = "behind"', "place: expected backward, forward or around"),
        ('place = "backward"\n', "", "expected {.*} and perhaps {.*}, got {.*}"),
        ("forms =", "from =", "expected {.*} and perhaps {.*}, got {.*}"),
        ("'right', 'wrong'", "'right', 'right'", "edits: expected pairs of different texts"),
        ("[['right', 'wrong']]", "[]", "edits: expected pairs of different texts"),
        ("'right', 'wrong'", "'right'", "not enough values"),
        ("file =", "in =", "file"),
    ],
)
def test_an_entry_that_is_not_whole_is_refused_by_name(tmp_path, old, new, message):
    with pytest.raises(ValueError, match=f"^ops/linear.toml: a-mistake: .*{message}"):
        read(tmp_path, ENTRY.replace(old, new, 1))


def test_a_name_that_is_taken_and_a_file_that_is_not_listed_are_refused(tmp_path):
    with pytest.raises(ValueError, match="FILES: expected those of .*, got others: {'ops/linear"):
        read(tmp_path, ENTRY, ())
    (tmp_path / "other.toml").write_text(ENTRY)
    with pytest.raises(ValueError, match="other.toml: a-mistake: expected a new name"):
        read(tmp_path, ENTRY, ("ops/linear.toml", "other.toml"))


def test_a_forgotten_mask_differs_from_another_one_where_the_right_gradient_is_zero():
    """What decides the first blind case of the museum."""
    spec = LayerSpec(256, 4, 64, "post", dropout=0.3, dtype="float64")
    layer = EncoderLayer(spec, np.random.default_rng(0))
    x, dy = np.random.default_rng(1).normal(size=(2, 1, 1, 256))
    (_, cache), (_, other) = (layer.forward(x, rng=np.random.default_rng(n)) for n in (2, 3))
    mixed = cache.feed_forward._replace(dropout=other.feed_forward.dropout)

    def zeros(cache):
        return layer.backward(dy, cache)[1]["feed_forward.branch.output.bias"] == 0

    right, another = zeros(cache), zeros(cache._replace(feed_forward=mixed))
    with planted(MUTANTS["residual-dropout-forgotten"]):
        forgotten = zeros(cache)
    assert 0.2 < right.mean() < 0.4 and not forgotten.any()
    assert 0.2 < another.mean() < 0.4 and (right != another).any()
