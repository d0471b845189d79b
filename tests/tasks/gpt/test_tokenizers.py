"""Byte pairs against the library ``tokenizers``, which trains and encodes on its own."""

import sys
from unicodedata import category

import pytest
import tokenizers

from transformer_core.tasks.gpt.byte_pairs import END_OF_TEXT, BytePairs, train_byte_pairs
from transformer_core.tasks.gpt.pretokens import pretokens
from transformer_core.tasks.texts.documentation import documentation

LINES = 10_000
SIZES = 300, 1000, 4096
HOSTILE = {
    "combining marks": "e\u0301a\u0308\u20dd n\u0303o \u0301alone Z\u0351\u0363\u0336a\u0321lgo",
    "emoji": "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f1eb\U0001f1f7"
    "\U0001f44d\U0001f3fd\u2764\ufe0f 1\ufe0f\u20e3",
    "CJK": "\u732b\u304c\u30cd\u30ba\u30df\u3092\u8ffd\u3046\u3002 "
    "\u9ad8\u732b \ud55c\uae00 \uff11\uff12",
    "right to left": "\u05d7\u05ea\u05d5\u05dc \u0627\u0644\u0642\u0637\u0629 "
    "\u0661\u0662\u0663\u200f \u202eabc\u202c",
    "Indic and Thai": "\u0915\u094d\u0937\u0947\u0924\u094d\u0930 "
    "\u0e41\u0e21\u0e27\u0e01\u0e33 \u0967\u0968",
    "controls": "\0a\1b\x1bc\x7fd\x80e\x9ff\u200bg\ufeffh\u2060i\U000e0061j\x1c\x1d\x1e\x1fk",
    "white space": "a\u00a0b\u2003 "
    "c\u3000\u3000d\u2028e\u2029f\x85g\u1680h\u202fi\u180ej\v\f\r\n\t k",
    "blanks": "  a   b\n\n\n  c \n d\t\te  \t f   ",
    "contractions": "I'm we'll they've he'd it's don't you're 'S 'RE ''s 'll' "
    "l'l '\u2019s \u2019s's",
    "numbers": "3.14 1,024 \u00bd\u00b2\u2167 x2 2x \u0664\u0665 0x1F 1e-5 \u3289",
    "code": "def f(x): return x**2 # __init__\n\tif x<=1: pass\r\n\\n {}[]();::->=>",
    "long runs": "a" * 5000 + " " * 5000 + "=" * 5000 + "\n" * 5000 + "ab" * 5000 + "1" * 5000,
    "a special token": f"a{END_OF_TEXT}b {END_OF_TEXT}{END_OF_TEXT} <|endoftext| >",
    "edges": "\ud7ff\ue000\uffff\U00010000\U0010ffff\ufffd",
    "nothing": "",
    "one blank": " ",
}


@pytest.fixture(scope="module")
def lines():
    return [line for document in documentation() for line in document.text.split("\n")][:LINES]


def trained(lines, vocabulary):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


@pytest.fixture(scope="module", params=SIZES)
def both(request, lines, tmp_path_factory):
    """Our table, the library's as it is and as we read it, and ours as the library reads it."""
    ours, theirs = train_byte_pairs(lines, request.param), trained(lines, request.param)
    folder = tmp_path_factory.mktemp("byte_pairs")
    ours.save(folder / "ours.json")
    theirs.save(str(folder / "theirs.json"))
    read_back = BytePairs.load(folder / "theirs.json")
    return ours, theirs, read_back, tokenizers.Tokenizer.from_file(str(folder / "ours.json"))


@pytest.mark.slow
@pytest.mark.equation("eq:byte-pairs-train")
def test_training_finds_the_same_tokens_and_merges(both):
    ours, theirs, read_back, _ = both
    assert ours.vocabulary == theirs.get_vocab_size()
    assert (ours.tokens, ours.merges, ours.special) == (
        read_back.tokens,
        read_back.merges,
        read_back.special,
    )


@pytest.mark.slow
@pytest.mark.equation("eq:byte-pairs-encode")
def test_ids_of_the_documentation_are_the_same(both, lines):
    ours, theirs, _, reloaded = both
    assert len(lines) == LINES
    expected = [encoding.ids for encoding in theirs.encode_batch(lines)]
    assert [ours.encode(line).tolist() for line in lines] == expected
    assert [encoding.ids for encoding in reloaded.encode_batch(lines)] == expected


@pytest.mark.slow
@pytest.mark.parametrize("about", HOSTILE)
def test_ids_of_hostile_texts_are_the_same(both, about):
    ours, theirs, read_back, reloaded = both
    text = HOSTILE[about]
    ids = ours.encode(text).tolist()
    assert ids == theirs.encode(text).ids == reloaded.encode(text).ids
    assert read_back.encode(text).tolist() == ids
    assert ours.decode(ids) == text == theirs.decode(ids, skip_special_tokens=False)


@pytest.mark.slow
@pytest.mark.equation("eq:pretokens")
def test_every_character_that_python_knows_is_cut_alike():
    """Each character between letters, numbers, signs and blanks; the library knows newer ones."""
    pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    characters = [c for c in map(chr, range(sys.maxunicode + 1)) if category(c) not in ("Cs", "Cn")]
    assert len(characters) > 280_000
    for start in range(0, len(characters), 1000):
        text = "".join(f"a{c}1{c}!{c} {c}" for c in characters[start : start + 1000])
        cut = [text[a:b] for _, (a, b) in pre_tokenizer.pre_tokenize_str(text)]
        assert pretokens(text) == cut


def test_lone_surrogates_are_refused_by_both():
    texts = ["cats chase mice"]
    with pytest.raises(ValueError, match="lone surrogate"):
        train_byte_pairs(texts, 260).encode("a\ud800")
    with pytest.raises((TypeError, UnicodeError)):
        trained(texts, 260).encode("a\ud800")
