"""Formulas, set when the book is built: MathJax reads their TeX in V8, and pages hold MathML.

A displayed formula that a phone is too narrow for is written in parts, which wrap like words: what
stands side by side goes below each other first, then relations begin new lines, then sums.
"""

import os
import re
import unicodedata
from functools import cache
from html import escape
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

from docutils import nodes
from py_mini_racer import MiniRacer
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

PARTS = ["core", "adaptors/liteDOM", "input/tex-base"] + [
    f"input/tex/extensions/{name}" for name in ("newcommand", "ams", "configmacros", "html")
]
SCRIPT = r"""
const {SerializedMmlVisitor} = MathJax._.core.MmlTree.SerializedMmlVisitor;
MathJax._.handlers.html_ts.RegisterHTMLHandler(MathJax._.adaptors.liteAdaptor.liteAdaptor());
const InputJax = new MathJax._.input.tex_ts.TeX({
    packages: ["base", "ams", "newcommand", "configmacros", "html"],
    macros: {
        R: "\\mathbb{R}",
        query: ["\\class{query}{#1}", 1],
        key: ["\\class{key}{#1}", 1],
        value: ["\\class{value}{#1}", 1],
        Q: "\\query{\\mathbf{Q}}", q: "\\query{q}",
        K: "\\key{\\mathbf{K}}", k: "\\key{k}",
        V: "\\value{\\mathbf{V}}", v: "\\value{v}",
        scaleterm: ["\\class{scale-term}{#1}", 1],
        meanterm: ["\\class{mean-term}{#1}", 1],
        varianceterm: ["\\class{variance-term}{#1}", 1],
        sym: ["\\class{sym:#1}{#2}", 2],
    },
    formatError(jax, error) { throw error; },
});
const book = MathJax._.mathjax.mathjax.document("", {InputJax});
book.convert("\\let\\accentbar\\bar \\def\\bar#1{\\class{cotangent}{\\accentbar{#1}}}");
const visitor = new SerializedMmlVisitor();
const EM = {thinmathspace: 3 / 18, mediummathspace: 4 / 18, thickmathspace: 5 / 18};

// The space before and after an operator that browsers know by themselves, wherever it stands.
function usual(mo) {
    const sign = mo.getText();
    return /^[=≈≠≡≤≥∝→↦∈]$/.test(sign) ? [EM.thickmathspace, EM.thickmathspace]
        : /^[⋅⊙×]$/.test(sign) ? [EM.mediummathspace, EM.mediummathspace]
        : /^[()[\]⟨⟩¯^~˙⏟\u2061]$/.test(sign) ? [0, 0]
        : sign === "," ? [0, EM.thinmathspace] : [NaN, NaN];
}

// TeX puts space between two atoms; MathML, around operators.
function space(root) {
    const around = new Map(), inserted = [];
    root.setTeXclass(null);
    root.walkTree((node) => {
        if (node.isKind("mo"))
            around.set(node, ["lspace", "rspace"].map(
                (side) => EM[node.attributes.getExplicit(side)] ?? 0));
    });
    root.walkTree((node) => {
        const width = EM[node.texSpacing()];
        if (!width) return;
        const before = node.parent.childNodes[node.parent.childIndex(node) - 1];
        const operator = before?.isEmbellished && before.coreMO();
        if (operator && usual(operator)[1] === width) around.get(operator)[1] = width;
        else if (node.isEmbellished) around.get(node.coreMO())[0] = width;
        else if (operator) around.get(operator)[1] = width;
        else inserted.push([node, width]);
    });
    for (const [mo, widths] of around)
        ["lspace", "rspace"].forEach((side, i) => {
            if (widths[i] === usual(mo)[i]) delete mo.attributes.getAllAttributes()[side];
            else mo.attributes.set(side, widths[i] ? `${widths[i].toFixed(3)}em` : "0");
        });
    for (const [node, width] of inserted) {
        const gap = root.factory.create("mspace", {width: `${width.toFixed(3)}em`});
        node.parent.childNodes.splice(node.parent.childIndex(node), 0, gap);
        gap.parent = node.parent;
    }
}

// The MathML of each formula, or else what is wrong with it.
const typeset = (formulas) => formulas.map(([tex, display]) => {
    try {
        const root = book.convert(tex, {display, end: MathJax._.core.MathItem.STATE.CONVERT});
        space(root);
        return visitor.visitTree(root);
    } catch (error) {
        return error.message;
    }
});
"""
BOLD_AND_OTHERS = {
    "bold": "BOLD",
    "bold-italic": "BOLD ITALIC",
    "script": "SCRIPT",
    "double-struck": "DOUBLE-STRUCK",
    "monospace": "MONOSPACE",
}
ACCENTS = {"\u2015": "\u203e", "~": "˜", "^": "ˆ", "¯": "¯", "˙": "˙"}
KEPT = {"display", "displaystyle", "scriptlevel", "class", "mathsize", "width", "height"}
KEPT |= {"depth", "voffset", "stretchy", "symmetric", "minsize", "maxsize", "lspace", "rspace"}
KEPT |= {"movablelimits", "linethickness", "accent", "accentunder"}
SIDE_BY_SIDE = 0.9  # em: such a space stands between formulas
PHONE = 15  # em: what is wider than this, about, has to break on a phone


MATHML = {}  # of a formula, displayed or not: what MathJax makes of it


@cache
def engine(process):
    """MathJax for a process, with all it needs here: V8 has threads, which a fork leaves behind."""
    package = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static/mathjax"
    v8 = MiniRacer()
    v8.eval("var self = globalThis, global = globalThis;")
    for part in PARTS:
        v8.eval((package / f"{part}.js").read_text(encoding="utf-8"))
    v8.eval(SCRIPT)
    return v8


def read(formulas):
    """Ask MathJax for formulas, many at once: a call takes longer than a formula."""
    new = [formula for formula in dict.fromkeys(formulas) if formula not in MATHML]
    if new:
        MATHML.update(zip(new, engine(os.getpid()).call("typeset", new), strict=True))


@cache
def typeset(tex, display=False):
    """The HTML of a formula."""
    read([(tex, display)])
    if not MATHML[tex, display].startswith("<math"):
        raise ValueError(MATHML[tex, display])
    root = ElementTree.fromstring(MATHML[tex, display])
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    simplify(root)
    return displayed(root) if display else parts(list(root), width(root) > PHONE / 2)


# MathML as browsers know it


def simplify(element):
    """Leave what browsers know: letters for styles of letters, CSS for the columns of tables."""
    element.text = element.text and (element.text if len(element) == 0 else None)
    element.tail = None
    if element.tag == "mtable":
        align_columns(element)
    variant = element.get("mathvariant")
    if variant in BOLD_AND_OTHERS:
        element.text = "".join(letter(char, BOLD_AND_OTHERS[variant]) for char in element.text)
    elif variant == "normal" and len(element.text) == 1:
        element.set("mathvariant", "normal")
    for name in [name for name in element.attrib if name not in KEPT | {"style"}]:
        if (name, element.get(name)) != ("mathvariant", "normal") or len(element.text) > 1:
            del element.attrib[name]
    for child in element:
        simplify(child)
    rows = element.tag in ("math", "mrow", "mstyle", "mtd")
    element[:] = [plain(child) for child in element if not (rows and is_empty(child))]
    if element.tag in ("mover", "munder") and element[1].tag == "mo":
        mark = element[1].text
        if mark in ACCENTS:
            element.set("accent", "true")
            element[1].text = ACCENTS[mark]
            if mark == "\u2015":
                element[1].set("stretchy", "true")
    if element.get("minsize") == "1.2em":  # of the face: its sizes are 0.933, 1.187, 1.427 em
        element.attrib |= {"minsize": "1.18em", "maxsize": "1.18em"}
    if element.tag == "mo" and element.text in ("|", "‖") and "stretchy" not in element.attrib:
        element.attrib |= {"stretchy": "true", "symmetric": "true"}


def letter(char, style):
    """A bold W for W, and so on, where there is one."""
    name = unicodedata.name(char).replace("LATIN ", "").replace("GREEK ", "").replace(" LETTER", "")
    for prefix in ("MATHEMATICAL ", ""):
        try:
            return unicodedata.lookup(f"{prefix}{style} {name}")
        except KeyError:
            pass
    return char


def is_empty(element):
    return element.tag in ("mi", "mo") and not element.text


def plain(element):
    """What stands for an element: its only child, if it adds nothing to that."""
    if element.tag in ("mrow", "mstyle") and len(element) == 1 and element[0].tag != "mo":
        (child,) = element
        if not element.attrib or element.tag == "mstyle" and child.tag == "mspace":
            return child
        if not set(element.attrib) & set(child.attrib):
            child.attrib |= element.attrib
            return child
    return element


def align_columns(table):
    sides = table.get("columnalign", "center").split()
    gaps = table.get("columnspacing", "1em").split()
    for row in table:
        for column, cell in enumerate(row):
            side = sides[min(column, len(sides) - 1)]
            gap = gaps[min(column, len(gaps)) - 1] if column else "0"
            cell.set("style", f"text-align:{side};padding-left:{gap}")


def serialized(element):
    html = ElementTree.tostring(element, encoding="unicode", short_empty_elements=False)
    return re.sub(r"></(mspace)>", "/>", html)


# Displayed formulas


def displayed(root):
    """A formula in its lines, columns and parts."""
    table = root[0] if len(root) == 1 and root[0].tag == "mtable" else None
    if table is None or table.get("displaystyle") != "true":
        lines = [list(root)]
    elif max(map(len, table)) == 1:
        lines = [list(row[0]) for row in table]
    else:
        return aligned(table)
    html = [displayed_parts(line, width(root) > PHONE) for line in lines]
    return f'<div class="formula"><div>{"</div><div>".join(html)}</div></div>'


def aligned(table):
    """Rows in columns, right and left by turns; a reason follows an empty cell."""
    wide = width(table) > PHONE
    cells = []
    for row in table:
        reason = len(row) > 3 and not len(row[2])
        for column, cell in enumerate(row, start=1):
            if len(cell):
                place = "reason" if reason and column == 4 else f"column-{column}"
                cells.append(f'<div class="{place}">{displayed_parts(list(cell), wide)}</div>')
    apart = " apart" if wide and max(width(row[0]) for row in table) > PHONE / 4 else ""
    return f'<div class="formula aligned{apart}">{"".join(cells)}</div>'


def relation(element):
    return element.tag == "mo" and element.text in set("=<>≤≥≈≠≡∝→↦∼≪≫⟶⟼⟺←∈")


def operation(element):
    return element.tag == "mo" and element.text in set("+−±⊙⋅×")


def gap(element):
    return element.tag == "mspace" and float(element.get("width", "0em")[:-2]) > SIDE_BY_SIDE


def displayed_parts(elements, wide):
    return parts(elements, wide, (gap, relation, operation), {"displaystyle": "true"})


def parts(elements, wide, marks=(gap, relation), attributes=()):
    """Elements as one formula or, where it is wide, as parts that begin at such marks."""
    if not wide or not marks:
        root = ElementTree.Element("math", dict(attributes))
        root.extend(elements)
        return serialized(root)
    groups = [[]]
    for element in elements:
        if marks[0](element) and groups[-1]:
            groups.append([])
        groups[-1].append(element)
    if len(groups) == 1:
        return parts(elements, wide, marks[1:], attributes)
    html = []
    for group, after in pairwise([*groups, []]):
        style = ""
        if marks[0] is gap:
            style = f' style="margin-right:{after[0].get("width") if after else 0}"'
            group = group[1:] if gap(group[0]) else group
        html.append(f"<span{style}>{parts(group, wide, marks[1:], attributes)}</span>")
    return "".join(html)


def width(element):
    """About how wide an element is, in em."""
    inside = [width(child) for child in element]
    if element.tag == "mspace":
        return float(element.get("width", "0em")[:-2])
    if element.tag == "mtable":
        columns = max(len(row) for row in element)
        return sum(
            max(width(row[n]) for row in element if n < len(row)) + 0.5 for n in range(columns)
        )
    if element.tag in ("mfrac", "munder", "mover", "munderover"):
        return max(inside)
    if element.tag in ("msub", "msup"):
        return inside[0] + 0.7 * inside[1]
    if element.tag == "msubsup":
        return inside[0] + 0.7 * max(inside[1:])
    spaced = 0.4 if relation(element) or operation(element) else 0
    return sum(inside) + 0.5 * len((element.text or "").strip("\u2061")) + spaced


# Pages


def html_of(node, display):
    tex = node.astext()
    try:
        return typeset(tex, display)
    except ValueError as error:
        logging.getLogger(__name__).warning(
            "this formula cannot be set: %s: %s", error, tex, location=node
        )
        return f"<code>{escape(tex)}</code>"


def inline_html(tex, html=None):
    """A formula in a line of text."""
    return f'<span class="math" data-tex="{escape(tex)}">{html or typeset(tex)}</span>'


def visit_inline(translator, node):
    translator.body.append(inline_html(node.astext(), html_of(node, display=False)))
    raise nodes.SkipNode


def visit_block(translator, node):
    tex = {"data-tex": node.astext().strip()}
    translator.body.append(translator.starttag(node, "div", CLASS="math", **tex))
    translator.body.append(html_of(node, display=True))
    if node["number"]:
        number = get_node_equation_number(translator, node)
        translator.body.append(f'<span class="eqno">({number})')
        translator.add_permalink_ref(node, "Link to this equation")
        translator.body.append("</span>")
    translator.body.append("</div>\n")
    raise nodes.SkipNode


def read_page(app, doctree, docname):
    read(
        (formula.astext(), isinstance(formula, nodes.math_block))
        for formula in doctree.findall(lambda node: isinstance(node, nodes.math | nodes.math_block))
    )


def join_marks(app, doctree, docname):
    """No line begins with the mark that follows a formula."""
    for formula in list(doctree.findall(nodes.math)):
        after = formula.next_node(nodes.Text, descend=False, siblings=True)
        marks = after and re.match(r"[.,;:?!)]+", after)
        if marks and formula.parent.index(after) == formula.parent.index(formula) + 1:
            rest = nodes.Text(after[marks.end() :])
            joined = nodes.inline("", "", classes=["joined"])
            formula.parent.replace(after, rest)
            formula.replace_self(joined)
            joined += [formula, nodes.Text(marks[0])]


def setup(app):
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    app.connect("doctree-resolved", read_page)
    app.connect("doctree-resolved", join_marks)
    return {"parallel_read_safe": True}
