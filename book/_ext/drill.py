"""Tasks for a pencil on a page: the directive ``{drill} layer_norm``."""

import json
from html import escape
from pathlib import Path

import numpy as np
from docutils import nodes
from figures import Figure

from transformer_practice.drills import draw
from transformer_practice.drills.exact import form, show

TASKS = 12  # with fields; another one, with the seed 0, is worked
FOLDER = "transformer_practice/drills"


class Drill(Figure):
    """A worked task in a fold, and fields for more: ``{drill} layer_norm``."""

    required_arguments = 1
    has_content = False

    def run(self):
        (name,) = self.arguments
        for path in (Path(self.env.srcdir) / FOLDER).glob("*.*"):
            self.env.note_dependency(str(path))
        self.load("drill.js")
        return [nodes.raw("", drill_html(name), format="html")]


def drill_html(name):
    """The worked task, and the data of the others for ``drill.js``."""
    task = draw(name, 0)
    steps = "".join(
        f"<li><p>{escape(step.prompt)}</p>{value_html('', step.answer)}"
        f'<p class="rule">{escape(step.rule)}</p></li>'
        for step in task.steps
    )
    data = json.dumps(data_of(name), ensure_ascii=False, separators=(",", ":"))
    data = data.replace("<", r"\u003c")
    return (
        f'<div class="drill" id="drill-{name}">'
        f"<details><summary>A worked task: {escape(task.title)}</summary>"
        f"<p>{escape(task.question)}</p>{given_html(task)}<ol>{steps}</ol></details>"
        f'<script type="application/json">{data}</script></div>'
    )


def data_of(name):
    """The tasks of a drill: what they share, and the numbers of each."""
    tasks = [draw(name, seed) for seed in range(1, TASKS + 1)]
    first = tasks[0]
    return {
        "title": first.title,
        "question": first.question,
        "symbols": list(first.given),
        "steps": [
            {
                "prompt": step.prompt,
                "form": form(step.answer),
                "rule": step.rule,
                "mistakes": list(step.slips),
            }
            for step in first.steps
        ],
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


def given_html(task):
    values = "".join(value_html(f"{symbol} = ", v) for symbol, v in task.given.items())
    return f'<div class="given">{values}</div>'


def value_html(before, value):
    """A value as the script draws it too: a row in brackets, a matrix as a table."""
    if np.ndim(value) == 0:
        return f'<span class="value">{escape(before)}{signed(value)}</span>'
    if np.ndim(value) == 1:
        return f'<span class="value">{escape(before)}({signed(value)})</span>'
    rows = "".join(
        "<tr>" + "".join(f"<td>{signed(entry)}</td>" for entry in row) + "</tr>" for row in value
    )
    return f'<span class="value">{escape(before)}<table><tbody>{rows}</tbody></table></span>'


def signed(value):
    return show(value).replace("-", "−")


def setup(app):
    app.add_directive("drill", Drill)
    return {"parallel_read_safe": True}
