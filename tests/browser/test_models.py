"""The trained models in the built book, against the package with the same weights."""

import json

import numpy as np
import pytest
from helpers.texts import ROOT

from book.living_models import read_script
from transformer_core.layers import LayerSpec
from transformer_core.models import Bert, StackSpec
from transformer_core.ops import (
    cross_entropy,
    cross_entropy_backward,
    embedding_backward,
    padding_keep,
    softmax,
)
from transformer_core.tasks.dates import Dates, recipe, split_days
from transformer_core.tasks.texts.wordpiece import MASK, SPECIAL_TOKENS

WEIGHTS = ROOT / "book/_static/models"
BERT, DATES = "350_train_bert", "335_train_encoder_decoder"
PHONE = 360
LONG = (
    "Return a new array of given shape and type, where the elements along each [MASK] are copied "
    "from the input, unless the output array is given, in which case its dtype is kept, and an "
    "error is raised if the two shapes cannot be broadcast against each other in this way."
)
SENTENCES = [
    "Return a [MASK] of the array.",
    "[MASK] samples from a distribution; see numpy.random.Generator.",
    "if not_callable(x): the [MASK] naïve ΣΑΣ İ 中文 £½² [SEP] raises TypeError[MASK]!",
    LONG,
]
CLOSE = {"rtol": 1e-4, "atol": 3e-5}  # float32 in another order


class Model:
    """A model on its page, which notes what goes wrong and what is asked for."""

    def __init__(self, view, page):
        self.view, self.tab = view.open(f"book/{page}"), view.tab
        self.figure = self.tab.locator(".model")

    def load(self):
        self.figure.get_by_role("button", name="Load the model").click()
        self.loaded()

    def loaded(self):
        self.tab.locator(".model.loaded").wait_for(timeout=120_000)

    def values(self, selector):
        """What the figure shows, with all its digits."""
        return self.figure.locator(selector).evaluate_all(
            "all => all.map(element => Number(element.dataset.value))"
        )

    def weights_asked_for(self):
        return [url for url in self.view.requests if "/_static/models/" in url]

    def well(self):
        assert self.view.errors == []
        assert all(url.startswith(("file:", "data:")) for url in self.view.requests)


@pytest.fixture
def open_page(views):
    opened = []

    def model(page, **settings):
        opened.append(Model(views(**settings), page))
        return opened[-1]

    yield model
    for one in opened:
        one.well()


def stored(view):
    return json.loads(view.figure.locator("script").text_content())["examples"]


# Mini-BERT


@pytest.fixture(scope="module")
def bert():
    """The package's model with the page's weights, and its tokenizer."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    settings, weights = read_script(WEIGHTS / "mini_bert.js")
    pieces = settings["pieces"]
    model = Bert(
        LayerSpec.from_settings(settings["spec"]),
        StackSpec(len(pieces), settings["length"], settings["layers"]),
        np.random.default_rng(0),
        tied=True,
        embedding_norm=True,
    )
    for name, array in model.parameters().items():
        array[...] = weights[name]
    vocabulary = {piece: n for n, piece in enumerate(pieces)}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    return model, tokenizer


@pytest.fixture(scope="module")
def bert_page(views):
    view = Model(views(), BERT)
    view.tab.evaluate(
        """async () => {
            window.file = await models.load("mini_bert");
            window.model = models.bert(file);
            window.cutter = models.wordPiece(file.settings.pieces);
        }"""
    )
    yield view
    view.well()


def of_the_package(bert, ids, word=None):
    """Logits, attention weights, and the gradient at the encoder's input, with that input."""
    model, _ = bert
    ids = np.array([ids])
    masked = np.zeros(ids.shape, bool)
    masked[0, ids[0].tolist().index(MASK)] = True
    logits, cache = model.forward(ids, masked)
    word = logits.argmax() if word is None else word
    _, loss_cache = cross_entropy(logits, np.array([word]))
    dh, _, _ = model.readout.backward(cross_entropy_backward(1, loss_cache), cache.readout)
    dh = embedding_backward(dh, cache.masked).reshape(*cache.shape, -1)
    gradient, _ = model.encoder.backward(dh, cache.encoder)
    weights = [layer.attention.branch.attention.weights[0] for layer in cache.encoder.layers]
    return logits[0], weights, gradient[0], model.embed(ids)[0][0]


def likeliest(tokenizer, logits):
    """The five likeliest tokens, and their probabilities."""
    p, _ = softmax(logits)
    best = (-p).argsort()[:5]
    return [tokenizer.id_to_token(int(k)) for k in best], p[best]


def with_ends(tokenizer, sentence):
    return tokenizer.encode(f"[CLS]{sentence}[SEP]", add_special_tokens=False).ids


@pytest.mark.parametrize("sentence", SENTENCES, ids=range(len(SENTENCES)))
def test_logits_attention_and_gradients_are_those_of_the_package(bert, bert_page, sentence):
    ids = with_ends(bert[1], sentence)
    assert sentence is not LONG or 56 < len(ids) <= 64
    word = 1234  # any
    found = bert_page.tab.evaluate(
        """([ids, word]) => {
            const forward = model.forward(ids, ids.indexOf(4));
            const [logits, { attention }] = forward;
            return [[...logits.data], attention.map(core.nested),
                models.influence(model, forward, word).map(({norm, product}) => [norm, product])];
        }""",
        [ids, word],
    )
    logits, weights, gradient, x = of_the_package(bert, ids, word)
    norms, products = np.array(found[2]).T
    np.testing.assert_allclose(found[0], logits, **CLOSE)
    np.testing.assert_allclose(found[1], weights, **CLOSE)
    np.testing.assert_allclose(norms, np.linalg.norm(gradient, axis=-1), **CLOSE)
    np.testing.assert_allclose(products, (gradient * x).sum(axis=-1), **CLOSE)


def test_texts_are_cut_as_the_library_cuts_them(bert, bert_page):
    _, tokenizer = bert
    rng = np.random.default_rng(2)
    documents = [path.read_text(encoding="utf-8") for path in ROOT.glob("book/*.md")]
    texts = [line for text in documents for line in text.splitlines()]
    # characters of which Unicode has thought the same for long
    characters = [*range(0x250), *range(0x370, 0x52F), *range(0x2000, 0x206F)]
    characters += [*range(0x3041, 0x30FF), *range(0x4E00, 0x4E40), 0xFFFD, 0x1F600]
    for _ in range(2000):
        line = list(texts[rng.integers(len(texts))][:60])
        for code in rng.choice(characters, 6):
            line.insert(rng.integers(len(line) + 1), chr(code))
        texts.append("".join(line))
    texts += [*SENTENCES, "", "a" * 100, "b" * 101, "[mask] [MASK][CLS]x [UNK]"]
    expected = [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]
    found = bert_page.tab.evaluate("texts => texts.map(cutter.ids)", texts)
    wrong = [text for text, a, b in zip(texts, found, expected, strict=True) if a != b]
    assert wrong == []


@pytest.mark.parametrize("page", ["intro", BERT])
def test_stored_answers_are_those_of_the_model(bert, open_page, page):
    model, tokenizer = bert
    for example in stored(open_page(page)):
        ids = with_ends(tokenizer, example["sentence"].replace("___", "[MASK]"))
        logits, _, gradient, x = of_the_package(bert, ids)
        words, p = likeliest(tokenizer, logits)
        stored_words, stored_p = zip(*example["words"], strict=True)
        assert [*stored_words] == words
        assert example["tokens"] == [tokenizer.id_to_token(k) for k in ids]
        np.testing.assert_allclose(stored_p, p, rtol=1e-3)
        norms = np.linalg.norm(gradient, axis=-1)
        np.testing.assert_allclose(example["norms"], norms, rtol=1e-3)
        products = (gradient * x).sum(axis=-1)
        np.testing.assert_allclose(example["products"], products, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("page", ["intro", BERT])
def test_a_sentence_is_answered_as_typed(bert, open_page, page):
    view = open_page(page)
    assert view.weights_asked_for() == []
    field = view.figure.get_by_role("textbox")
    field.fill("The default is ___, a list of str.")
    view.loaded()
    assert len(view.weights_asked_for()) == 1
    ids = with_ends(bert[1], "The default is [MASK], a list of str.")
    logits, weights, gradient, x = of_the_package(bert, ids)
    words, p = likeliest(bert[1], logits)
    assert view.figure.locator(".guesses button").all_inner_texts() == words
    np.testing.assert_allclose(view.values(".guesses td[data-value]"), p, **CLOSE)
    norms = view.values(".tokens small")
    np.testing.assert_allclose(norms, np.linalg.norm(gradient, axis=-1), **CLOSE)
    if page == "intro":
        assert not view.figure.locator(".map").is_visible()
        return
    view.figure.locator("select[name=measure]").select_option("product")
    products = view.values(".tokens small")
    np.testing.assert_allclose(products, (gradient * x).sum(axis=-1), **CLOSE)
    heads = np.stack(weights)
    neighbours = [np.diagonal(heads, k, 2, 3).mean(axis=-1) for k in (-1, 1)]
    shown = np.reshape(view.values(".heads small"), heads.shape[:2])
    np.testing.assert_allclose(shown, np.maximum(*neighbours), **CLOSE)
    view.figure.get_by_role("button", name="Layer 2, head 3").press("Enter")
    seen = weights[2][3][weights[2][3] > 0.005]
    np.testing.assert_allclose(view.values(".map rect[data-value]"), seen, **CLOSE)
    assert view.tab.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"


def test_a_token_is_left_out_and_the_loss_changes_beside_the_promise_of_the_gradient(
    bert, open_page
):
    view = open_page(BERT)
    model, tokenizer = bert
    ids = with_ends(tokenizer, stored(view)[0]["sentence"].replace("___", "[MASK]"))
    chips = view.figure.locator(".tokens > *")
    chips.nth(5).press("Enter")  # loads the model
    view.loaded()
    assert chips.nth(5).get_attribute("aria-pressed") == "true"
    logits, _, gradient, x = of_the_package(bert, ids)
    word, masked = logits.argmax(), np.array([ids]) == MASK

    def loss(x):
        h, _ = model.encoder.forward(x[np.newaxis])
        logits, _ = model.read_out(h, masked)
        return cross_entropy(logits, np.array([word]))[0]

    for n in (5, 3):
        if n == 3:
            chips.nth(n).press("Enter")
        without = x.copy()
        without[n] = 0
        expected = loss(x), loss(without) - loss(x), -(gradient * x).sum(axis=-1)[n]
        np.testing.assert_allclose(view.values(".change output"), expected, rtol=1e-3, atol=1e-4)
        assert abs(expected[1]) > 0.01
    chips.nth(3).press("Enter")
    assert view.figure.locator(".change output").count() == 1


def test_on_the_front_page_a_word_is_asked_for_by_pressing_it(open_page):
    view = open_page("intro")
    field = view.figure.get_by_role("textbox")
    field.fill("Return the Unknowable ___ of an array.")
    view.loaded()
    best = view.figure.locator(".guesses button").first.inner_text()
    view.figure.locator(".tokens button").first.press("Enter")
    assert field.input_value() == f"___ the Unknowable {best} of an array."
    view.figure.locator(".tokens button", has_text="array").last.press("Enter")
    first = view.figure.locator(".tokens button").first.inner_text().split()[0]
    assert field.input_value() == f"{first} the Unknowable {best} of an ___."


def test_a_word_is_asked_about_with_the_keyboard(bert, open_page):
    view = open_page(BERT)
    view.figure.get_by_role("textbox").focus()
    keyboard = view.tab.keyboard
    keyboard.press("Tab")
    keyboard.press("Tab")
    keyboard.press("Enter")  # the second example, as it is stored
    example = stored(view)[1]
    words = [word for word, _ in example["words"]]
    assert view.figure.locator(".guesses button").all_inner_texts() == words
    assert view.weights_asked_for() == []
    view.figure.get_by_role("button", name="Load the model").focus()
    keyboard.press("Space")
    view.loaded()
    third = view.figure.locator(".guesses button").nth(2)
    third.focus()
    keyboard.press("Enter")
    pressed = view.figure.locator(".guesses [aria-pressed=true]")
    assert pressed.all_inner_texts() == [words[2]]
    assert pressed.evaluate("button => button === document.activeElement")
    ids = with_ends(bert[1], example["sentence"].replace("___", "[MASK]"))
    _, _, gradient, _ = of_the_package(bert, ids, bert[1].token_to_id(words[2]))
    norms = view.values(".tokens small")
    np.testing.assert_allclose(norms, np.linalg.norm(gradient, axis=-1), **CLOSE)


def test_what_cannot_be_answered_is_said(open_page):
    view = open_page(BERT)
    view.load()
    field, said = view.figure.get_by_role("textbox"), view.figure.locator(".said")
    field.fill("No gap here.")
    assert said.inner_text() == "Leave a gap: underscores, or [MASK]."
    assert not view.figure.locator(".guesses").is_visible()
    field.fill("the " * 62 + "___")
    assert said.inner_text() == "The model reads 62 tokens, and these are 63."
    field.fill("the " * 61 + "___")
    view.figure.locator(".tokens small").nth(63).wait_for()


def test_the_front_page_says_what_its_model_has_read(bert, open_page):
    """A piece reads with its word, examples can be pressed, and a second gap is not passed over."""
    view = open_page("intro")
    assert "Python, NumPy and Matplotlib" in view.figure.locator(".caption").inner_text()
    examples = view.figure.locator(".examples button")
    examples.nth(1).press("Enter")
    field = view.figure.get_by_role("textbox")
    assert field.input_value() == examples.nth(1).inner_text()
    field.fill("Cats chase ___.")
    view.loaded()
    ids = with_ends(bert[1], "Cats chase [MASK].")
    logits, *_ = of_the_package(bert, ids)
    pieces, _ = likeliest(bert[1], logits)
    joined = [f"chase·{piece[2:]}" if piece[:2] == "##" else piece for piece in pieces]
    assert joined != pieces
    assert view.figure.locator(".guesses button").all_inner_texts() == joined
    for gap in ("__", "[mask]"):
        field.fill(f"Return a {gap} of the array.")
        assert view.figure.locator(".guesses button").first.inner_text() == "copy"
    field.fill("a ___ b ___ c")
    assert "Of the 2 gaps only the first is filled" in view.figure.locator(".said").inner_text()


# The reader of dates


@pytest.fixture(scope="module")
def reader():
    settings, weights = read_script(WEIGHTS / "date_reader.js")
    reader = recipe.build(recipe.DEFAULTS | settings)
    for name, array in reader.model.parameters().items():
        array[...] = weights[name]
    return reader


def steps_of_the_package(reader, text, answer):
    """Logits (T, V) and cross-attention weights (L, H, T, S)."""
    source, lengths = reader.source.encode([reader.prepare(text)])
    target, _ = reader.target.encode([answer], framed=True)
    keep = padding_keep(lengths, source.shape[1])
    logits, cache = reader.model.forward(source, target[:, :-1], keep)
    layers = cache.decoded.decoder.layers
    return logits[0], np.stack(
        [layer.cross_attention.branch.attention.weights[0] for layer in layers]
    )


def test_dates_are_written_as_by_the_package(reader, open_page):
    view = open_page(DATES)
    texts = [example["text"] for example in stored(view)]
    texts += ["Am 5. MÄRZ  1998", "５/３/1998", "mars 1998", "23 nov1 995", "‏٦ مارس ٢٠٢٥"]
    answers = reader.read(texts)
    assert [example["answer"] for example in stored(view)] == answers[:12]
    found = view.tab.evaluate(
        """async (texts) => {
            const reader = models.dateReader(await models.load("date_reader"));
            const plain = ({character, logits, weights}) =>
                [character, [...logits.data], weights.map((layer) => layer.map((w) => [...w]))];
            return texts.map((text) => reader.write(reader.normalise(text)).map(plain));
        }""",
        texts,
    )
    for text, answer, steps in zip(texts, answers, found, strict=True):
        characters, logits, weights = zip(*steps, strict=True)
        assert "".join(characters) == answer
        right_logits, right_weights = steps_of_the_package(reader, text, answer)
        np.testing.assert_allclose(logits, right_logits, **CLOSE)
        shown = np.moveaxis(weights, 0, 2)
        np.testing.assert_allclose(shown, right_weights, **CLOSE)


def test_stored_weights_are_those_of_the_model(reader, open_page):
    first = stored(open_page(DATES))[0]
    _, weights = steps_of_the_package(reader, first["text"], first["answer"])
    mean = weights.mean(axis=(0, 1))[:10]
    np.testing.assert_allclose(first["weights"], mean, atol=5.1e-4)


def test_a_date_is_written_step_by_step_with_the_keyboard(reader, open_page):
    view = open_page(DATES, reduced_motion="reduce")
    assert view.weights_asked_for() == []
    field = view.figure.get_by_role("textbox")
    field.focus()
    view.tab.keyboard.press("ControlOrMeta+A")
    view.tab.keyboard.insert_text("Fri, 3/6/1998")
    view.loaded()
    answer, said = view.figure.locator("output").first, view.figure.locator(".said")
    assert answer.inner_text() == "1998-03-06"  # at once
    assert said.inner_text().startswith("Writes the end")
    assert "(then" in said.inner_text()  # what comes second
    heads = view.figure.locator(".map tr:first-child th")
    lit = "all => all.map(head => Number(head.style.getPropertyValue('--weight')))"
    rows = view.figure.locator(".map tr:has(td[data-value])")
    for row in (rows.nth(2), rows.nth(8)):
        row.hover()
        read = row.locator("td").evaluate_all("all => all.map(td => Number(td.dataset.value))")
        assert heads.evaluate_all(lit) == read
    back = view.figure.get_by_role("button", name="Back")
    for _ in range(3):
        back.focus()
        view.tab.keyboard.press("Enter")
    assert answer.inner_text() == "1998-03-"
    _, weights = steps_of_the_package(reader, "fri, 3/6/1998", "1998-03-06")
    mean = weights.mean(axis=(0, 1))[:8].ravel()
    np.testing.assert_allclose(view.values(".map td[data-value]"), mean, **CLOSE)
    view.figure.locator("select[name=heads]").select_option("1 2")
    one = weights[1, 2, :8].ravel()
    np.testing.assert_allclose(view.values(".map td[data-value]"), one, **CLOSE)
    view.figure.get_by_role("button", name="Step").focus()
    view.tab.keyboard.press("Enter")
    assert answer.inner_text() == "1998-03-0"


def test_a_date_is_written_character_by_character(open_page):
    view = open_page(DATES)
    view.figure.locator("select[name=language]").select_option("Korean")
    view.loaded()
    lengths = set()
    answer = view.figure.locator("output").first
    while len(text := answer.inner_text()) < 10:
        lengths.add(len(text))
        view.tab.wait_for_timeout(100)
    assert len(lengths) > 5 and text == stored(view)[11]["answer"]


def test_what_cannot_be_read_is_said(open_page):
    view = open_page(DATES)
    view.load()
    field, said = view.figure.get_by_role("textbox"), view.figure.locator(".said")
    field.fill("5 březen 1998")
    assert said.inner_text() == "The model has no row for ř."
    field.fill(" ")
    assert said.inner_text() == "Type a date."
    field.fill("1" * 36)
    assert said.inner_text() == "The model reads up to 35 characters, and these are 36."


def test_a_refusal_stays_and_confident_nonsense_is_called_so(open_page):
    view = open_page(DATES, reduced_motion="reduce")
    view.load()
    field, said = view.figure.get_by_role("textbox"), view.figure.locator(".said")
    field.fill("😀")
    write = view.figure.get_by_role("button", name="Write")
    assert write.is_disabled() and said.inner_text() == "The model has no row for 😀."
    view.figure.locator("select[name=heads]").select_option("1 2")
    assert said.inner_text() == "The model has no row for 😀."
    for text in ("hello world", "yesterday", "1", "99/99/9999", "31 February 2025"):
        field.fill(text)
        assert "no way to refuse" in said.inner_text(), text
        assert write.is_enabled()
    assert "is in no calendar" in said.inner_text()
    assert view.figure.locator("select[name=language]").input_value() == ""
    assert view.figure.locator(".map").get_attribute("dir") == "ltr"
    view.figure.locator("select[name=language]").select_option("Arabic")
    assert view.figure.locator(".map").get_attribute("dir") == "rtl"
    cells = view.figure.locator(".map tr").first.locator("th")
    assert cells.first.bounding_box()["x"] > cells.last.bounding_box()["x"]
    assert "no way to refuse" not in said.inner_text()


def test_no_right_answer_is_doubted(open_page):
    drawn = Dates().sample(500, split_days().test, np.random.default_rng(5))
    doubted = open_page(DATES).tab.evaluate(
        "pairs => pairs.filter((pair) => models.doubt(...pair))",
        list(zip(drawn.texts, drawn.answers, strict=True)),
    )
    assert doubted == []


# Every page with a model


@pytest.mark.parametrize("page", ["intro", BERT, DATES])
def test_without_scripts_a_stored_answer_stands_there(open_page, page):
    view = open_page(page, java_script_enabled=False)
    (data,) = view.figure.locator("script").all_text_contents()
    first = json.loads(data)["examples"][0]
    text = view.figure.inner_text()
    assert view.figure.get_by_role("textbox").count() == 0
    if page == DATES:
        assert first["answer"] in text and first["text"] in text
    else:
        assert first["sentence"].replace("___", first["words"][0][0]) in text
        assert all(word in text for word, _ in first["words"])


@pytest.mark.parametrize("page", ["intro", BERT, DATES])
def test_it_fits_a_phone(open_page, page):
    view = open_page(page, viewport={"width": PHONE, "height": 740})
    view.load()
    assert view.tab.evaluate("document.documentElement.scrollWidth") <= PHONE
    if page != DATES:
        view.figure.get_by_role("textbox").fill(LONG)
        assert view.tab.evaluate("document.documentElement.scrollWidth") <= PHONE


def test_the_weights_are_small():
    assert (WEIGHTS / "mini_bert.js").stat().st_size < 4.5e6
