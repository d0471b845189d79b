import sys

import pytest

from transformer_core.tasks.texts.documentation import (
    docstrings_of_objects,
    docstrings_of_sources,
    documentation,
    language_reference,
    prose,
)


@pytest.fixture(scope="module")
def documents():
    return documentation()


@pytest.mark.slow
def test_there_are_millions_of_characters_each_document_once(documents):
    texts = [document.text for document in documents]
    assert 3.5e6 < sum(map(len, texts)) < 7e6
    assert len(set(texts)) == len(texts) > 10_000


@pytest.mark.slow
def test_all_sources_are_there(documents):
    names = {document.name for document in documents}
    assert {"argparse", "bytes", "arange", "standard_normal", "Figure"} <= names
    assert {"add", "tensordot", "set_title", "comparisons"} <= names


@pytest.mark.slow
def test_only_prose_is_left(documents):
    text = "\n".join(document.text for document in documents)
    assert text.count(">>>") < 10  # two docstrings of lib2to3 are about them
    assert text.count("-----") < 30
    assert text.count("::") < 100
    letters = sum(character.isalpha() or character == " " for character in text)
    assert letters > 0.9 * len(text)


def test_nothing_is_run():
    assert {"antigravity", "this", "turtle", "idlelib", "tkinter"}.isdisjoint(sys.modules)


def test_sources_are_parsed_and_not_run(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_cats.py").write_text('"""A test."""')
    (tmp_path / "template.py").write_text("def {name}(): pass")
    (tmp_path / "zero.py").write_bytes(b"\0")
    (tmp_path / "__init__.py").write_text('"""The package."""')
    (tmp_path / "cats.py").write_text(
        '''
"""All cats."""
raise SystemExit

class Cat:
    """One cat."""

    def chase(self, mouse):
        """Chase
        a mouse."""

    async def wait(self):
        "Wait for it."

def undocumented(): "\\d"
'''
    )
    assert list(docstrings_of_sources(tmp_path)) == [
        (tmp_path.name, "The package."),
        ("cats", "All cats."),
        ("Cat", "One cat."),
        ("chase", "Chase\na mouse."),
        ("wait", "Wait for it."),
        ("undocumented", "\\d"),
    ]


def test_objects_without_sources_are_asked():
    import math

    found = dict(docstrings_of_objects(math))
    assert found["sqrt"] == math.sqrt.__doc__
    import builtins

    found = dict(docstrings_of_objects(builtins))
    assert found["upper"] == str.upper.__doc__
    assert "__doc__" not in found


def test_topics_of_the_language_reference_do_not_repeat_each_other():
    paragraphs = [p for topic in language_reference() for p in topic.text.split("\n")]
    assert len(set(paragraphs)) == len(paragraphs) > 1000


@pytest.mark.parametrize(
    "docstring, expected",
    [
        ("One\nline.\n\n\nAnother.", "One line.\nAnother."),
        ("Title\n=====\n\nText.", "Title\nText."),
        (
            "Parameters\n----------\nx : array_like\n    Values.",
            "Parameters x : array_like Values.",
        ),
        ("Text.\n\n>>> cat()\nmouse\n... \n\nMore.", "Text.\nMore."),
        ("Text.\n\nExamples\n--------\n>>> cat()\nmouse", "Text."),
        ("For example::\n\n    cat()\n\nMore.", "For example:\nMore."),
        (".. math::\n\n   x^2\n\n   y\n\nMore.", "More."),
        (".. versionadded:: 1.2\n   Cats.\nMore.", "More."),
        (".. note:: Cats\n   chase.", "Cats chase."),
        (".. note::\n\n   Cats chase.", "Cats chase."),
        (".. [1] A book.", "[1] A book."),
        (".. _target: somewhere\n\nText.", "Text."),
        ("See :func:`~numpy.sum` and ``x`` or `y`.", "See numpy.sum and x or y."),
        ("A `link <https://example.org>`_.", "A link."),
        ("The `.Axes`, *x* and **really** 2 ** 3.", "The Axes, x and really 2 ** 3."),
        ("`*args*` and 3*x*y and *a b*", "args and 3*x*y and a b"),
        ("%(Artist:kwdoc)s\n${LIKE}\n\nText |x|.", "Text x."),
        ("sum(a, axis=None)\n\nAdd.", "Add."),
        ("D.pop(k) -> v, remove it.", "D.pop(k) -> v, remove it."),
        ("The statement\n\n   stmt ::= name\n\nText.", "The statement\nText."),
        ("+---+\n| a |\n+===+", "a"),
        ("Values:\n\n1 2 3 4\n\n  --> x <--", "Values:"),
        ("", ""),
    ],
)
def test_prose(docstring, expected):
    assert prose(docstring) == expected
