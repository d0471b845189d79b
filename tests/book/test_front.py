"""What the book shows of itself elsewhere: its mark, and the preview of a link."""

from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
import yaml
from course import preview
from helpers.texts import ROOT, read

STATIC = ROOT / "book/_static"
CONFIGURATION = yaml.safe_load(read(ROOT / "_config.yml"))
APP = SimpleNamespace(config=SimpleNamespace(html_title="Transformers by Hand"))


def said(repository, monkeypatch):
    if repository:
        monkeypatch.setenv("GITHUB_REPOSITORY", repository)
    else:
        monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    context = {"title": "Here &amp; there", "metatags": ""}
    preview(APP, "book/130_softmax", "page.html", context, object())
    tags = ElementTree.fromstring(f"<head>{context['metatags'].replace('>', '/>')}</head>")
    return {tag.get("property"): tag.get("content") for tag in tags}


@pytest.mark.parametrize(
    "repository, address",
    [
        ("Someone/Course", "https://someone.github.io/course"),
        ("someone/someone.github.io", "https://someone.github.io"),
    ],
)
def test_a_link_has_a_preview_where_the_address_is_known(monkeypatch, repository, address):
    tags = said(repository, monkeypatch)
    assert tags["og:title"] == "Here & there"
    assert tags["og:url"] == f"{address}/book/130_softmax.html"
    assert tags["og:image"] == f"{address}/_static/cover.png"
    assert (STATIC / tags["og:image"].rpartition("/")[2]).exists()
    size = tags["og:image:width"], tags["og:image:height"]
    assert tuple(map(int, size)) == size_of_png(STATIC / "cover.png")


def test_elsewhere_a_link_has_none(monkeypatch):
    assert said(None, monkeypatch) == {}


def size_of_png(path):
    head = path.read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    return int.from_bytes(head[16:20]), int.from_bytes(head[20:24])


def test_the_mark_is_one_drawing_everywhere():
    assert CONFIGURATION["logo"] == CONFIGURATION["html"]["favicon"]
    mark, cover = (
        [path.get("d") for path in ElementTree.parse(STATIC / name).iter() if path.get("d")]
        for name in ("mark.svg", "cover.svg")
    )
    assert ROOT / CONFIGURATION["logo"] == STATIC / "mark.svg"
    assert [way for way in cover if way in mark] == mark
