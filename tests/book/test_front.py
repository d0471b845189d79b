"""What the book shows of itself elsewhere: its mark, and the preview of a link."""

from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
import yaml
from docutils import nodes
from helpers.texts import ROOT, read
from PIL import Image
from previews import picture, preview

STATIC = ROOT / "book/_static"
CONFIGURATION = yaml.safe_load(read(ROOT / "_config.yml"))
TEXT = "What the page & its picture say."


def said(repository, monkeypatch, folder):
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    if repository:
        monkeypatch.setenv("GITHUB_REPOSITORY", repository)
    app = SimpleNamespace(config=SimpleNamespace(html_title="Transformers by Hand"), outdir=folder)
    paragraphs = nodes.paragraph("", "A formula ", nodes.math("", "x")), nodes.paragraph("", TEXT)
    context = {"title": "Here &amp; there", "metatags": '<meta name="viewport" content="again">'}
    preview(app, "book/130_softmax", "page.html", context, nodes.section("", *paragraphs))
    tags = ElementTree.fromstring(f"<head>{context['metatags'].replace('>', '/>')}</head>")
    return {tag.get("property") or tag.get("name"): tag.get("content") for tag in tags}


@pytest.mark.parametrize(
    "repository, address",
    [
        ("Someone/Course", "https://someone.github.io/course"),
        ("someone/someone.github.io", "https://someone.github.io"),
        (None, ".."),
    ],
)
def test_a_link_has_a_preview_of_its_page(monkeypatch, tmp_path, repository, address):
    tags = said(repository, monkeypatch, tmp_path)
    assert tags["og:title"] == "Here & there"
    assert tags["description"] == tags["og:description"] == TEXT
    assert tags.get("og:url") == (repository and f"{address}/book/130_softmax.html")
    assert "viewport" not in tags
    name = tags["og:image"].removeprefix(f"{address}/")
    size = tags["og:image:width"], tags["og:image:height"]
    with Image.open(tmp_path / name) as image:
        assert (*map(int, size), "PNG") == (*image.size, image.format)


def test_two_pages_have_two_pictures():
    assert picture("Softmax").tobytes() != picture("Attention").tobytes()


def test_the_mark_is_one_drawing_everywhere():
    assert CONFIGURATION["logo"] == CONFIGURATION["html"]["favicon"]
    mark, cover = (
        [path.get("d") for path in ElementTree.parse(STATIC / name).iter() if path.get("d")]
        for name in ("mark.svg", "cover.svg")
    )
    assert ROOT / CONFIGURATION["logo"] == STATIC / "mark.svg"
    assert [way for way in cover if way in mark] == mark
