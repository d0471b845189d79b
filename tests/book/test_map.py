"""The map of the whole Transformer: its parts, its links, and what is lit."""

from itertools import combinations
from xml.etree import ElementTree

import pytest
from helpers.texts import ROOT, read
from map import HEIGHT, PANELS, PLACES, WIDTH, Line, Part, draw_map, draw_strip, page_of

CHAPTERS = sorted(path.stem for path in ROOT.glob("book/[0-9]*.md"))
PARTS = {
    name: [thing for thing in things if isinstance(thing, Part)]
    for name, (_, things) in PANELS.items()
}
ALL = [part for parts in PARTS.values() for part in parts]
every_chapter = pytest.mark.parametrize("chapter", CHAPTERS)


def links(html):
    drawings = ElementTree.fromstring(html)
    return [(a.get("href"), a.get("aria-current"), a) for a in drawings.iter("a")]


def test_every_chapter_has_its_place_and_every_part_its_chapter():
    assert list(PLACES) == CHAPTERS
    assert {page_of(part) for part in ALL} == set(CHAPTERS)


@every_chapter
def test_the_parts_of_a_chapter_are_lit_on_its_page_and_no_others(chapter):
    found = links(draw_map(chapter))
    lit = [href for href, current, _ in found if current == "page"]
    assert lit == [href for href, _, _ in found if href == f"{chapter}.html"]
    assert lit


@every_chapter
def test_the_strip_lights_as_many_parts_as_the_map_and_says_where(chapter):
    strip = draw_strip(chapter, {})
    summary = strip.partition("</summary>")[0]
    assert summary.count('class="lit"') == strip.count("aria-current")
    assert f"You are here: {PLACES[chapter]}." in summary
    assert "<a " not in summary


def test_on_the_front_page_nothing_is_lit():
    found = links(draw_map())
    assert len(found) == len(ALL)
    assert not any(current for _, current, _ in found)


def test_a_link_has_the_title_of_its_chapter():
    for href, _, link in links(draw_map("", {"130_softmax": "Softmax & more"})):
        title = link.findtext("title")
        assert title == ("Softmax & more" if "softmax" in href else href[:-5])


@pytest.mark.parametrize("name", PANELS)
def test_parts_lie_in_their_panel_beside_each_other(name):
    for part in PARTS[name]:
        assert 0 <= part.x < part.x + part.width <= WIDTH
        assert 0 <= part.y < part.y + part.height <= HEIGHT
    for one, other in combinations(PARTS[name], 2):
        assert (
            one.x + one.width <= other.x
            or other.x + other.width <= one.x
            or one.y + one.height <= other.y
            or other.y + other.height <= one.y
        ), (one, other)


@pytest.mark.parametrize("name", PANELS)
def test_every_way_of_values_is_a_way_of_gradients(name):
    kinds = [thing.kind for thing in PANELS[name][1] if isinstance(thing, Line)]
    ways = [kind.split()[0] for kind in kinds]
    assert ways.count("forward") == ways.count("backward") > 0


def test_the_drawing_takes_its_colours_from_the_page():
    assert "#" not in draw_map("150_layer_norm")
    assert "#" not in read(ROOT / "book/_static/map.css")
