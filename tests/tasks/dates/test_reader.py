import numpy as np
import pytest

from transformer_core.layers.spec import LayerSpec
from transformer_core.models import EncoderDecoder
from transformer_core.models.stack_spec import StackSpec
from transformer_core.ops import softmax
from transformer_core.tasks.dates import Characters
from transformer_core.tasks.dates.characters import END, START
from transformer_core.tasks.dates.reader import DateReader


@pytest.fixture(scope="module")
def reader():
    """A small reader that is not trained: it writes something."""
    source, target = (Characters(" 0123456789acehmnrsty年日月"), Characters("-0123456789"))
    model = EncoderDecoder(
        LayerSpec(8, 2, 16, "pre"),
        StackSpec(len(source), 20, 1),
        StackSpec(len(target), 11, 1),
        np.random.default_rng(2),
    )
    rng = np.random.default_rng(4)
    for array in model.parameters().values():  # so that it writes more than one answer
        array += rng.normal(0, 0.5, array.shape)
    model.readout.bias[:3] = -9  # and no special tokens
    return DateReader(model, source, target)


TEXTS = ["5 mars 1998", "1998年3月5日", "24 mars 2001", "march 12 1950", "1 1 2000"]


def test_texts_are_read_in_their_order_as_each_on_its_own(reader):
    answers = reader.read(TEXTS)
    assert answers == [reader.read([text])[0] for text in TEXTS]
    assert len(set(answers)) > 1
    assert set("".join(answers)) <= set(reader.target.characters)


@pytest.mark.parametrize("together", [1, 2, 5])
def test_it_does_not_matter_how_many_are_read_together(reader, together):
    assert reader.read(TEXTS, together) == reader.read(TEXTS)


def test_the_probabilities_of_all_answers_of_a_length_sum_to_less_than_1(reader):
    answers = [a + b for a in reader.target.characters for b in reader.target.characters]
    total = sum(reader.probability("5 mars 1998", answer) for answer in answers)
    assert 0 < total < 1


def test_the_probability_is_that_of_the_steps_to_the_answer_and_its_end(reader):
    state = reader.model.begin(*reader.source.encode(["5 mars 1998"]))
    newest, expected = START, 1.0
    for token in [*reader.target.encode(["1998-03"])[0][0], END]:
        logits, state = reader.model.step(np.array([newest]), state)
        expected *= softmax(logits)[0][0, token]
        newest = token
    assert reader.probability("5 mars 1998", "1998-03") == pytest.approx(expected, rel=1e-5)


def test_texts_are_normalised(reader):
    assert reader.read(["５  MARS　1998\n"]) == reader.read(["5 mars 1998"])


def test_nothing_to_read_gives_no_answers(reader):
    assert reader.read([]) == []


@pytest.mark.parametrize(
    "text, message",
    [
        ("5 März 1998", "'5 märz 1998': expected known characters, got 'ä', 'z'$"),
        ("1" * 21, "'1{21}': expected at most 20 characters, got 21"),
        (" \n", "text: expected at least one character, got none"),
    ],
)
def test_a_text_that_cannot_be_read_is_named(reader, text, message):
    with pytest.raises(ValueError, match=message):
        reader.read(["5 mars 1998", text])
