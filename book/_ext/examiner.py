"""What the examiner says of answers whose mistakes are known.

``python book/_ext/examiner.py`` examines them all and stores what is found, where what is stored
does not hold.
"""

import json
import os
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from statistics import median

from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from stored import RECORDED, computed_with, everything_anew, read_json, sentence, write_json

ROOT = Path(__file__).resolve().parents[2]
logger = logging.getLogger(__name__)
STORE = "book/examiner.json"
PAGES = "transformer_practice/pages.json"
SCRIPT = "tests/practice/confusion.py"


def setup(app):
    app.add_directive("confusion", Confusion)
    app.connect("builder-inited", take_the_findings)
    app.connect("env-get-outdated", lambda *_: ["book/examiner"])
    app.connect("env-check-consistency", number_pages)
    return {"parallel_read_safe": True}


def take_the_findings(app):
    app.env.examined = read_json(Path(app.srcdir) / STORE)


def number_pages(app, env):
    """Store the numbers that reports give of pages and equations, if these are others."""
    equations = sorted((*at, label) for label, at in env.get_domain("math").equations.items())
    pages = {}
    for name in sorted(env.toc_secnumbers):
        number = env.toc_secnumbers[name].get("")
        if number and name.startswith("book/"):
            labels = [label for page, _, label in equations if page == name]
            title = env.titles[name].astext()
            pages[Path(name).name] = {"number": number[0], "title": title, "equations": labels}
    if pages != read_json(ROOT / PAGES):
        write_json(ROOT / PAGES, pages)
        logger.warning("%s had other numbers of pages and equations: commit it", PAGES)


def main():
    """Examine every answer and store what is found; an answer that is stored keeps its time."""
    command = [sys.executable, str(ROOT / SCRIPT)]
    output = subprocess.run(command, cwd=ROOT, env=os.environ | RECORDED, check=True, stdout=-1)
    findings = json.loads(output.stdout)
    stored = {} if everything_anew() else read_json(ROOT / STORE).get("findings", {})
    seconds = {answer(each): each["seconds"] for found in stored.values() for each in found}
    for each in (each for found in findings.values() for each in found):
        each["seconds"] = seconds.get(answer(each), each["seconds"])
    if findings != stored:
        executed = computed_with("numpy", "scipy")
        write_json(ROOT / STORE, {"executed": executed, "findings": findings})


def answer(finding):
    return finding["exercise"], finding["version"], finding["label"]


class Confusion(SphinxDirective):
    """What was found: ``{confusion} blind``, ``totals``, ``planted``, ``unknown`` or ``times``."""

    required_arguments = 1

    def run(self):
        (part,) = self.arguments
        parts = {each.__name__: each for each in (blind, totals, planted, unknown, times)}
        if part not in parts:
            raise self.error(f"expected one of {', '.join(parts)}, got {part}")
        examined = self.env.examined
        text = parts[part](examined["findings"])
        if part == "totals":
            text += f"\n\n{sentence('Figures', examined['executed'])}"
        return self.parse_text_to_nodes(text)


def blind(findings):
    """How the reports on nine sets of unseen answers were graded."""
    folder = ROOT / "tests/practice"
    sets = {
        f"{number.capitalize()} set": read_toml(folder / f"unseen_{number}.toml")["answer"]
        for number in ("ninth", "eighth", "seventh", "sixth", "fifth", "fourth", "third")
    }
    parts = [read_toml(path)["answer"] for path in sorted(folder.glob("unseen/*.toml"))]
    sets["First set"] = sum(parts, [])
    second = read_toml(folder / "unseen_second.toml")["exercise"]
    answers = [answer for each in sets.values() for answer in each]
    right = len(second) + sum(answer["kind"] == "right" for answer in answers)
    rows = [graded(title, found) for title, found in sets.items()]
    rows.insert(1, graded("of these, two mistakes", [a for a in sets["Ninth set"] if "two" in a]))
    rows.append(graded("Second set", [each for exercise in second for each in exercise["wrong"]]))
    return "\n".join(
        [
            "| | Wrong answers | Named | Helped | Silent | Misled | Called right |",
            "|---|--:|--:|--:|--:|--:|--:|",
            *rows,
            f"\nAll {right} right answers are called right.",
        ]
    )


def read_toml(path):
    return tomllib.loads(path.read_text(encoding="utf-8"))


def graded(title, answers):
    """A row of the table: how many reports had each grade."""
    grades = [answer["grade"] for answer in answers if "grade" in answer]
    number = Counter(grades)
    cells = [
        f"{number[grade]} ({100 * number[grade] / len(grades):.0f}\N{NO-BREAK SPACE}%)"
        for grade in ("named", "helped", "silent", "misled", "called right")
    ]
    return f"| {title} | {len(grades)} | {' | '.join(cells)} |"


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
    told = [f for f in unnamed if "matches no mistake" not in f["said"]]
    others = [f for f in unseen if f["mistakes"] and not is_first(f)]
    return f"""\
- **{len(passed)} of {len(right)} right answers**, to {len(exercises)} exercises, are called right.
- **{len(new)} of {len(unseen)} answers with a mistake of the catalogue in a form that it lacks**,
  {share(new, unseen)}, have it named first, and {len(others) or "none"} another. Nothing was
  changed after these were written.
- **{len(unnamed)} of {len(unknown)} answers with a mistake that the catalogue lacks** are called
  wrong and given no name. For {len(told)} of them the report says what the error looks like.
- **{len(first)} of {len(planted)} answers with a mistake of the catalogue in a form that it has**,
  {share(first, planted)}, have it named first. {len(labels)} mistakes are planted. In {len(tied)}
  of these answers other mistakes give the same numbers, and are named too."""


def is_first(found):
    return found["mistakes"][:1] == [found["label"]]


def share(part, whole):
    return f"{100 * len(part) / len(whole):.3g} %"


def planted(findings):
    """For each group how many planted mistakes are named first, and what was said of the others."""
    groups = {}
    for found in findings["planted"]:
        groups.setdefault(found["group"], []).append(found)
    lines = ["| Group | Mistakes | Answers | Named first | The others |", "|---|--:|--:|--:|---|"]
    for group, found in groups.items():
        others = [f for f in found if not is_first(f)]
        said = "; ".join(f"`{f['label']}`: {diagnosis(f)}" for f in others)
        mistakes = len({f["label"] for f in found})
        lines.append(
            f"| {group} | {mistakes} | {len(found)} | {len(found) - len(others)} | {said or '–'} |"
        )
    return "\n".join(lines)


def diagnosis(found):
    """What is said of a mistake that is not named first."""
    if found["mistakes"]:
        return f"called `{found['mistakes'][0]}`"
    return "called right" if found["right"] else "wrong, without a name"


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
    lines = ["| Exercise | Answers | Median | Longest |", "|---|--:|--:|--:|"]
    for exercise, taken in seconds.items():
        middle, longest = (round(1000 * t) for t in (median(taken), max(taken)))
        lines.append(f"| `{exercise}` | {len(taken)} | {middle} | {longest} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
