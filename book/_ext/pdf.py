"""The book as one PDF file: ``python book/_ext/pdf.py`` writes _build/transformers-by-hand.pdf.

A browser prints each page of the built book twice: without its solutions, and the solutions alone,
which stand at the end. The parts are then joined: contents, numbers, bookmarks, links, tags.
"""

import io
import sys
from html import escape
from pathlib import Path
from typing import NamedTuple

import yaml
from browser import launch
from pypdf import PdfReader, PdfWriter
from pypdf.generic import (
    ArrayObject,
    BooleanObject,
    Destination,
    DictionaryObject,
    Fit,
    NameObject,
    NumberObject,
    TextStringObject,
)

ROOT = Path(__file__).parents[2]
TITLE = "Transformers by Hand"
REFERENCE = ["book/notation", "book/glossary", "book/references"]
SOLUTIONS = "solutions/"  # before the name of a page: its solutions
TEXT = 643  # pixels from margin to margin


class Printed(NamedTuple):
    name: str  # 150_layer_norm; what links between pages say, book:150_layer_norm#id
    title: str
    part: str  # the part of the book that it belongs to
    file: PdfReader


# What to print


def reader_pages(toc):
    """The pages for a reader, and the parts of the book that they belong to."""
    pages = [("", toc["root"])]
    for part in toc["parts"]:
        for chapter in part["chapters"]:
            page = chapter["file"]
            if page.startswith("book/") and page[5].isdigit() or page in REFERENCE:
                pages.append((part["caption"], page))
    order = {page: number for number, page in enumerate(REFERENCE)}
    return sorted(pages, key=lambda found: order.get(found[1], -1))


PREPARE = """([name, pages, solutions]) => {
    const article = document.querySelector("article");
    const answers = [...article.querySelectorAll(".solution")];
    for (const fold of article.querySelectorAll("details")) fold.open = true;
    for (const fold of article.querySelectorAll(".toggle-hidden"))
        fold.classList.remove("toggle-hidden", "toggle");
    for (const link of article.querySelectorAll("a[href]")) {
        const target = new URL(link.getAttribute("href"), document.baseURI);
        const place = decodeURIComponent(target.hash.slice(1));
        const page = target.pathname.replace(/^.*[/]|[.]html$/g, "");
        const answer = page === name && document.getElementById(place)?.closest(".solution");
        if (target.protocol !== "file:") continue;
        if (!pages.includes(page)) link.removeAttribute("href");
        else if (page !== name || solutions !== Boolean(answer))
            link.setAttribute("href", `book:${page}#${place}`);
    }
    for (const [n, exercise] of [...article.querySelectorAll(".exercise")].entries())
        if (solutions && answers[n]) {
            const title = answers[n].querySelector(".admonition-title");
            title.innerHTML = `<a href="book:${name}#${exercise.id}"></a>`;
            title.firstChild.textContent = exercise.querySelector(".admonition-title").textContent;
        }
    if (solutions) {
        const title = article.querySelector("h1");
        title.prepend("Solutions: ");
        title.parentElement.replaceChildren(title, ...answers);
    } else
        for (const answer of answers) {
            const to = document.createElement("p");
            to.innerHTML = `<a href="book:solutions/${name}#${answer.id}">Solution</a>`;
            answer.replaceWith(to);
        }
    for (const {style, clientWidth, scrollWidth} of article.querySelectorAll(".formula"))
        if (scrollWidth > clientWidth) style.fontSize = `${100 * clientWidth / scrollWidth}%`;
    for (const place of [...article.querySelectorAll("[id]")])
        if (!place.closest("svg, math")) {
            const link = document.createElement("a");
            link.href = "#" + place.id;
            link.hidden = true;
            article.append(link);
        }
    return [article.querySelector("h1").textContent.replace("#", "").trim(), answers.length];
}"""


def heads(title, first, style="decimal"):
    """The lines above and below the text, and the number of the first page."""
    return f"""
html {{ counter-reset: page {first - 1}; }}
@page {{
  @top-left {{ content: "{title}"; font: 8.5pt sans-serif; color: #667; }}
  @bottom-center {{ content: counter(page, {style}); font: 9pt sans-serif; color: #445; }}
}}"""


def print_page(tab, html, page, names, first, solutions=False):
    """Print a page of the built book, its first page with a number; return title and file."""
    name = page.rpartition("/")[2]
    tab.goto((html / f"{page}.html").as_uri())
    tab.evaluate("async () => { await document.fonts.ready }")
    title, answers = tab.evaluate(PREPARE, [name, names, solutions])
    if solutions and not answers:
        return title, None
    tab.add_style_tag(content=heads(title.replace('"', ""), first))
    return title, PdfReader(io.BytesIO(to_pdf(tab)))


def to_pdf(tab):
    return tab.pdf(prefer_css_page_size=True, print_background=True, outline=True, tagged=True)


def print_all(browser, html, pages):
    """Print the pages of the book, then the solutions of each."""
    tab = browser.new_page(
        viewport={"width": TEXT, "height": 900}, color_scheme="light", reduced_motion="reduce"
    )
    tab.emulate_media(media="print")
    names = [page.rpartition("/")[2] for _, page in pages]
    printed, first = [], 1
    for solutions in (False, True):
        for part, page in pages:
            title, file = print_page(tab, html, page, names, first, solutions)
            if file:
                name = page.rpartition("/")[2]
                if solutions:
                    name, part = SOLUTIONS + name, "Solutions"
                printed.append(Printed(name, title, part, file))
                first += len(file.pages)
                print(f"{name}: {len(file.pages)} pages", flush=True)
    front = browser.new_page()
    front.set_content(front_matter(printed))
    contents = PdfReader(io.BytesIO(to_pdf(front)))
    return [Printed("contents", "Contents", "", contents), *printed]


def front_matter(printed):
    """The cover and the contents, as HTML."""
    cover = (ROOT / "book/_static/cover.svg").read_text(encoding="utf-8")
    lines, part, page = [], "", 1
    for document in printed:
        if document.part != part:
            part = document.part
            lines.append(f"<h2>{escape(part)}</h2>")
        lines.append(
            f'<p><a href="book:{document.name}">{escape(document.title)}</a>'
            f"<i></i><span>{page}</span></p>"
        )
        page += len(document.file.pages)
    return f"""<!doctype html>
<html lang="en"><head><title>{TITLE}</title><style>
{heads("Contents", 1, "lower-roman")}
@page {{ size: A4; margin: 20mm; }}
@page :first {{ margin: 0; @top-left {{ content: none; }} @bottom-center {{ content: none; }} }}
body {{ margin: 0; font: 10.5pt/1.5 serif; }}
.cover {{ break-after: page; height: 297mm; background: #14202b; padding-top: 70mm;
  box-sizing: border-box; }}
h1, h2 {{ font-family: sans-serif; break-after: avoid; }}
h2 {{ font-size: 11pt; margin: 1em 0 0.2em; }}
p {{ display: flex; margin: 0; gap: 0.5em; break-inside: avoid; }}
i {{ flex: 1; border-bottom: 1px dotted #889; margin-bottom: 0.4em; }}
a {{ color: inherit; text-decoration: none; }}
</style></head><body><div class="cover">{cover}</div><h1>Contents</h1>
{"".join(lines)}</body></html>"""


# Joining


def join(documents, front=1):
    """One file from many: pages, links between them, bookmarks, tags, numbers.

    The first ``front`` of them carry roman numbers.
    """
    writer = PdfWriter()
    starts, pages, tags = {}, {}, []
    for document in documents:
        starts[document.name] = len(writer.pages)
        pages[document.name] = [add_page(writer, page) for page in document.file.pages]
        tags.append(tags_of(document.file, writer))
    places = {d.name: places_of(d.file, pages[d.name]) for d in documents}
    for document in documents:
        for page in pages[document.name]:
            join_links(page, document.name, places, pages)
    add_bookmarks(writer, documents, starts)
    join_tags(writer, tags, [pages[document.name] for document in documents])
    numbered = sum(len(d.file.pages) for d in documents[:front])
    if numbered:
        writer.set_page_label(0, numbered - 1, style="/r")
    writer.set_page_label(numbered, len(writer.pages) - 1, style="/D")
    writer.add_metadata({"/Title": TITLE})
    writer.root_object[NameObject("/Lang")] = TextStringObject("en")
    return writer


def add_page(writer, page):
    """Add a page with the number of its tags, which pypdf leaves out."""
    added = writer.add_page(page)
    if "/StructParents" in page:
        added[NameObject("/StructParents")] = page["/StructParents"]
    return added


def places_of(file, pages):
    """The named places of a file: page and height in the joined one."""
    return {
        name.lstrip("/"): (pages[file.get_destination_page_number(place)], place.get("/Top", 0))
        for name, place in file.named_destinations.items()
    }


def join_links(page, name, places, pages):
    """Let the links of a page lead to pages of the joined file."""
    kept = ArrayObject()
    for reference in page.get("/Annots", ()):
        link = reference.get_object()
        address = link.get("/A", {}).get("/URI", "")
        if address.startswith("book:"):
            target, _, place = address.removeprefix("book:").partition("#")
        elif "/Dest" in link:
            target, place = name, str(link["/Dest"]).lstrip("/")
        else:
            kept.append(reference)
            continue
        found = find(target, place, places, pages)
        if found:
            there, top = found
            link.pop("/A", None)
            fit = Fit.xyz(left=0, top=round(float(top)), zoom=0)
            destination = Destination("", there.indirect_reference, fit)
            link[NameObject("/Dest")] = destination.dest_array
            kept.append(reference)
    if "/Annots" in page:
        page[NameObject("/Annots")] = kept


def find(target, place, places, pages):
    """Page and height of a place, which may stand among the solutions of its page."""
    plain = target.removeprefix(SOLUTIONS)
    for name in (target, plain, SOLUTIONS + plain):
        if place in places.get(name, ()):
            return places[name][place]
    return (pages[target][0], pages[target][0].mediabox.top) if target in pages else None


def add_bookmarks(writer, documents, starts):
    """A bookmark for each part of the book, within it each page, within it each section."""
    part, above = "", None
    for document in documents:
        start = starts[document.name]
        if document.part != part:
            part = document.part
            above = writer.add_outline_item(title=part, page_number=start)
        chapter = writer.add_outline_item(title=document.title, page_number=start, parent=above)
        for heading in sections(document.file.outline):
            page = start + document.file.get_destination_page_number(heading)
            writer.add_outline_item(title=heading.title, page_number=page, parent=chapter)


def sections(outline):
    """The headings under the title of a page."""
    inside = [items for items in outline if isinstance(items, list)]
    return [item for item in (inside[0] if inside else ()) if not isinstance(item, list)]


def tags_of(file, writer):
    """The tags of a file, as objects of the joined one: their tops, and the numbers of each."""
    root = file.trailer["/Root"].get("/StructTreeRoot")
    if root is None:
        return [], []
    root = root.get_object().clone(writer)
    top = root["/K"] if "/K" in root else ArrayObject()
    tops = list(top) if isinstance(top, ArrayObject) else [root.raw_get("/K")]
    return tops, list(numbers(root["/ParentTree"]))


def numbers(tree):
    """The pairs of a number tree."""
    tree = tree.get_object()
    for kid in tree.get("/Kids", ()):
        yield from numbers(kid)
    pairs = tree.get("/Nums", ArrayObject())
    for key, place in zip(pairs[::2], range(1, len(pairs), 2), strict=True):
        yield int(key), list.__getitem__(pairs, place)


def join_tags(writer, tags, pages):
    """Put the tags of all files under one root, their numbers one after another."""
    root = DictionaryObject({NameObject("/Type"): NameObject("/StructTreeRoot")})
    reference = writer._add_object(root)
    tops, pairs, base = ArrayObject(), ArrayObject(), 0
    for (some, numbered), group in zip(tags, pages, strict=True):
        for top in some:
            top.get_object()[NameObject("/P")] = reference
            tops.append(top)
        for key, value in numbered:
            pairs += [NumberObject(base + key), value]
        for page in group:
            for thing, key in [(page, "/StructParents")] + [
                (link.get_object(), "/StructParent") for link in page.get("/Annots", ())
            ]:
                if key in thing:
                    thing[NameObject(key)] = NumberObject(base + thing[key])
        base += 1 + max((key for key, _ in numbered), default=-1)
    root[NameObject("/K")] = tops
    tree = DictionaryObject({NameObject("/Nums"): pairs})
    root[NameObject("/ParentTree")] = writer._add_object(tree)
    root[NameObject("/ParentTreeNextKey")] = NumberObject(base)
    writer.root_object[NameObject("/StructTreeRoot")] = reference
    marked = DictionaryObject({NameObject("/Marked"): BooleanObject(True)})
    writer.root_object[NameObject("/MarkInfo")] = marked


def main(build=ROOT / "_build"):
    from playwright.sync_api import sync_playwright

    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    with sync_playwright() as play:
        browser = launch(play)
        documents = print_all(browser, build / "html", reader_pages(toc))
    writer = join(documents)
    writer.compress_identical_objects()
    path = build / "transformers-by-hand.pdf"
    writer.write(path)
    print(f"{path}: {len(writer.pages)} pages, {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
