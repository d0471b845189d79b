"""The pages of the book: their size, and what each chapter says of it."""

import re
from itertools import pairwise

import pytest
import reading_time
from helpers.texts import ROOT, cells, read
from sphinx_external_toc.parsing import parse_toc_yaml

PAGES = sorted((ROOT / "book").glob("*.md"))
CHAPTERS = [page for page in PAGES if page.name[0].isdigit()]
CONTENTS = [page for page in parse_toc_yaml(ROOT / "_toc.yml") if re.match(r"book/[1-8]", page)]
FRONT = read(ROOT / "book/intro.md")
ABSOLUTE = re.compile(
    r"[^.:;|]*\b(?:all|always|each|every|everybody|everything|never|nobody|none|nothing)\b"
    r"(?! other)[^.:;|]*",
    re.IGNORECASE,
)
# What the front page says of every chapter, and what counts it.
COUNTED = {"Each chapter has at least five exercises": lambda text: text.count("{exercise}") >= 5}
# Absolutes that are instructions or names.
NOT_CLAIMS = {"as if you checked each step with a pencil", "[all letters](notation"}
each_chapter = pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.stem)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_not_too_long(page):
    if page.stem == "glossary":
        pytest.skip("is looked up, not read")
    assert reading_time.size(read(page)).words <= reading_time.MOST_WORDS


@each_chapter
def test_a_chapter_says_how_long_it_takes(page):
    assert read(page).count("{reading-time}") == 1


@each_chapter
def test_a_chapter_has_five_exercises_and_a_starter_for_all_that_is_coded(page):
    text = read(page)
    notebook = ROOT / "notebooks" / f"{page.stem}.ipynb"
    starters = [
        cell for cell in cells(notebook, "code") if "starter" in cell.metadata.get("tags", ())
    ]
    assert text.count("{exercise}") == text.count("{solution}") >= 5
    assert len(starters) >= text.count("\n*To code.*") >= 1
    for cell in starters:
        shown = "".join(str(output) for output in cell.outputs)
        assert re.search(r"not \w+ yet", shown), cell.source


@pytest.mark.parametrize("page, following", list(pairwise(CONTENTS)))
def test_a_chapter_leads_to_the_one_that_follows(page, following):
    end = read(ROOT / f"{page}.md").partition("**Next**")[2]
    assert f"]({following.removeprefix('book/')}.md)" in end


def absolutes(text):
    """What a text claims of all or none of something."""
    claims = {" ".join(found.group().split()) for found in ABSOLUTE.finditer(text)}
    return {claim for claim in claims if not any(part in claim for part in NOT_CLAIMS)}


def test_an_absolute_is_found():
    assert absolutes("It derives.\nEvery step is there: nobody noticed.") == {
        "Every step is there",
        "nobody noticed",
    }


def test_the_front_page_claims_of_every_chapter_only_what_is_counted():
    assert absolutes(FRONT) == set(COUNTED)
    for page in CHAPTERS:
        assert all(count(read(page)) for count in COUNTED.values()), page.stem


def test_the_short_path_reaches_attention_in_time():
    lines = re.search(r"```{short-path}\n(.*?)\n```", FRONT, re.DOTALL)[1].splitlines()
    steps = reading_time.path(ROOT / "book", lines)
    before = [page for page, _, _ in steps].index("210_attention")
    assert "Attention begins within the first two hours" in " ".join(FRONT.split())
    assert sum(reading for _, _, reading in steps[:before]) < 120


def test_size_counts_words_formulas_listings_and_exercises():
    text = """---
not: words
---

# One two

Three {eq}`eq:x` $x = 1$ `code`, [six](page.md).

$$
not = words
$$ (eq:x)

```python
not = words
```

```{source} transformer_core/ops/relu.py relu
```

```{exercise}
:label: an-exercise

Seven, eight.
```
"""
    assert reading_time.size(text) == (9, 1, 2, 1)
