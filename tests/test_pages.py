"""The pages of the book: their size, and what each chapter says of it."""

from runpy import run_path

import pytest
from texts import ROOT

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
