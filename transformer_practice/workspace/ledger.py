"""The reader's own ledger of equations: one HTML page that needs no other file."""

from collections.abc import Sequence
from datetime import date
from html import escape
from pathlib import Path

from transformer_core.foundation.files import write_atomically
from transformer_practice.engine.exercise import names_of
from transformer_practice.engine.pages import numbered, title_of
from transformer_practice.engine.report import html_table
from transformer_practice.mistakes import MUTANTS
from transformer_practice.workspace.examined import OPEN, RIGHT, Examined, examine_chapter
from transformer_practice.workspace.folder import chapters
from transformer_practice.workspace.progress import AND, Progress

FILE = "ledger.html"
STYLE = """
:root { color-scheme: light dark; --line: #8886; --good: #1a7f37; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --good: #57c46f; --bad: #ff8a80; } }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto;
  padding: 0 1rem; }
h2 { margin: 2rem 0 0; font-size: 1.15rem; border-bottom: 1px solid var(--line); }
h2 small, .when, .open { font-weight: normal; opacity: .75; }
section { break-inside: avoid; margin: 1rem 0; }
h3 { font-size: 1rem; margin: 0; }
p, ol { margin: .2rem 0; }
table { border-collapse: collapse; font-size: .85rem; margin: .3rem 0; display: block;
  overflow-x: auto; }
th, td { padding: .1rem .6rem; text-align: right; border-bottom: 1px solid var(--line);
  font-variant-numeric: tabular-nums; font-weight: normal; }
th:first-child { text-align: left; }
progress { width: 100%; }
.right { color: var(--good); } .wrong { color: var(--bad); }
@media print { body { margin: 0; max-width: none; font-size: 10pt; } progress { display: none; }
  table { display: table; } }
"""


def write_ledger(folder: Path) -> Progress:
    """Examine everything in a folder, write the ledger there, and remember what was found."""
    progress = Progress(folder)
    groups: dict[str, Sequence[Examined]] = {
        chapter: list(examine_chapter(folder, chapter, exercises))
        for chapter, exercises in chapters().items()
    }
    for group in groups.values():
        for each in group:
            progress.note(each)
    progress.save()
    write_atomically(folder / FILE, ledger(groups, progress).encode())
    return progress


def ledger(groups: dict[str, Sequence[Examined]], progress: Progress) -> str:
    """Return the page: by chapter what is written, its errors, and the mistakes on the way.

    Parameters
    ----------
    groups : dict of str to sequence of Examined
        What was examined of each chapter.
    progress : Progress
    """
    everything = [examined for group in groups.values() for examined in group]
    body = [
        "<h1>My ledger of equations</h1>",
        f'<p class="when">{date.today().isoformat()}</p>',
        f"<p>{tally(everything)}</p>",
        bar(everything),
    ]
    for chapter, group in groups.items():
        title = escape(title_of(chapter))
        body.append(f"<h2>{title[0].upper()}{title[1:]} <small>{tally(group)}</small></h2>")
        begun = [e for e in group if e.state != OPEN or e.name in progress.entries]
        body += [section(examined, progress.of(examined.name)) for examined in begun]
        left = ", ".join(examined.name for examined in group if examined not in begun)
        if left:
            body.append(f'<p class="open">Not written yet: {left}.</p>')
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>My ledger of equations</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def section(examined, entry):
    """Return what there is to say of one exercise."""
    exercise = examined.own.exercise
    kind = {RIGHT: "right", OPEN: "open"}.get(examined.state, "wrong")
    equations = "; ".join(
        f"{name}: {numbered(about.equation)}"
        for name, about in zip(names_of(exercise), exercise.functions, strict=True)
    )
    parts = [
        f'<h3>{escape(exercise.name)} <span class="{kind}">{escape(examined.line)}</span></h3>',
        f"<p><code>{escape(equations)}</code></p>",
    ]
    if entry["right"]:
        parts.append(f'<p class="when">Right for the first time on {escape(entry["right"])}.</p>')
    if examined.report and examined.report.errors:
        parts.append(html_table(examined.report.errors))
    if examined.report and examined.report.right:
        parts += [f"<p>{escape(note)}</p>" for note in examined.report.notes]
    if entry["mistakes"]:
        parts.append("<p>Along the way:</p>")
        items = (f"<li>{escape(day)}: {sentence_for(said)}</li>" for day, said in entry["mistakes"])
        parts.append(f"<ol>{''.join(items)}</ol>")
    if entry["hints"]:
        parts.append(f"<p>Hints: {entry['hints']} of {len(exercise.hints)}.</p>")
    return f"<section>{''.join(parts)}</section>"


def sentence_for(said):
    """Say mistakes of the catalogue in a sentence each, and anything else as it was said."""
    known = [MUTANTS[name] for name in said.split(AND) if name in MUTANTS]
    if not known:
        return escape(said)
    several = "one of these, or several: " if len(known) > 1 else ""
    sentences = "; ".join(f"{each.mistake} ({each.name})" for each in known)
    return escape(several + sentences)


def tally(group):
    return f"{sum(each.state == RIGHT for each in group)} of {len(group)} are yours"


def bar(group):
    yours = sum(each.state == RIGHT for each in group)
    return f'<progress value="{yours}" max="{len(group)}">{tally(group)}</progress>'
