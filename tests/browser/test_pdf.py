"""The book in one PDF file: parts joined, and two chapters printed from the built book."""

import io
import re

import pytest
import yaml
from helpers.texts import ROOT, read

pypdf = pytest.importorskip("pypdf", reason="no pypdf: run make browse")

import pdf  # noqa: E402
from pdf import Printed, join, reader_pages  # noqa: E402
from pypdf import PdfReader  # noqa: E402

HTML = ROOT / "_build" / "html"
TOC = yaml.safe_load(read(ROOT / "_toc.yml"))


def read_back(writer):
    file = io.BytesIO()
    writer.write(file)
    return PdfReader(file)


def printed(browser, name, part, body):
    """A page that the browser prints, as a document of the book."""
    tab = browser.new_page()
    tab.set_content(f"<html lang='en'><title>{name}</title><h1>{name}</h1>{body}")
    file = PdfReader(io.BytesIO(pdf.to_pdf(tab)))
    tab.close()
    return Printed(name, name.title(), part, file)


@pytest.fixture(scope="module")
def documents(browser):
    new_page = '<p style="break-after: page">text</p>'
    targets = '<a href="#place" hidden>here</a>'
    return [
        printed(browser, "contents", "", '<a href="book:two">two</a>'),
        printed(
            browser,
            "one",
            "First",
            '<a href="#place">own</a> <a href="book:two#place">next</a> '
            '<a href="book:two#missing">start</a> <a href="book:three">nowhere</a> '
            f'<a href="https://example.org/">out</a>{new_page}<h2 id="place">A</h2>',
        ),
        printed(browser, "two", "Second", f'{targets}{new_page * 2}<h2 id="place">B</h2>'),
    ]


@pytest.fixture(scope="module")
def joined(documents):
    return read_back(join(documents))


def targets(page):
    """Where the links of a page lead: numbers of pages, or addresses."""
    for reference in page.get("/Annots", ()):
        link = reference.get_object()
        if "/Dest" in link:
            yield link["/Dest"][0]
        else:
            yield link["/A"]["/URI"]


def page_numbers(file, found):
    pages = [page.indirect_reference for page in file.pages]
    return [pages.index(one) if one in pages else one for one in found]


def test_pages_stand_one_after_another_with_their_numbers(joined):
    starts = [page.extract_text().split()[0] for page in joined.pages]
    assert starts == ["contents", "one", "A", "two", "text", "B"]
    assert joined.page_labels == ["i", "1", "2", "3", "4", "5"]


def test_links_lead_to_pages_of_the_joined_file(joined):
    assert page_numbers(joined, targets(joined.pages[0])) == [3]
    found = page_numbers(joined, targets(joined.pages[1]))
    assert found == [2, 5, 3, "https://example.org/"]


def outline(file, items):
    return [
        outline(file, item)
        if isinstance(item, list)
        else (item.title, file.get_destination_page_number(item))
        for item in items
    ]


def test_bookmarks_hold_parts_pages_and_sections(joined):
    assert outline(joined, joined.outline) == [
        ("Contents", 0),
        ("First", 1),
        [("One", 1), [("A", 2)]],
        ("Second", 3),
        [("Two", 3), [("B", 5)]],
    ]


def test_every_page_keeps_its_tags(documents, joined):
    root = joined.trailer["/Root"]["/StructTreeRoot"]
    assert len(root["/K"]) == len(documents)
    pairs = dict(pdf.numbers(root["/ParentTree"]))
    keys = [page["/StructParents"] for page in joined.pages]
    assert len(set(keys)) == len(keys)
    for page, key in zip(joined.pages, keys, strict=True):
        tags = [tag.get_object() for tag in pairs[key].get_object()]
        assert {tag["/Pg"].indirect_reference for tag in tags if "/Pg" in tag} == {
            page.indirect_reference
        }


def test_a_reader_gets_every_chapter_and_then_the_reference():
    pages = [page for _, page in reader_pages(TOC)]
    chapters = sorted(f"book/{path.stem}" for path in ROOT.glob("book/[0-9]*.md"))
    cut = len(pages) - len(pdf.REFERENCE)
    assert pages[0] == "book/intro" and pages[cut:] == [*pdf.REFERENCE]
    assert sorted(pages[1:cut]) == chapters  # in the order of the parts, not of their numbers
    assert dict(map(reversed, reader_pages(TOC)))["book/130_softmax"] in {
        part["caption"] for part in TOC["parts"]
    }


def test_contents_say_on_which_page_a_part_begins(documents):
    html = pdf.front_matter(documents[1:])
    assert re.findall(r"<h2>(.*?)</h2>", html) == ["First", "Second"]
    lines = re.findall(r'href="book:(\w+)">(\w+)</a><i></i><span>(\d+)', html)
    assert lines == [("one", "One", "1"), ("two", "Two", "3")]


@pytest.fixture(scope="module")
def two_chapters(browser):
    """Two chapters of the built book: what is joined, and the file."""
    if not (HTML / "index.html").exists():
        pytest.skip("no book in _build/html: run make book")
    pages = [page for page in reader_pages(TOC) if re.search("softmax|cross_ent", page[1])]
    parts = pdf.print_all(browser, HTML, pages)
    return parts, read_back(join(parts))


def test_chapters_come_first_and_all_solutions_last(two_chapters):
    parts, file = two_chapters
    names = ["130_softmax", "140_cross_entropy"]
    solutions = [f"solutions/{name}" for name in names]
    assert [part.name for part in parts] == ["contents", *names, *solutions]
    for part in parts[1:]:
        text = "".join(page.extract_text() for page in part.file.pages)
        page = read(ROOT / f"book/{part.name.removeprefix(pdf.SOLUTIONS)}.md")
        exercises = re.findall(r"{exercise} (\w+)", page)
        assert all(exercise in text for exercise in exercises) and exercises
        assert ("Summary" in text) == (part.name in names)
    assert sum(len(part.file.pages) for part in parts) == len(file.pages)


def test_every_page_shows_its_number(two_chapters):
    _, file = two_chapters
    for page, label in zip(file.pages[1:], file.page_labels[1:], strict=True):
        lines = page.extract_text().split("\n")
        assert label in (lines[0], lines[1], lines[-1]), label


def test_a_solution_and_its_exercise_lead_to_each_other(two_chapters):
    parts, file = two_chapters
    starts, start = {}, 0
    for part in parts:
        starts[part.name] = range(start, start + len(part.file.pages))
        start += len(part.file.pages)
    for one, other in [
        ("130_softmax", "solutions/130_softmax"),
        ("solutions/140_cross_entropy", "140_cross_entropy"),
    ]:
        found = {
            target
            for number in starts[one]
            for target in page_numbers(file, targets(file.pages[number]))
        }
        assert found & set(starts[other])
