"""What the GPT of the pages answers, against the package with the same weights."""

import json

import numpy as np
import pytest
from helpers.texts import ROOT
from numpy.testing import assert_allclose, assert_array_equal

from book.living_models import read_script
from transformer_core.models import Sampling
from transformer_core.ops import softmax
from transformer_core.tasks.gpt.recipe import RECIPE, make_optimizer
from transformer_core.tasks.gpt.why import changes_without, gradient_lengths
from transformer_core.tasks.gpt.writing import write
from transformer_practice.workspace import writer

SENTENCE = "Cats chase mice."
SCRIPT = ROOT / "book/_static/models/gpt.js"


def buffers(weights):
    """The numbers of each parameter, as a page hands them over."""
    return {name: memoryview(array.ravel()) for name, array in weights.items()}


@pytest.fixture(scope="module")
def opened():
    settings, weights = read_script(SCRIPT)
    assert writer.is_open() == "false"
    assert json.loads(writer.open_model(json.dumps(settings), buffers(weights))) == {"longest": 96}
    assert writer.is_open() == "true"
    yield writer.opened[0]
    writer.opened.clear()


@pytest.fixture(autouse=True)
def original(opened):
    writer.restore()


def ask(name, *given):
    return json.loads(getattr(writer, name)(*given))


def ids_of(tokens):
    return [token["id"] for token in tokens]


def written(prompt, number, seed=3, **sampling):
    tokens = ask("begin", prompt)
    for _ in range(number):
        tokens.append(ask("write", json.dumps(ids_of(tokens)), json.dumps(sampling), seed))
    return tokens


def parameters(gpt):
    return {name: array.copy() for name, array in gpt.parameters().items()}


def test_each_token_has_the_probability_that_one_forward_pass_gives_it(opened):
    tokens = written("Return a new", 6, temperature=0.8, top_p=0.9)
    ids = np.array(ids_of(tokens))
    p, _ = softmax(opened.gpt.forward(ids[np.newaxis, :-1])[0][0])
    assert "p" not in tokens[0]
    for token, row in zip(tokens[1:], p, strict=True):
        assert token["p"] == pytest.approx(row[token["id"]], rel=1e-3)
        rivals = [rival["p"] for rival in token["rivals"]]
        assert_allclose(rivals, -np.sort(-row)[:5], rtol=1e-3)
        found = token["place"]
        assert (rivals[found] == token["p"]) if found is not None else (token["p"] <= rivals[-1])


def test_a_token_is_drawn_from_the_changed_distribution(opened):
    tokens = written("Return a", 5, temperature=0.5, top_p=0.7)
    for n, token in enumerate(tokens):
        if "q" not in token:
            continue
        before = np.array(ids_of(tokens[:n]))
        logits = opened.gpt.forward(before[np.newaxis])[0][0, -1:]
        q = Sampling(temperature=0.5, top_p=0.7).distribution(logits, np.zeros_like(logits, bool))
        assert token["q"] == pytest.approx(q[0, token["id"]], rel=1e-3)
        assert token["kept"] == (q > 0).sum()
    greedy = written("Return a", 4, temperature=0)
    assert [token["place"] for token in greedy[-4:]] == [0] * 4
    assert [token["q"] for token in greedy[-4:]] == [1] * 4


def test_greedily_it_writes_what_the_command_writes(opened):
    tokens = written("Return the", 8, temperature=0)
    expected = write(
        opened.gpt, opened.pairs, "Return the ", np.random.default_rng(0), Sampling(temperature=0)
    )
    text = "".join(token["text"] for token in tokens[3:])
    assert "".join(expected).startswith(text) and len(text) > 8


def test_a_draw_depends_on_the_seed_and_its_place_alone():
    one, again, other = (written("The", 8, seed) for seed in (1, 1, 2))
    assert ids_of(one) == ids_of(again) != ids_of(other)
    ids = json.dumps(ids_of(one[:5]))
    assert ask("write", ids, "{}", 1)["id"] == one[5]["id"]  # of a text that it has left


def test_what_has_been_read_is_not_read_again(opened, monkeypatch):
    lengths = []
    prefill = opened.gpt.prefill
    monkeypatch.setattr(
        opened.gpt,
        "prefill",
        lambda ids, state: lengths.append(ids.shape[1]) or prefill(ids, state),
    )
    written("Return a new array", 4)
    assert lengths == [5, 1, 1, 1]


def test_why_asks_both_questions_and_says_where_they_disagree(opened):
    ids = np.array(ids_of(written("Return the number of elements", 3)))
    found = ask("why", json.dumps(ids.tolist()))
    assert_array_equal(found["lengths"], gradient_lengths(opened.gpt, ids))
    assert_array_equal(found["changes"], changes_without(opened.gpt, ids))
    assert found["log_p"] == pytest.approx(opened.log_p(ids)[-1])
    firsts = [
        sorted(range(len(ids) - 1), key=lambda s: -abs(values[s]))
        for values in (found["lengths"], found["changes"])
    ]
    assert found["most"] == [order[0] for order in firsts]
    assert found["differ"] == sorted({*firsts[0][:3]} ^ {*firsts[1][:3]})


def test_a_step_of_training_is_that_of_the_package(opened):
    before = parameters(opened.gpt)
    found = ask("learn", SENTENCE, 1e-3)
    after = parameters(opened.gpt)
    assert all((after[name] != before[name]).any() for name in before)

    writer.restore()
    ids = opened.encode(SENTENCE)[np.newaxis]
    optimizer = make_optimizer(opened.gpt.parameters(), RECIPE.defaults)
    optimizer.learning_rate = 1e-3
    loss, grads = opened.gpt.loss_and_gradients(ids[:, :-1], ids[:, 1:])
    optimizer.step(grads, 1.0)
    for name, array in opened.gpt.parameters().items():
        assert_array_equal(array, after[name])
    assert found["loss"][0] == loss
    assert found["steps"] == 1


def test_what_a_step_changes_is_measured_on_the_sentence_and_on_another(opened):
    found = ask("learn", SENTENCE, 1e-3)
    for p, loss in zip(found["p"], found["loss"], strict=True):
        assert loss == pytest.approx(-np.log(p).mean(), rel=1e-5)
    assert "".join(found["tokens"]) == SENTENCE
    assert found["loss"][1] < found["loss"][0] - 0.2
    assert found["elsewhere"][0] != found["elsewhere"][1]
    ids = opened.encode(found["control"])
    assert found["elsewhere"][1] == pytest.approx(-opened.log_p(ids).mean())
    again = ask("learn", SENTENCE, 1e-3)
    assert again["loss"][0] == pytest.approx(found["loss"][1]) and again["steps"] == 2


def test_after_a_step_nothing_is_left_of_what_older_weights_have_read(opened):
    tokens = written("Return a new", 2)
    ids = json.dumps(ids_of(tokens))
    before = ask("write", ids, "{}", 1)["rivals"]
    writer.learn(SENTENCE, 3e-3)
    after = ask("write", ids, "{}", 1)["rivals"]
    logits, _ = opened.gpt.forward(np.array([ids_of(tokens)]))
    assert before != after
    assert after[0]["p"] == pytest.approx(float(softmax(logits)[0][0, -1].max()), rel=1e-3)


def test_the_original_weights_come_back(opened):
    before = parameters(opened.gpt)
    writer.learn(SENTENCE, 3e-3)
    assert ask("restore") == {"steps": 0}
    for name, array in opened.gpt.parameters().items():
        assert_array_equal(array, before[name])
    assert ask("learn", SENTENCE, 3e-3)["steps"] == 1


def test_what_it_cannot_read_or_learn_is_said_to_the_reader():
    with pytest.raises(ValueError, match="The model reads 95 tokens, and these are"):
        writer.begin("array " * 200)
    with pytest.raises(ValueError, match="Write a sentence first."):
        writer.learn("  ", 1e-3)


def test_weights_of_another_model_are_refused():
    settings, weights = read_script(SCRIPT)
    with pytest.raises(ValueError, match="weights: expected"):
        writer.Writer(settings, buffers(weights) | {"other": memoryview(np.ones(1))})
