"""What this book asks of Sphinx beyond its configuration."""

import ast
import hashlib
import os
import textwrap
from pathlib import Path

from docutils import nodes
from ledger import listing_id
from sphinx.util.docutils import SphinxDirective

# For the kernels of the notebooks, as in the Makefile: no progress bars, and one thread, whose sums
# do not depend on the number of cores.
RECORDED = {
    "TQDM_DISABLE": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
}


class Source(SphinxDirective):
    """Show a function, class or method of the package as it is, without its docstrings.

    ``{source} transformer_core/ops/softmax.py softmax_backward``
    """

    required_arguments = 2

    def run(self):
        path, name = self.arguments
        self.env.note_dependency(path)
        source = (Path(self.env.srcdir) / path).read_text(encoding="utf-8")
        definition = ast.parse(source)
        for part in name.split("."):
            named = [
                node for node in definition.body if getattr(node, "name", 0) == part
            ]
            if not named:
                raise self.error(f"{path} has no {name}")
            (definition,) = named
        docstrings = [
            node.body[0]
            for node in ast.walk(definition)
            if isinstance(node, ast.ClassDef | ast.FunctionDef)
            and ast.get_docstring(node)
        ]
        shown = [
            line
            for number, line in enumerate(source.splitlines(), start=1)
            if definition.lineno <= number <= definition.end_lineno
            and not any(d.lineno <= number <= d.end_lineno for d in docstrings)
        ]
        code = textwrap.dedent("\n".join(shown))
        caption = nodes.caption("", "", nodes.literal("", path))
        block = nodes.literal_block(code, code, language="python")
        container = nodes.container("", caption, block, literal_block=True)
        container["classes"] = ["literal-block-wrapper"]
        members = [f"{name}.{getattr(node, 'name', '')}" for node in definition.body]
        container["ids"] = [listing_id(path, shown) for shown in (name, *members)]
        for place in container["ids"]:
            self.name_first_listing(place)
        return [container]

    def name_first_listing(self, place):
        """Let the ledger link to a listing; of two of the same function, to the first."""
        domain = self.env.domains["std"]
        if place not in domain.anonlabels:
            domain.note_hyperlink_target(place, self.env.docname, place)


def setup(app):
    os.environ.update(RECORDED)
    app.add_directive("source", Source)
    app.connect("config-inited", key_the_notebook_cache)
    app.connect("config-inited", link_the_repository)
    app.connect("config-inited", leave_thebe_out)
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


def leave_thebe_out(app, config):
    """Take out the live cells that Jupyter Book puts on every page, and this book does not use.

    Their script is declared twice, which is an error in the console of each page.
    """
    for listeners in app.events.listeners.values():
        for listener in list(listeners):
            if listener.handler.__module__ == "sphinx_thebe":
                app.disconnect(listener.id)
    files = app.registry.css_files
    files[:] = [file for file in files if file[0] != "sphinx-thebe.css"]
