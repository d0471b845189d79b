"""What a page loads is what it uses: the theme brings far more."""

import base64
import re
import shutil
from itertools import groupby, pairwise
from pathlib import Path

import tinycss2

SCRIPT = r"\s*<script[^>]*\b{}\.js[^>]*></script>"
FONT = r'url\("(fonts/.*?)"\)'
# The theme's script looks, after every change of a page, which boxes scroll: course.js does that.
TAB_STOPS = r'document\.querySelectorAll\(\["pre",[^]]+][^)]+\)\)\.forEach\(.=>{.\.tabIndex=.*?}\)'
SHEETS = ["styles/pydata-sphinx-theme.css", "sphinx-design.min.css", "mystnb.*.css"]


def without_scripts(html, *names):
    for name in names:
        html = re.sub(SCRIPT.format(name), "", html)
    return html


def give_the_template_its_function(app, page, template, context, doctree):
    context["without_scripts"] = without_scripts


def leave_out(app, exception):
    """Take away what no page uses: Font Awesome, rules of style sheets, the theme's tab stops."""
    if exception or app.builder.format != "html":
        return
    static = Path(app.outdir, "_static")
    shutil.rmtree(static / "vendor", ignore_errors=True)
    (static / "scripts" / "fontawesome.js").unlink(missing_ok=True)
    for path in static.glob("scripts/pydata-sphinx-theme.js"):
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(TAB_STOPS, "0", text), encoding="utf-8")
    used = set()
    for path in [*Path(app.outdir).rglob("*.html"), *static.rglob("*.js")]:
        used |= set(re.findall(r"[\w-]+", path.read_text(encoding="utf-8")))
    for path in [path for sheet in SHEETS for path in static.glob(sheet)]:
        path.write_text(pruned(path.read_text(encoding="utf-8"), used), encoding="utf-8")
    faces = static / "type.css"  # in which their files are: no text waits for one, or jumps
    css = re.sub(FONT, lambda found: in_place(static / found[1]), faces.read_text(encoding="utf-8"))
    faces.write_text(css, encoding="utf-8")


def in_place(font):
    """The file of a font as an address that needs no file."""
    return f'url("data:font/woff2;base64,{base64.b64encode(font.read_bytes()).decode()}")'


def pruned(css, used):
    """A style sheet without the rules for classes and ids that no page and no script names."""
    rules = tinycss2.parse_stylesheet(css, skip_comments=True, skip_whitespace=True)
    return "".join(kept(rule, used) for rule in rules)


def kept(rule, used):
    """What is left of a rule as text: the icons' fonts come with type.css."""
    if rule.type == "at-rule" and rule.at_keyword in ("media", "supports"):
        inside = pruned(tinycss2.serialize(rule.content), used)
        return f"@{rule.at_keyword}{tinycss2.serialize(rule.prelude)}{{{inside}}}" if inside else ""
    if rule.type == "qualified-rule":
        groups = [list(g) for comma, g in groupby(rule.prelude, lambda t: t == ",") if not comma]
        rule.prelude = tinycss2.parse_component_value_list(
            ",".join(tinycss2.serialize(group) for group in groups if needed(group, used))
        )
        return rule.serialize() if rule.prelude else ""
    return "" if rule.type == "error" or rule.at_keyword == "font-face" else rule.serialize()


def needed(selector, used):
    """Whether all classes and ids of a selector are used; those in :not() and the like may not."""
    classes = [name for dot, name in pairwise(selector) if dot == "." and name.type == "ident"]
    ids = [token for token in selector if token.type == "hash"]
    return all(token.value in used or re.search(r"[^\w-]", token.value) for token in classes + ids)


def setup(app):
    app.connect("html-page-context", give_the_template_its_function)
    app.connect("build-finished", leave_out, priority=900)
    return {"parallel_read_safe": True}
