import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.tasks.dates import Characters
from transformer_core.tasks.dates.characters import END, PAD, START

words = st.lists(st.text("abc -", min_size=1, max_size=7), min_size=1, max_size=5)


@given(words, st.booleans())
def test_texts_come_back(texts, framed):
    characters = Characters("- abc")
    ids, lengths = characters.encode(texts, framed)
    assert [characters.decode(row) for row in ids] == texts
    assert lengths.tolist() == [len(text) + 2 * framed for text in texts]
    assert ids.shape == (len(texts), lengths.max())


def test_rows_are_padded_and_framed():
    ids, lengths = Characters("xy").encode(["y", "xyx"], framed=True)
    assert ids.tolist() == [[START, 4, END, PAD, PAD], [START, 3, 4, 3, END]]
    assert lengths.tolist() == [3, 5]


def test_a_text_ends_with_its_end():
    assert Characters("xy").decode([3, START, 4, END, 3, 3]) == "xy"


def test_ids_fit_into_the_vocabulary():
    characters = Characters("xyz")
    ids, _ = characters.encode(["zyx"], framed=True)
    assert len(characters) == 6
    assert sorted(set(ids.flat) | {PAD}) == list(range(6))
    assert np.issubdtype(ids.dtype, np.integer)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: Characters("xyx"), "characters: expected each once, got 'xyx'"),
        (lambda: Characters("x").encode([]), "texts: expected at least one, got none"),
        (lambda: Characters("x").encode(["x", ""]), "text: expected at least one"),
        (lambda: Characters("x").decode([99]), "ids: expected ids from 0 to 3, got 99"),
        (
            lambda: Characters("x").encode(["x", "x?!?"]),
            r"'x\?!\?': expected known characters, got '\?', '!'$",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
