"""What a page loads is what it uses: the theme and MathJax bring far more."""

import re
import shutil
from pathlib import Path

MATHJAX = [
    "startup.js",
    "core.js",
    "input/tex-base.js",
    "input/tex/extensions/ams.js",
    "input/tex/extensions/color.js",
    "input/tex/extensions/configmacros.js",
    "input/tex/extensions/html.js",
    "input/tex/extensions/newcommand.js",
    "output/chtml.js",
    "output/chtml/fonts/tex.js",
    "output/chtml/fonts/woff-v2",
    "a11y/assistive-mml.js",
]
SCRIPT = r"\s*<script[^>]*\b{}\.js[^>]*></script>"
SHEETS = ["styles/pydata-sphinx-theme.css", "sphinx-design.min.css", "mystnb.*.css"]
# An at-rule without rules inside, the beginning of a group of rules, a rule, the end of a group.
CSS = re.compile(
    r"@(?:font-face|(?:-webkit-)?keyframes|charset|import|page)[^{};]*"
    r"(?:;|\{(?:[^{}]*|(?:[^{}]*\{[^{}]*\})*[^{}]*)\})|@[^{]+\{|[^{}]+\{[^{}]*\}|\}"
)


def without_scripts(html, *names):
    for name in names:
        html = re.sub(SCRIPT.format(name), "", html)
    return html


def give_the_template_its_function(app, page, template, context, doctree):
    context["without_scripts"] = without_scripts


def choose_mathjax(app, config):
    config.mathjax_path = (
        "mathjax/startup.js"  # which loads the parts named in _config.yml
    )


def leave_out(app, exception):
    """Take away what no page uses: parts of MathJax, Font Awesome, rules of style sheets."""
    if exception or app.builder.format != "html":
        return
    static = Path(app.outdir, "_static")
    mathjax = static / "mathjax"
    for path in mathjax.rglob("*"):
        name = path.relative_to(mathjax).as_posix()
        if path.is_file() and not name.startswith(tuple(MATHJAX)):
            path.unlink()
    shutil.rmtree(static / "vendor", ignore_errors=True)
    (static / "scripts" / "fontawesome.js").unlink(missing_ok=True)
    used = set()
    for path in [*Path(app.outdir).rglob("*.html"), *static.rglob("*.js")]:
        if mathjax not in path.parents:
            used |= set(re.findall(r"[\w-]+", path.read_text(encoding="utf-8")))
    for path in [path for sheet in SHEETS for path in static.glob(sheet)]:
        path.write_text(
            pruned(path.read_text(encoding="utf-8"), used), encoding="utf-8"
        )


def pruned(css, used):
    """A style sheet without the rules for classes and ids that no page and no script names."""
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)
    kept = []
    for part in CSS.findall(css):
        if part.startswith("@font-face"):
            continue  # the icons come with course.css
        if part.startswith("@") or part == "}":
            kept.append(part)
            if part == "}" and kept[-2].endswith("{"):
                del kept[-2:]
            continue
        selectors, rule = part.split("{", 1)
        selectors = [one for one in commas(selectors) if needed(one, used)]
        if selectors:
            kept.append(",".join(selectors) + "{" + rule)
    return "".join(kept)


def commas(selectors):
    """The selectors of a list, whose brackets may hold lists of their own."""
    return re.findall(r"(?:[^,()]|\((?:[^()]|\([^()]*\))*\))+", selectors)


def needed(selector, used):
    plain = re.sub(r":(?:not|is|where|has)\((?:[^()]|\([^()]*\))*\)", "", selector)
    names = re.findall(r"[.#]((?:[\w-]|\\.)+)", plain)
    return all(name.replace("\\", "") in used or "\\" in name for name in names)


def setup(app):
    app.connect("config-inited", choose_mathjax, priority=900)
    app.connect("html-page-context", give_the_template_its_function)
    app.connect("build-finished", leave_out, priority=900)
    return {"parallel_read_safe": True}
