"""What the search finds and shows: equations by their labels, pages by the other names of their
subjects, and the first words of each place.

Pages in a folder may not fetch each other, so that ``_static/excerpts.js`` holds these words.
"""

import json
from pathlib import Path

from docutils import nodes
from previews import first_words
from sphinx import addnodes
from sphinx.domains import ObjType
from sphinx.domains.math import MathDomain

LENGTH = 160


class Equations(MathDomain):
    """Equations, which the index of the search holds as it holds functions."""

    object_types = {"eq": ObjType("equation", "eq")}

    def get_objects(self):
        for label, (page, _) in self.equations.items():
            yield label, label, "eq", page, f"equation-{nodes.make_id(label)}", 1


def setup(app):
    app.add_domain(Equations, override=True)
    app.connect("doctree-read", index_names)
    app.connect("doctree-resolved", note_words, priority=900)  # as it is shown
    app.connect("build-finished", write_words)
    return {"parallel_read_safe": True}


def index_names(app, doctree):
    """Put the keywords in the front matter of a page into the index of the search."""
    for meta in [*doctree.findall(nodes.meta)]:
        if meta["name"] == "keywords":
            for name in meta["content"].split(", "):
                doctree += addnodes.index(entries=[("single", name, "", "main", None)])


def note_words(app, doctree, page):
    """Keep the first words of a page that is written, and of its sections."""
    words = {"": first_words(doctree, LENGTH)}
    for section in doctree.findall(nodes.section):
        for anchor in section["ids"]:
            words[f"#{anchor}"] = first_words(section, LENGTH)
    app.written_words = {**getattr(app, "written_words", {}), page: words}


def write_words(app, exception):
    """Put the words of this build over those of the last one."""
    if exception or app.builder.format != "html":
        return
    path, head = Path(app.outdir, "_static", "excerpts.js"), "const EXCERPTS = "
    last = json.loads(path.read_text(encoding="utf-8")[len(head) :]) if path.exists() else {}
    words = {
        page: found
        for page, found in (last | getattr(app, "written_words", {})).items()
        if page in app.env.found_docs
    }
    path.write_text(head + json.dumps(words, ensure_ascii=False), encoding="utf-8")
