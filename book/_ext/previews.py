"""What a link to a page shows elsewhere: its title, its first sentences, and a picture."""

import os
from functools import cache
from html import unescape
from pathlib import Path
from textwrap import shorten, wrap

import matplotlib
from docutils import nodes
from figures import attribute
from PIL import Image, ImageDraw, ImageFont

COVER = Path(__file__).parents[1] / "_static/cover.png"
LONGEST = 155  # characters of a description that search engines show
SIZE, MARK = (600, 315), 270  # of a picture, and of the part before its text
BOX = "explorable", "graph"


def setup(app):
    app.connect("html-page-context", preview)
    return {"parallel_read_safe": True}


def preview(app, page, template, context, doctree):
    """Describe a page, and draw its picture.

    Where GitHub Actions builds the book its address is known; elsewhere the picture's is relative.
    """
    if doctree is None:
        return
    title, text = unescape(context["title"]), first_words(doctree, LONGEST)
    name = f"_static/previews/{page.replace('/', '-')}.png"
    path = Path(app.outdir, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    picture(title).save(path)
    address = public_address()
    said = {
        "og:type": "article",
        "og:site_name": app.config.html_title,
        "og:title": title,
        "og:description": text,
        "og:image": f"{address}/{name}" if address else "../" * page.count("/") + name,
        "og:image:width": str(SIZE[0]),
        "og:image:height": str(SIZE[1]),
        "og:image:alt": f"{title}: the mark of {app.config.html_title}",
    } | ({"og:url": f"{address}/{page}.html"} if address else {})
    context["metatags"] = (
        f'<meta name="description" content="{attribute(text)}">\n'
        '<meta name="twitter:card" content="summary_large_image">\n'
        + "".join(
            f'<meta property="{key}" content="{attribute(value)}">\n' for key, value in said.items()
        )
    )


def public_address():
    """Where GitHub Pages hosts the book, if GitHub Actions builds it."""
    owner, _, name = os.environ.get("GITHUB_REPOSITORY", "").lower().partition("/")
    if not name:
        return ""
    return f"https://{owner}.github.io" + ("" if name == f"{owner}.github.io" else f"/{name}")


def first_words(place, length):
    """The first paragraph of a page or section that has no formula, as far as it fits."""
    for paragraph in place.findall(nodes.paragraph):
        if not next(paragraph.findall(nodes.math), None) and not is_boxed(paragraph):
            return shorten(paragraph.astext(), length, placeholder=" …")
    return ""


def is_boxed(node):
    while node := node.parent:
        if isinstance(node, nodes.Admonition | nodes.table) or {*BOX} & {*node["classes"]}:
            return True
    return False


def picture(title):
    """The mark, and beside it the title of a page."""
    image = cover().copy()
    pen = ImageDraw.Draw(image)
    lines = wrap(title, 17, break_on_hyphens=False)
    size = min(38, 165 // len(lines))
    for n, line in enumerate(lines):
        pen.text(
            (MARK + 10, 125 + (1.2 * n - 0.6 * len(lines)) * size), line, "#f4f6f9", font(size)
        )
    pen.text((MARK + 11, 240), "Transformers by Hand", "#c4ccd6", font(17))
    return image


@cache
def cover():
    image = Image.open(COVER).convert("RGB").resize(SIZE)
    ImageDraw.Draw(image).rectangle((MARK, 0, *SIZE), fill=image.getpixel((0, 0)))
    return image


@cache
def font(size):
    return ImageFont.truetype(Path(matplotlib.get_data_path(), "fonts/ttf/STIXGeneral.ttf"), size)
