"""The pages of the book: their size, and what each chapter says of it."""

import re
from itertools import pairwise
from runpy import run_path

import pytest
from helpers.texts import ROOT, cells
from sphinx_external_toc.parsing import parse_toc_yaml

READING = run_path(str(ROOT / "book/_ext/reading_time.py"))
PAGES = sorted((ROOT / "book").glob("*.md"))
CHAPTERS = [page for page in PAGES if page.name[0].isdigit()]
CONTENTS = [page for page in parse_toc_yaml(ROOT / "_toc.yml") if re.match(r"book/[1-8]", page)]
FRONT = (ROOT / "book/intro.md").read_text(encoding="utf-8")
ABSOLUTE = re.compile(
    r"[^.:;|]*\b(?:all|always|each|every|everybody|everything|never|nobody|none|nothing)\b"
    r"(?! other)[^.:;|]*",
    re.IGNORECASE,
)
# What the front page says of every chapter, and what counts it.
COUNTED = {"Each chapter has at least five exercises": lambda text: text.count("{exercise}") >= 5}
# Absolutes that are instructions or names.
NOT_CLAIMS = {"as if you checked each step with a pencil", "[all letters](notation"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_not_too_long(page):
    if page.stem == "glossary":
        pytest.skip("is looked up, not read")
    size = READING["size"](page.read_text(encoding="utf-8"))
    assert size.words <= READING["MOST_WORDS"]


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.stem)
def test_a_chapter_says_how_long_it_takes(page):
    assert page.read_text(encoding="utf-8").count("{reading-time}") == 1


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.stem)
def test_a_chapter_has_five_exercises_and_a_starter_for_all_that_is_coded(page):
    text = page.read_text(encoding="utf-8")
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
    end = (ROOT / f"{page}.md").read_text(encoding="utf-8").partition("**Next**")[2]
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
        text = page.read_text(encoding="utf-8")
        assert all(count(text) for count in COUNTED.values()), page.stem


def test_the_short_path_reaches_attention_in_time():
    lines = re.search(r"```{short-path}\n(.*?)\n```", FRONT, re.DOTALL)[1].splitlines()
    steps = READING["path"](ROOT / "book", lines)
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
    assert READING["size"](text) == (9, 1, 2, 1)
