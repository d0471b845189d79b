import pytest
from side_bar import marked, unmarked

PAGES = {"linear": ["linear_code"], "softmax": ["softmax_code"], "glossary": []}


def as_sphinx_writes_it(current):
    """A part with two chapters, each with its notebook, and another part, as a page has them."""

    def entry(level, name, inside=""):
        mark = " current" if current == name or '"current reference' in inside else ""
        link = (
            f'<a class="current reference internal" href="#">{name}</a>'
            if current == name
            else f'<a class="reference internal" href="{name}.html">{name}</a>'
        )
        return f'<li class="toctree-l{level}{mark}">{link}{inside}</li>\n'

    def group(entries):
        mark = ' class="current"' if '"current reference' in entries else ""
        return f"<ul{mark}>\n{entries}</ul>\n"

    chapters = [
        entry(1, name, group("".join(entry(2, each) for each in below)) if below else "")
        for name, below in PAGES.items()
    ]
    return group("".join(chapters[:2])) + "<p>Reference</p>" + group(chapters[2])


@pytest.mark.parametrize("first", ["linear", "softmax_code", "glossary", "search"])
def test_the_list_of_one_page_is_that_of_any_other_with_other_marks(first):
    shared = unmarked(as_sphinx_writes_it(first), first)
    for name in (*PAGES, "linear_code", "softmax_code", "search"):
        assert marked(shared, name) == as_sphinx_writes_it(name), name
