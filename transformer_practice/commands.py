"""``practice``: write it yourself, and have it examined."""

import json
import re
from argparse import ArgumentTypeError
from dataclasses import replace
from pathlib import Path
from shlex import quote
from textwrap import fill

from transformer_core.commands.train import add_models
from transformer_practice.cases import command as cases
from transformer_practice.drills import command as drills
from transformer_practice.exercises import every_exercise, find_exercise
from transformer_practice.workspace.examined import (
    OPEN,
    RIGHT,
    WRONG,
    examine_chapter,
    examine_file,
    exercises_of,
)
from transformer_practice.workspace.folder import (
    README,
    changes,
    chapters,
    check_workspace,
    file_of,
    lacking,
    last_written,
    start,
    states,
    strays,
)
from transformer_practice.workspace.ledger import FILE as LEDGER
from transformer_practice.workspace.ledger import write_ledger
from transformer_practice.workspace.progress import Progress
from transformer_practice.workspace.substitution import places
from transformer_practice.workspace.training import PACKAGE, PROMPT, YOURS, train_both

PRACTICE = "python -m transformer_practice"
ROUNDING = 1e-3  # by which scores may differ, relative
MOST = 5  # names that a line lists


def add_commands(subcommands):
    """Add every command for practising."""
    add(
        subcommands,
        "start",
        run_start,
        "write one file for each chapter, with signatures and no code",
        "Write one file for each chapter into FOLDER, with the signatures, the shapes and the "
        "numbers of the equations of the functions that you can write, and README.txt with the "
        "first steps. A file that already exists is left unchanged.",
    )
    check = add(
        subcommands,
        "check",
        run_check,
        "examine what you have written",
        "Examine what is written in FOLDER: a line for each exercise, the full report for NAME "
        "or for the only one that is wrong, and what comes next. The exit status is 1 if "
        "anything is wrong.",
    )
    check.add_argument("name", metavar="NAME", nargs="?", help="examine only this exercise")
    how = check.add_mutually_exclusive_group()
    how.add_argument(
        "--watch",
        action="store_true",
        help="keep running, and examine each file whenever it is saved; Ctrl-C ends it",
    )
    add_forms(check, how)
    examine = subcommands.add_parser(
        "examine",
        help="examine any file, for this course or for another one",
        description="Examine the functions of FILE that are exercises of this book, or of another "
        "course: a line for each, and the full report for NAME or for the only one that is wrong. "
        "The exit status is 1 if anything is wrong. Nothing is recorded.",
    )
    examine.add_argument("file", metavar="FILE", type=path, help="a Python file with functions")
    examine.add_argument("name", metavar="NAME", nargs="?", help="examine only this exercise")
    examine.add_argument(
        "--course", metavar="FILE", default="", help="a Python file with a list EXERCISES"
    )
    add_forms(examine, examine)
    examine.set_defaults(run=run_examine)
    hint = add(
        subcommands,
        "hint",
        run_hint,
        "get the next of three hints",
        "Print the next hint for the exercise NAME: there are three, each of which says more than "
        "the one before, and none gives the solution away.",
    )
    hint.add_argument("name", metavar="NAME", nargs="?", help="an exercise (default: the next)")
    add(
        subcommands,
        "ledger",
        run_ledger,
        "write your own ledger of equations",
        f"Write {LEDGER} into FOLDER: for each chapter what you have written, the numbers of the "
        "equations, the errors that were measured, and the mistakes along the way.",
    )
    train = add(
        subcommands,
        "train",
        run_train,
        "train a model with your functions",
        "Train a model of the book with your functions in place of the package's, and once more "
        "without them, and print the scores of both. Functions that are not right are left out. A "
        "GPT then writes with yours.",
    )
    for model in add_models(train):
        model.add_argument(
            "--only",
            nargs="+",
            metavar="NAME",
            help="the exercises to take from FOLDER (default: all that are right)",
        )
        model.add_argument(
            "--out",
            metavar="RUN",
            help="a new folder for both runs, RUN/yours and RUN/package (default: neither is kept)",
        )
    drills.add_parser(subcommands)
    cases.add_parser(subcommands)


def add_forms(parser, group):
    """Add the forms of a report: whole, or as JSON."""
    parser.add_argument("--all", action="store_true", help="print the whole report")
    group.add_argument("--json", action="store_true", help="print the reports as JSON")


def add(subcommands, name, run, summary, description):
    """Add a command that works in a folder."""
    parser = subcommands.add_parser(name, help=summary, description=description)
    parser.add_argument("folder", metavar="FOLDER", type=path, help="your workspace")
    parser.set_defaults(run=run)
    return parser


def path(text):
    """Return a path; an empty one would be the folder in which the command is called."""
    if not text:
        raise ArgumentTypeError("expected a folder, got an empty name")
    return Path(text)


def run_start(options):
    written, left = start(options.folder)
    for name in written:
        print(f"wrote {options.folder / name}")
    if left:
        print(f"left unchanged: {', '.join(left)}")
    for name, lacks in lacking(options.folder):
        print(f"{name} has no {', '.join(lacks)}: start a new folder to see the signatures")
    print(f"first steps: {options.folder / README}")


def run_check(options):
    folder, name = options.folder, options.name
    check_workspace(folder)
    groups = chapters()
    if name is not None:
        exercise = find(name)
        groups = {exercise.chapter: [exercise]}
    before = states(folder)
    wrong = check(options, groups)
    if not options.watch:
        return int(wrong)
    print(f"watching {folder}; Ctrl-C ends it", flush=True)
    try:
        for changed in changes(folder, before):
            some = {chapter: groups[chapter] for chapter in changed if chapter in groups}
            if some:
                print()
                check(options, some)
    except KeyboardInterrupt:
        print("stopped")
    return 0


def find(name, exercises=None):
    """Return the exercise that a reader means: ``linear_backward`` is of ``linear``.

    A name may be written in lower case, ``adam``, where no other exercise has it.
    """
    exercises = exercises or every_exercise()
    name = name.partition(".")[0].removesuffix("_backward")
    alike = [each.name for each in exercises if each.name.lower() == name.lower()]
    return find_exercise(alike[0] if len(alike) == 1 else name, exercises)


def check(options, groups):
    """Examine chapters, print what is found and remember it; return whether anything is wrong."""
    folder = options.folder
    progress, saved = Progress(folder), False
    everything = []
    for chapter, exercises in groups.items():
        examined = []
        for each in examine_chapter(folder, chapter, exercises):
            examined.append(each)
            progress.note(each)
            saved |= progress.save()
        if not (options.name or options.json):
            print("\n".join(lines(file_of(chapter), examined)), flush=True)
        everything += examined
    tell(options, everything, quote(str(folder)))
    if not options.json:
        names = {each.name for each in everything}
        for name, there, home in strays(folder):
            if name in names:
                print(f"{name} in {there} is not examined: it belongs in {home}")
        if saved:
            print(f"noted in {progress.path}")
        print(what_comes_next(folder, progress.right()), flush=True)
    return any(each.state == WRONG for each in everything)


def run_examine(options):
    if not options.file.is_file():
        raise ValueError(f"{options.file}: expected a Python file, found none")
    if options.name is not None:
        options.name = find(options.name, exercises_of(options.course)).name
    names = options.name and {options.name}
    examined = list(examine_file(options.file, options.course, names))
    if not examined:
        raise ValueError(f"{options.file}: expected functions of the course, found none")
    if not (options.name or options.json):
        print("\n".join(lines(options.file.name, examined)))
    tell(options, examined)
    return int(any(each.state == WRONG for each in examined))


def tell(options, examined, folder="FOLDER"):
    """Print the report that is asked for, or on the only one that is wrong; or all, as JSON."""
    if options.json:
        print(json.dumps([each.as_dict() for each in examined], indent=1))
        return
    wrong = [each for each in examined if each.state == WRONG and each.report]
    told = examined if options.name else wrong
    if len(told) == 1:
        start = "" if options.name else "\n"
        print(f"{start}{told_in_full(*told, options.all, folder)}", end="\n\n")


def told_in_full(each, everything, folder):
    """Return the report on an exercise, with the command for a hint as it is to be typed."""
    if not each.report:
        return f"{each.name}: {each.line}"
    next_ = each.report.next.replace(
        "transformer-practice hint FOLDER", f"{PRACTICE} hint {folder}"
    )
    report = replace(each.report, next=next_)
    text = report.whole() if everything else str(report)
    if each.state == OPEN or each.own.absent:  # one function is right, the other is not there
        return f"{each.name}: {each.line.removeprefix(f'{each.name}: ')}\n\n{text}"
    return text


def lines(file, examined):
    """Yield a line for a file, and one for each exercise, or for why it cannot be read.

    Where nothing is written, the first line is all.
    """
    yours = sum(each.state == RIGHT for each in examined)
    first = f"{file}: {yours} of {len(examined)}"
    if not any(each.own.written or each.own.problem for each in examined):
        yield f"{first}, {OPEN}"
        return
    yield first
    problems = {each.own.problem for each in examined}
    if len(problems) == 1 and all(problems):
        yield f"  {problems.pop()}"
        return
    width = max(len(each.name) for each in examined)
    for each in examined:
        yield f"  {each.name:{width}}  {each.line}"


def what_comes_next(folder, right):
    """Count what is right, and name the next that is not."""
    number = sum(map(len, chapters().values()))
    open_ = unfinished(folder, right)
    if not open_:
        return f"All {number} are yours."
    return f"{number - len(open_)} of {number} are yours. Next: {open_[0]}."


def unfinished(folder, right):
    """List what is not right, from the chapter on that was written last."""
    groups = chapters()
    order = list(groups)
    at = order.index(last_written(folder))
    names = [each.name for c in order[at:] + order[:at] for each in groups[c]]
    return [name for name in names if name not in right]


def run_hint(options):
    exercise = None if options.name is None else find(options.name)
    check_workspace(options.folder)
    progress = Progress(options.folder)
    if not exercise:
        names = unfinished(options.folder, progress.right())
        if not names:
            print(what_comes_next(options.folder, progress.right()))
            return
        exercise = find(names[0])
    print(progress.hint(exercise))
    if progress.save():
        print(f"noted in {progress.path}")


def run_ledger(options):
    folder = options.folder
    check_workspace(folder)
    progress = write_ledger(folder)
    print(f"wrote {folder / LEDGER}")
    print(what_comes_next(folder, progress.right()))


def run_train(options):
    folder = options.folder
    check_workspace(folder)
    groups = chapters()
    if options.only:
        exercises = [find(name) for name in options.only]
        groups = {
            chapter: [each for each in group if each in exercises]
            for chapter, group in groups.items()
        }
    examined = [
        each
        for chapter, exercises in groups.items()
        for each in examine_chapter(folder, chapter, exercises)
    ]
    exercises = taken(examined, bool(options.only))
    names = [exercise.name for exercise in exercises]
    print(fill(f"yours: {', '.join(names)}"), flush=True)
    scores = train_both(options.recipe, options.given(options), folder, exercises, options.out)
    print("\n".join(table(scores.yours, scores.package)))
    if scores.yours != scores.package:
        print(fill(difference(scores)))
    others = [each.name for each in every_exercise() if each.name in scores.used.package]
    if others:
        print(fill(f"the package's: {', '.join(others)}"))
    idle = [name for name in names if name not in scores.used.called]
    if idle:
        more = "" if len(idle) <= MOST else f" and {len(idle) - MOST} more"
        shown = f"{', '.join(idle[:MOST])}{more}"
        print(fill(f"not called by this model's ops and layers, which may not need it: {shown}"))
    if scores.used.float64:
        print(
            fill(
                f"given float32 and returned float64: {', '.join(sorted(scores.used.float64))}. "
                "It was cast back. Common causes are a NumPy scalar, such as np.sqrt(3), where "
                "math.sqrt(3) would do, and an array made without a dtype."
            )
        )
    if scores.text:
        print(f"\nwritten with your functions:\n{PROMPT.rstrip()}{scores.text}\n")
    if options.out:
        print(f"saved in {options.out}/{YOURS} and {options.out}/{PACKAGE}")


def taken(examined, asked_for):
    """Return what takes part in a training; say why other functions that are written do not."""
    exercises = []
    for each in examined:
        reason = "" if each.state == RIGHT else each.line
        if not places(each.own.exercise):
            reason = "the package has no such part"
        if not reason:
            exercises.append(each.own.exercise)
        elif asked_for:
            raise ValueError(f"{each.name}: expected a function to train with: {reason}")
        elif each.own.written or each.own.problem:
            print(f"left out: {each.name}: {reason}")
    if not exercises:
        raise ValueError("expected a function that is right, found none")
    return exercises


def difference(scores):
    """Say how far apart two sets of scores are that are not the same."""
    pairs = [
        [number_in(score) for score in row]
        for row in zip(scores.yours.values(), scores.package.values(), strict=True)
    ]
    apart = max(abs(one - other) / max(abs(one), abs(other), 1e-30) for one, other in pairs)
    if apart < ROUNDING:
        return "The last digits may differ by rounding."
    return (
        f"The scores differ by up to {apart:.1%}. Rounding explains that only in long training "
        "runs. Does one of your functions behave differently here than when it was examined?"
    )


def number_in(score):
    """Return the number with which a score begins: of "3.61 %" and "0.03071"."""
    return float(re.match(r"[-+.\de]+", score)[0])


def table(yours, package):
    """Yield the scores of both trainings, side by side."""
    heads = "yours", "the package's"
    first = max(map(len, yours))
    widths = [
        max(map(len, [head, *scores.values()]))
        for head, scores in zip(heads, (yours, package), strict=True)
    ]
    rows = [("", *heads), *((name, yours[name], package[name]) for name in yours)]
    for name, *cells in rows:
        shown = (f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        yield f"{name:{first}}  {'  '.join(shown)}"
