"""Tasks for a pencil on a page: the directive ``{drill} layer_norm``."""

import json
import re
import tomllib
import unicodedata
from functools import partial
from html import escape
from pathlib import Path

import numpy as np
from docutils import nodes
from figures import Figure
from mathematics import inline_html

from transformer_practice.drills import draw, words_of
from transformer_practice.drills.exact import form, show

TASKS = 12  # with fields; another one, with the seed 0, is worked
FOLDER = "transformer_practice/drills"


def script(sign):
    """How a run of small letters is written on the line."""
    return lambda run: f"{sign}{{{unicodedata.normalize('NFKC', run[0])}}}"


NAMES = "exp|ln|max|min|mean|tanh|softmax|ReLU|rint|lse|LN|Im|Var"
TEX = {  # what stands for what in a formula, one after the other
    "[₀₁₂₃ᵢⱼₙᵣₜ₋]+": script("_"),
    "[²³ᵏᵗᵀ]+": script("^"),
    rf"(?<![A-Za-z])({NAMES})(?![A-Za-z]| of)": r"\\operatorname{\1}",
    r"(?<![\w\\{])([a-z-]{3,}(?: [a-z]{2,})* ?)": r"\\text{\1}",
    r"E(?=\[)": r"\\mathbb{E}",
    "(\\\\mathbf{.}|\\w)\u0304": r"\\bar{\1}",
    "(\\w)\u0302": r"\\hat{\1}",
    r"\^\(([^()]*)\)|\^(\w_\w)": r"^{\1\2}",
    r"\^{T}": r"^\\top",
    r"√\(((?:[^()]|\([^()]*\))*)\)": r"\\sqrt{\1}",
    r"√(\\\w+{.}|\w)(_{?\w}?)?": r"\\sqrt{\1\2}",
    r"‖(.*?)‖": r"\\lVert \1 \\rVert ",
    "Σ": r"\\sum ",
    "′": "'",
    "‴": "'''",
}


class Drill(Figure):
    """A worked task in a fold, and fields for more: ``{drill} layer_norm``."""

    required_arguments = 1
    has_content = False

    def run(self):
        (name,) = self.arguments
        self.depend_on(*(Path(self.env.srcdir) / FOLDER).glob("*.*"))
        self.load("drill.js")
        return [nodes.raw("", drill_html(name), format="html")]


def drill_html(name):
    """The worked task, whose words the script reads, and the numbers of the others."""
    task = draw(name, 0)
    words = tomllib.loads(words_of(name))
    write = partial(with_formulas, matrices=matrices(task))
    steps = "".join(
        f"<li><p>{write(step['prompt'])}</p>{value_html('', drawn.answer)}"
        f'<p class="rule">{write(step["rule"])}</p></li>'
        for step, drawn in zip(words["steps"], task.steps, strict=True)
    )
    symbols = [write(f"${symbol} =$") for symbol in task.given]
    given = "".join(map(value_html, symbols, task.given.values()))
    mistakes = [list(map(write, step.get("slips", ()))) for step in words["steps"]]
    data = json.dumps(data_of(name, symbols, mistakes), ensure_ascii=False, separators=(",", ":"))
    data = data.replace("<", r"\u003c")
    return (
        f'<div class="drill" id="drill-{name}">'
        f"<details><summary>A worked task: {escape(task.title)}</summary>"
        f'<p>{write(words["question"])}</p><div class="given">{given}</div>'
        f"<ol>{steps}</ol></details>"
        f'<script type="application/json">{data}</script></div>'
    )


def data_of(name, symbols, mistakes):
    """The tasks of a drill: what they share, and the numbers of each."""
    tasks = [draw(name, seed) for seed in range(1, TASKS + 1)]
    first = tasks[0]
    return {
        "title": first.title,
        "symbols": symbols,
        "forms": [form(step.answer) for step in first.steps],
        "mistakes": mistakes,
        "complete": first.to_fill("complete"),
        "tasks": [
            {
                "given": [show(value) for value in task.given.values()],
                "answers": [show(step.answer) for step in task.steps],
                "slips": [[show(slip) for slip in step.slips.values()] for step in task.steps],
            }
            for task in tasks
        ],
    }


def matrices(task):
    """The letters of a task that stand for matrices."""
    named = {**task.given, **{step.prompt: step.answer for step in task.steps}}
    names = [name for name, value in named.items() if np.ndim(value) == 2 and name[0].isupper()]
    return {unicodedata.normalize("NFD", name)[0] for name in names}


def with_formulas(words, matrices):
    """Words as HTML, with their formulas set."""
    parts = words.split("$")
    return "".join(
        inline_html(tex(part, matrices)) if n % 2 else escape(part, quote=False)
        for n, part in enumerate(parts)
    )


def tex(formula, matrices=()):
    """The TeX of a formula in plain letters."""
    written = unicodedata.normalize("NFD", formula)
    for letter in matrices:
        written = written.replace(letter, rf"\mathbf{{{letter}}}")
    for pattern, meaning in TEX.items():
        written = re.sub(pattern, meaning, written)
    return written


def value_html(before, value):
    """A value as the script draws it too: a row in brackets, a matrix as a table."""
    if np.ndim(value) == 0:
        return f'<span class="value">{before}{signed(value)}</span>'
    if np.ndim(value) == 1:
        return f'<span class="value">{before}({signed(value)})</span>'
    rows = "".join(
        "<tr>" + "".join(f"<td>{signed(entry)}</td>" for entry in row) + "</tr>" for row in value
    )
    return f'<span class="value">{before}<table><tbody>{rows}</tbody></table></span>'


def signed(value):
    return show(value).replace("-", "−")


def setup(app):
    app.add_directive("drill", Drill)
    return {"parallel_read_safe": True}
