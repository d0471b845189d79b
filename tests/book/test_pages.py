"""The pages of the book: their size, and what each chapter says of it."""

import re
from runpy import run_path

import pytest
from helpers.texts import ROOT, cells

READING = run_path(str(ROOT / "book/_ext/reading_time.py"))
PAGES = sorted((ROOT / "book").glob("*.md"))
CHAPTERS = [page for page in PAGES if page.name[0].isdigit()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_not_too_long(page):
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


def test_size_counts_words_formulas_listings_and_exercises():
    text = """# One two

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
