"""What the examiner says of answers whose mistakes are known: its confusion matrix.

``python book/_ext/examiner.py`` examines them all and stores what is found, where what is stored
does not hold.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from statistics import median

from sphinx.errors import ExtensionError
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from stamps import (
    RECORDED,
    changes,
    executed_now,
    kept,
    sentence,
    stamp,
)

ROOT = Path(__file__).resolve().parents[2]
STORE = "book/examiner.json"
SCRIPT = "tests/practice/confusion.py"
EXERCISES = "transformer_core/practice/exercises/*.py"  # which are imported by name
ROOMS = ("tests/", "transformer_core/practice/") + tuple(
    f"transformer_core/{room}" for room in ("foundation/", "ops/", "layers/", "optim/")
)
LOGGER = logging.getLogger(__name__)


def setup(app):
    app.add_directive("confusion", Confusion)
    app.connect("builder-inited", take_the_findings)
    app.connect("env-get-outdated", lambda *_: ["book/examiner"])
    return {"parallel_read_safe": True}


def take_the_findings(app):
    """Take what was found as it is stored, or find it anew where that does not hold."""
    root = Path(app.srcdir)
    stored = read_store(root)
    why = reason(root, stored)
    if why:
        make = partial(find, root, why, LOGGER.info)
        stored = json.loads(kept(root, "examiner.json", stamp_of(root), make))
    app.env.examined = stored | {"stored": not why}


def read_store(root):
    path = root / STORE
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def reason(root, stored):
    """Say why what is stored cannot be taken; empty, if it can."""
    return changes(stored and stored["executed"], stamp_of(root))


def stamp_of(root):
    """The stamp of the answers, of the examiner and of the rooms that the mistakes are made in."""
    whole = stamp(root, root / SCRIPT, *sorted(root.glob(EXERCISES)))
    files = {n: code for n, code in whole["files"].items() if n.startswith(ROOMS)}
    packages = {n: v for n, v in whole["packages"].items() if n in ("numpy", "scipy")}
    return {"files": files, "packages": packages}


def find(root, why, say):
    """Examine every answer.

    Parameters
    ----------
    root : Path
        The repository.
    why : str
        The reason, for the line that is said.
    say : callable
        What says it, ``print`` for example.

    Returns
    -------
    str
        JSON with ``findings``: kind of answer to a list of them, and ``executed``: what they were
        found with.

    Raises
    ------
    ExtensionError
        If an answer cannot be examined.
    """
    say(f"examiner: tried, since {why}")
    executed = executed_now(stamp_of(root))
    command = [sys.executable, str(root / SCRIPT)]
    environment = os.environ | RECORDED
    result = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True
    )
    if result.returncode:
        raise ExtensionError(f"examiner: an answer fails\n{result.stderr}")
    return json.dumps({"executed": executed, "findings": json.loads(result.stdout)})


def main():
    """Examine every answer and store what is found, where what is stored does not hold."""
    why = reason(ROOT, read_store(ROOT))
    if why:
        found = json.loads(find(ROOT, why, print))
        text = json.dumps(found, indent=1, sort_keys=True) + "\n"
        (ROOT / STORE).write_text(text, encoding="utf-8", newline="\n")


class Confusion(SphinxDirective):
    """What was found: ``{confusion} totals``, ``matrix``, ``unknown`` or ``times``."""

    required_arguments = 1

    def run(self):
        (part,) = self.arguments
        parts = {
            "totals": totals,
            "matrix": matrix,
            "unknown": unknown,
            "times": times,
        }
        if part not in parts:
            raise self.error(f"expected one of {', '.join(parts)}, got {part}")
        examined = self.env.examined
        text = parts[part](examined["findings"])
        if part == "totals":
            made = sentence("Figures", examined["executed"], examined["stored"])
            text += f"\n\n{made}"
        return self.parse_text_to_nodes(text)


def totals(findings):
    """The figures of the whole, as a list."""
    kinds = "right", "planted", "unknown", "unseen"
    right, planted, unknown, unseen = (findings[kind] for kind in kinds)
    passed = [f for f in right if f["right"]]
    exercises = {f["exercise"] for f in right}
    first, new = ([f for f in found if is_first(f)] for found in (planted, unseen))
    labels = {f["label"] for f in planted}
    tied = [f for f in first if len(f["mistakes"]) > 1]
    unnamed = [f for f in unknown if not f["right"] and not f["mistakes"]]
    told = [f for f in unnamed if "not like any mistake" not in f["said"]]
    others = [f for f in unseen if f["mistakes"] and not is_first(f)]
    return f"""\
- **{len(passed)} of {len(right)} right answers**, to {len(exercises)} exercises, are called right.
- **{len(first)} of {len(planted)} answers with a planted mistake**, {share(first, planted)}, have
  it named first. {len(labels)} mistakes of the catalogue are planted. In {len(tied)} of these
  answers other mistakes come to the same, and are named too.
- **{len(unnamed)} of {len(unknown)} answers with a mistake that the catalogue does not hold** are
  called wrong and given no name. Of {len(told)} the examiner still says what the error is like.
- **{len(new)} of {len(unseen)} answers with a mistake in a form that it was not taught**,
  {share(new, unseen)}, have it named first, and {len(others) or "none"} another. Nothing was mended
  after these were written."""


def is_first(found):
    return found["mistakes"][:1] == [found["label"]]


def share(part, whole):
    return f"{100 * len(part) / len(whole):.3g} %"


def matrix(findings):
    """For each group a matrix: a mistake a row, a diagnosis a column."""
    groups = {}
    for found in findings["planted"]:
        groups.setdefault(found["group"], []).append(found)
    return "\n\n".join(
        f"**{group}**\n\n{matrix_of(found)}" for group, found in groups.items()
    )


def matrix_of(found):
    labels = list(dict.fromkeys(f["label"] for f in found))
    counts = Counter((f["label"], diagnosis(f, labels)) for f in found)
    seen = {column for _, column in counts}
    columns = [*labels, *(c for c in ("another", "none", "right") if c in seen)]
    heads = [labels.index(c) + 1 if c in labels else c for c in columns]
    lines = [
        f"| | Planted | {' | '.join(map(str, heads))} |",
        f"|--:|---|{'--:|' * len(columns)}",
    ]
    for number, label in enumerate(labels, start=1):
        cells = (str(counts[label, column] or "·") for column in columns)
        lines.append(f"| {number} | `{label}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def diagnosis(found, labels):
    """The column of a finding: the mistake that is named first."""
    if not found["mistakes"]:
        return "right" if found["right"] else "none"
    first, *_ = found["mistakes"]
    return first if first in labels else "another"


def unknown(findings):
    """What is said of mistakes that the catalogue does not hold."""
    lines = ["| Exercise | What is wrong | What the examiner says |", "|---|---|---|"]
    for found in findings["unknown"]:
        said = found["said"].replace("|", "\\|").replace("*", "\\*").replace("_", "\\_")
        name = ", ".join(f"`{name}`" for name in found["mistakes"])
        lines.append(f"| `{found['exercise']}` | {found['label']} | {name or said} |")
    return "\n".join(lines)


def times(findings):
    """How long an examination takes."""
    seconds = {}
    for found in (f for kind in findings.values() for f in kind):
        seconds.setdefault(found["exercise"], []).append(found["seconds"])
    lines = [
        "| Exercise | Answers | Median | Longest |",
        "|---|--:|--:|--:|",
    ]
    for exercise, taken in seconds.items():
        middle, longest = (round(1000 * t) for t in (median(taken), max(taken)))
        lines.append(f"| `{exercise}` | {len(taken)} | {middle} | {longest} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
