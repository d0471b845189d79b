"""The directive on the pages of the book."""

import json
import re

import pytest
from drill import drill_html
from helpers.texts import ROOT, read
from sphinx.application import Sphinx

from transformer_practice.drills import DRILLS, draw


@pytest.mark.parametrize("name", DRILLS)
def test_the_page_of_a_chapter_has_its_drill_before_the_exercises(name):
    page = read(ROOT / "book" / f"{draw(name, 0).chapter}.md")
    before, _, after = page.partition("\n## Exercises\n")
    assert re.findall(r"^```\{drill\} (\w+)$", before, re.MULTILINE) == [name]
    assert "{drill}" not in after
    assert before.index("\n## Check yourself\n") < before.index("{drill}")


@pytest.mark.thorough
def test_a_page_has_the_tasks_as_they_are_drawn():
    data = json.loads(re.search(r"json\">(.*)</script>", drill_html("softmax"))[1])
    for seed, task in enumerate(data["tasks"], start=1):
        drawn = draw("softmax", seed)
        assert task["answers"][1] == ", ".join(map(str, drawn.steps[1].answer))


def test_the_script_is_linked_where_there_are_fields(tmp_path):
    (tmp_path / "index.md").write_text("# One\n\n```{drill} linear\n```\n", "utf-8")
    (tmp_path / "plain.md").write_text("---\norphan: true\n---\n# Two\n", "utf-8")
    app = Sphinx(
        tmp_path,
        None,
        tmp_path / "out",
        tmp_path / "doctrees",
        "html",
        confoverrides={
            "extensions": ["myst_parser", "figures", "drill"],
            "html_theme": "basic",
            "html_static_path": [str(ROOT / "book/_static")],
        },
        status=None,
        warningiserror=True,
    )
    app.build()
    with_fields, without = (read(tmp_path / "out" / f"{n}.html") for n in ("index", "plain"))
    assert drill_html("linear") in with_fields
    assert len(re.findall(r"<script [^>]*drill\.js", with_fields)) == 1
    assert "drill" not in without
