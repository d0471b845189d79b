import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.tasks.gpt.pretokens import kind_of, pretokens

HARD = "ab1 \n\t'sltrevmd.\u00a0\x1c\u0301\u0664"


@pytest.mark.equation("eq:pretokens")
@pytest.mark.parametrize(
    "text, pieces",
    [
        ("cats chase mice", ["cats", " chase", " mice"]),
        ("they're 1,024 cats'", ["they", "'re", " 1", ",", "024", " cats", "'"]),
        ("I'll 'say", ["I", "'ll", " '", "say"]),
        ("'s 't 're", ["'s", " '", "t", " '", "re"]),
        ("I'LL", ["I", "'", "LL"]),
        ("a  b", ["a", " ", " b"]),
        ("a   b", ["a", "  ", " b"]),
        ("a  ", ["a", "  "]),
        ("a\n\n  b", ["a", "\n\n ", " b"]),
        ("a\n\nb", ["a", "\n", "\n", "b"]),
        ("x_1 _y", ["x", "_", "1", " _", "y"]),
        ("e\u0301t\u00e9", ["e", "\u0301", "t\u00e9"]),
        ("\u0664\u00bd\u2167", ["\u0664\u00bd\u2167"]),
        ("a\x1cb", ["a", "\x1c", "b"]),
        ("a\u00a0b", ["a", "\u00a0", "b"]),
        ("", []),
    ],
)
def test_a_text_is_cut_as_by_the_regular_expression(text, pieces):
    assert pretokens(text) == pieces


@given(st.text(st.sampled_from(HARD)) | st.text())
def test_the_pieces_are_the_text(text):
    pieces = pretokens(text)
    assert "".join(pieces) == text
    assert all(pieces)


@given(st.text(st.sampled_from(HARD)) | st.text())
def test_a_piece_is_of_one_kind_but_for_a_blank_and_contractions(text):
    for piece in pretokens(text):
        if not piece.startswith("'"):
            body = piece[1:] if piece[0] == " " and piece.strip(" ") else piece
            assert len(set(map(kind_of, body))) == 1


def test_space_is_what_unicode_calls_so_not_what_python_strips():
    spaces = {c for c in map(chr, range(0x3001)) if kind_of(c) == "S"}
    stripped = {c for c in map(chr, range(0x3001)) if c.isspace()}
    assert stripped - spaces == set("\x1c\x1d\x1e\x1f")
    assert spaces < stripped
