"""What this book asks of Sphinx beyond its configuration."""

import ast
import hashlib
import os
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective


class Source(SphinxDirective):
    """Show a function or class of the package as it is, without its docstring.

    ``{source} transformer_core/ops/softmax.py softmax_backward``
    """

    required_arguments = 2

    def run(self):
        path, name = self.arguments
        self.env.note_dependency(path)
        source = (Path(self.env.srcdir) / path).read_text(encoding="utf-8")
        found = [
            node
            for node in ast.parse(source).body
            if getattr(node, "name", None) == name
        ]
        if not found:
            raise self.error(f"{path} has no {name}")
        definition = found[0]
        lines = source.splitlines()
        docstring = definition.body[0] if ast.get_docstring(definition) else None
        shown = [
            line
            for number, line in enumerate(lines, start=1)
            if definition.lineno <= number <= definition.end_lineno
            and not (docstring and docstring.lineno <= number <= docstring.end_lineno)
        ]
        block = nodes.literal_block(
            "\n".join(shown), "\n".join(shown), language="python"
        )
        caption = nodes.caption("", "", nodes.literal("", f"{path}"))
        return [
            nodes.container(
                "",
                caption,
                block,
                classes=["literal-block-wrapper"],
                literal_block=True,
            )
        ]


def setup(app):
    app.add_directive("source", Source)
    app.connect("config-inited", key_the_notebook_cache)
    app.connect("config-inited", link_the_repository)
    return {"parallel_read_safe": True}


def key_the_notebook_cache(app, config):
    """Give the notebooks' cache a folder that changes when what they import does.

    jupyter-cache compares the notebooks alone: with a fixed folder, a change in the package would
    leave the old outputs in the book.
    """
    root = Path(app.srcdir)
    digest = hashlib.sha256()
    for path in [
        root / "requirements.txt",
        *sorted(root.glob("transformer_core/**/*.py")),
    ]:
        digest.update(path.read_bytes())
    cache = root / "_build" / ".jupyter_cache" / digest.hexdigest()[:16]
    cache.parent.mkdir(parents=True, exist_ok=True)
    config.nb_execution_cache_path = str(cache)


def link_the_repository(app, config):
    """Add the buttons that need a public address, where GitHub Actions builds the book there."""
    repository = os.environ.get("GITHUB_REPOSITORY")
    if repository is None:
        return
    config.html_theme_options |= {
        "repository_url": f"{os.environ['GITHUB_SERVER_URL']}/{repository}",
        "repository_branch": os.environ["GITHUB_REF_NAME"],
        "use_repository_button": True,
        "use_issues_button": True,
        "use_edit_page_button": True,
        "launch_buttons": {
            "notebook_interface": "jupyterlab",
            "binderhub_url": "https://mybinder.org",
            "colab_url": "https://colab.research.google.com",
        },
    }
