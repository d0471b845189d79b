"""What a machine can find wrong in a sentence: each rule, and a planted sentence that breaks it."""

import ast
import json
import re
from functools import cache

import pytest
from figures import glued_values
from helpers.texts import ROOT, cells, prose, read
from typeset import NUMBER, typeset

from book.search import best_of

PAGES = sorted((ROOT / "book").glob("*.md"))
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
FIELD = re.compile(r"\{glue:text\}`\.\./(?P<path>[^:`]+)::(?P<key>[^:`]+):(?P<form>[^`]+)`")
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
each_text = pytest.mark.parametrize("path", PAGES + NOTEBOOKS, ids=lambda path: path.name)


# Numbers as a machine writes them


def machine_numbers(text):
    text = re.sub(r"^\s*[`:]{3,}.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\{[\w:-]+\}`[^`]*`|`[^`]*`|\]\([^)]*\)", " ", text)
    return re.findall(r"(?<![\w.])\d+(?:\.\d+)?e[+-]?\d+\b", text)


@each_text
def test_numbers_are_typeset(path):
    assert not machine_numbers(prose(path))


def test_a_number_as_a_machine_writes_it_is_found():
    assert machine_numbers("off by 4.73e-04, or $1e-16$, with `eps=1e-5`") == ["4.73e-04", "1e-16"]


@pytest.mark.parametrize(
    "number, shown",
    [
        ("4.73e-04", "4.73 · 10−4"),
        ("-2e+03", "−2 · 103"),
        ("1e+00", "1"),
        ("-0.13", "−0.13"),
        ("2,926,400", "2,926,400"),
    ],
)
def test_a_computed_number_is_typeset(number, shown):
    parts = typeset(*NUMBER.fullmatch(number).groups())
    assert "".join(part.astext() for part in parts) == shown


# Pointers


def loose_pointers(text):
    linked = r"\[[^\]]*\]\([^)]*\)|\{\w+\}`[^`]*`"
    place = r"\b(?:first|second|third|fourth|fifth|last|next|previous)\s+(?:exercise|section)\b"
    return [" ".join(each.split()) for each in re.findall(place, re.sub(linked, " ", text))]


@each_text
def test_what_a_text_points_to_is_linked(path):
    assert not loose_pointers(prose(path))


def test_a_pointer_without_a_link_is_found():
    text = "the first exercise, and [the next section](#there), as in the last section"
    assert loose_pointers(text) == ["first exercise", "last section"]
    assert loose_pointers("the first\nsection") == ["first section"]


# Bounds


UPPER = "at most|within|less than|below|no more than|never exceeds"
LOWER = "at least|more than|above|never less than"
WORDS = f"{UPPER}|{LOWER}".replace(" ", r"\s+")
BOUND = re.compile(rf"\b(?P<word>{WORDS})\s+{FIELD.pattern}")


def broken_bounds(text, stored):
    """Where a stored value lies beyond the bound that is printed for it."""
    for found in BOUND.finditer(text):
        value = stored(found["path"], found["key"])
        printed = float(format(value, found["form"]).replace(",", ""))
        word = " ".join(found["word"].split())
        upper = word in UPPER.split("|")
        if printed < value if upper else printed > value:
            yield f"{word} {printed}: {value}"


@cache
def stored_values(path):
    return glued_values(json.loads(read(ROOT / path)))


@each_page
def test_a_bound_is_rounded_outwards(page):
    assert not list(broken_bounds(read(page), lambda path, key: stored_values(path)[key]))


def test_a_bound_that_is_rounded_inwards_is_found():
    text = "at\nmost\n{glue:text}`../a.ipynb::x:.0f` %, at least {glue:text}`../a.ipynb::x:.1f` %"
    assert list(broken_bounds(text, lambda *_: 22.12)) == ["at most 22.0: 22.12"]
    assert list(broken_bounds(text, lambda *_: 21.96)) == ["at least 22.0: 21.96"]


# Searches


SETTINGS = "RATES|PEAKS|rates|peaks"


def unguarded_searches(source):
    """Where a best setting is taken from a list of them, and nobody asks whether it is the last."""
    searches = re.search(SETTINGS, source) and "min" in source
    for node in ast.walk(ast.parse(source)) if searches else ():
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "min":
            of_settings = re.match(SETTINGS, ast.unparse(node.args[0]))
            if of_settings and any(option.arg == "key" for option in node.keywords):
                yield ast.unparse(node)
        if isinstance(node, ast.Subscript) and re.match("rates|peaks", ast.unparse(node.value)):
            if "argmin" in ast.unparse(node.slice):
                yield ast.unparse(node)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_the_best_setting_of_a_search_lies_inside_it(path):
    sources = [cell.source for cell in cells(path, "code") if not cell.source.startswith("%")]
    assert not [found for source in sources for found in unguarded_searches(source)]


def test_a_search_that_takes_the_best_as_it_comes_is_found():
    wrong = "a = min(RATES['Adam'], key=loss)\nb = peaks[ends.argmin()]"
    assert len(list(unguarded_searches(wrong))) == 2
    assert not list(unguarded_searches("a = best_of(RATES['Adam'], loss)\nb = min(RATES)"))


def test_a_best_value_at_the_edge_of_its_search_has_to_be_known():
    def valley(x):
        return (x - 2) ** 2

    assert best_of([1, 2, 3], valley) == 2
    assert best_of([2, 3, 4], valley, edge=True) == 2
    for values, edge in (([2, 3, 4], False), ([1, 1.5], False), ([1, 2, 3], True)):
        with pytest.raises(ValueError, match="edge: expected"):
            best_of(values, valley, edge)


# Headlines


def headlines_of_one_run(text):
    """Tables and summaries with results of training that do not say in how many seeds or runs."""
    several = r"\b(?:seeds?|runs?|trainings|starts)\b|\bmedian\b|` to\s"
    for section in re.split(r"^##? ", text, flags=re.MULTILINE):
        for table in re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE):
            of_training = re.match(r".*\b(?:loss|restored|accuracy|right)\b", table, re.IGNORECASE)
            counted = section.startswith("Baselines")  # nothing is trained there
            shown = of_training and FIELD.search(table) and not counted
            if shown and not re.search(several, section):
                yield table.splitlines()[0]
        if section.startswith("Summary"):
            for point in re.split(r"^- ", section, flags=re.MULTILINE):
                of_training = re.search(r"\b(?:loss|restores?|accuracy|trained)\b", point)
                if of_training and FIELD.search(point) and not re.search(several, point):
                    yield point


@each_page
def test_a_headline_says_in_how_many_runs(page):
    assert not list(headlines_of_one_run(read(page)))


def test_a_headline_from_one_run_is_found():
    field = "{glue:text}`../a.ipynb::x:.1f`"
    table = f"| Model | Loss |\n|---|---|\n| ours | {field} |\n"
    point = f"- It restores {field} % of the words"
    assert list(headlines_of_one_run(f"## Training\n\n{table}")) == ["| Model | Loss |"]
    assert len(list(headlines_of_one_run(f"## Summary\n\n{point}.\n"))) == 1
    several = f"## Training\n\nFive seeds:\n\n{table}\n## Summary\n\n{point}, in five runs.\n"
    assert not list(headlines_of_one_run(several))
