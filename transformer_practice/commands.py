"""``practice``: write it yourself, and have it examined."""

import re
from argparse import ArgumentTypeError
from dataclasses import replace
from pathlib import Path
from shlex import quote
from textwrap import fill

from transformer_core.commands.train import add_models
from transformer_core.foundation.files import write_atomically
from transformer_practice.cases import command as cases
from transformer_practice.drills import command as drills
from transformer_practice.exercises import find_exercise
from transformer_practice.workspace.examined import OPEN, RIGHT, WRONG, examine_file
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
from transformer_practice.workspace.ledger import ledger
from transformer_practice.workspace.progress import Progress
from transformer_practice.workspace.substitution import places
from transformer_practice.workspace.training import PACKAGE, YOURS, train_both

PRACTICE = "python -m transformer_practice"
ROUNDING = 1e-3  # by which scores may differ, relative
MOST = 5  # names that a line lists


def add_commands(subcommands):
    """Add every way to practise."""
    add(
        subcommands,
        "start",
        run_start,
        "write one file a chapter, with signatures and no code",
        "Write one file for each chapter into FOLDER, with the signatures, the shapes and the "
        "labels of the equations of what you can write, and README.txt with the first steps. A "
        "file that is there stays as it is.",
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
    check.add_argument("name", metavar="NAME", nargs="?", help="one exercise alone")
    check.add_argument(
        "--watch",
        action="store_true",
        help="go on, and examine a file whenever it is saved; Ctrl-C ends it",
    )
    hint = add(
        subcommands,
        "hint",
        run_hint,
        "get the next of three hints",
        "Print the next hint for the exercise NAME: there are three, each says more than the one "
        "before, and none is the solution.",
    )
    hint.add_argument("name", metavar="NAME", nargs="?", help="an exercise (default: the next)")
    add(
        subcommands,
        "ledger",
        run_ledger,
        "write your own ledger of equations",
        f"Write {LEDGER} into FOLDER: by chapter what you have written, the label of its "
        "equation, its errors, and the mistakes on the way.",
    )
    train = add(
        subcommands,
        "train",
        run_train,
        "train a model with your functions",
        "Train a model of the book with your functions in the place of the package's, and once "
        "more without them, and print the scores of both. What is not right takes no part.",
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
            help="a new folder for both runs, RUN/yours and RUN/package (default: they are not "
            "kept)",
        )
    drills.add_parser(subcommands)
    cases.add_parser(subcommands)


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
        print(f"left as they are: {', '.join(left)}")
    for name, lacks in lacking(options.folder):
        print(f"{name} has no {', '.join(lacks)}: start a new folder to see its signature")
    print(f"first steps: {options.folder / README}")


def run_check(options):
    folder, name = options.folder, options.name
    check_workspace(folder)
    groups = chapters()
    if name is not None:
        exercise = find(name)
        groups = {exercise.chapter: [exercise]}
    before = states(folder)
    wrong = check(folder, groups, name is not None)
    if not options.watch:
        return int(wrong)
    print(f"watching {folder}, Ctrl-C ends it", flush=True)
    try:
        for changed in changes(folder, before):
            some = {chapter: groups[chapter] for chapter in changed if chapter in groups}
            if some:
                print()
                check(folder, some, name is not None)
    except KeyboardInterrupt:
        print("stopped")
    return 0


def find(name):
    """Return the exercise that a reader means: ``linear_backward`` is of ``linear``.

    A name may be written in lower case, ``adam``, where no other exercise has it.
    """
    name = name.partition(".")[0].removesuffix("_backward")
    names = [each.name for group in chapters().values() for each in group]
    alike = [each for each in names if each.lower() == name.lower()]
    return find_exercise(alike[0] if len(alike) == 1 else name)


def check(folder, groups, alone):
    """Examine chapters, print what is found and remember it; return whether anything is wrong.

    ``alone``: it is one exercise, and its whole report is printed.
    """
    progress, saved = Progress(folder), False
    everything = []
    for chapter, exercises in groups.items():
        examined = []
        for each in examine_chapter(folder, chapter, exercises):
            examined.append(each)
            progress.note(each)
            saved |= progress.save()
        if not alone:
            print("\n".join(lines(chapter, examined)), flush=True)
        everything += examined
    wrong = [each for each in everything if each.state == WRONG]
    told = everything if alone else [each for each in wrong if each.report]
    if len(told) == 1:
        (each,) = told
        if not alone:
            print()
        print(told_in_full(folder, each), end="\n\n")
    names = {each.name for each in everything}
    for name, there, home in strays(folder):
        if name in names:
            print(f"{name} in {there} is not examined: it belongs in {home}")
    if saved:
        print(f"remembered in {progress.path}")
    print(what_comes_next(folder, progress.right()), flush=True)
    return bool(wrong)


def told_in_full(folder, each):
    """Return the report on an exercise, with the command for a hint as it is to be typed."""
    if not each.report:
        return f"{each.name}: {each.line}"
    next_ = each.report.next.replace(
        "transformer-practice hint FOLDER", f"{PRACTICE} hint {quote(str(folder))}"
    )
    report = replace(each.report, next=next_)
    if each.state == OPEN or each.own.absent:  # one function is right, the other is not there
        return f"{each.name}: {each.line.removeprefix(f'{each.name}: ')}\n\n{report}"
    return str(report)


def examine_chapter(folder, chapter, exercises):
    """Examine what the file of a chapter has of some exercises."""
    return examine_file(folder, chapter, {exercise.name for exercise in exercises})


def lines(chapter, examined):
    """Yield a line for the file, and one for each exercise, or for why it cannot be read.

    Where nothing is written, the first line is all.
    """
    yours = sum(each.state == RIGHT for each in examined)
    first = f"{file_of(chapter)}: {yours} of {len(examined)}"
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
    entry = progress.of(exercise.name)
    given, hints = entry["hints"], exercise.hints
    if given >= len(hints):
        equations = ", ".join(about.equation for about in exercise.functions)
        print(
            f"{exercise.name}: there are no more hints. Read on in the chapter "
            f"{exercise.chapter}: {equations}"
        )
        return
    print(fill(f"{exercise.name}, hint {given + 1} of {len(hints)}: {hints[given]}"))
    entry["hints"] = given + 1
    progress.save()
    print(f"remembered in {progress.path}")


def run_ledger(options):
    folder = options.folder
    check_workspace(folder)
    progress = Progress(folder)
    examined = {
        chapter: list(examine_chapter(folder, chapter, exercises))
        for chapter, exercises in chapters().items()
    }
    for group in examined.values():
        for each in group:
            progress.note(each)
    progress.save()
    write_atomically(folder / LEDGER, ledger(examined, progress).encode())
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
    idle = [name for name in names if name not in scores.used.called]
    if idle:
        more = "" if len(idle) <= MOST else f" and {len(idle) - MOST} more"
        shown = f"{', '.join(idle[:MOST])}{more}"
        print(fill(f"not called by this model's ops and layers, which may not need it: {shown}"))
    if scores.used.float64:
        print(
            fill(
                f"given float32 and returned float64: {', '.join(sorted(scores.used.float64))}. "
                "It was cast back. A cause may be a number of NumPy, such as np.sqrt(3), where "
                "math.sqrt(3) would do, or an array made without a dtype."
            )
        )
    if options.out:
        print(f"saved in {options.out}/{YOURS} and {options.out}/{PACKAGE}")


def taken(examined, asked_for):
    """Return what takes part in a training, and say of what is written and does not why."""
    exercises = []
    for each in examined:
        reason = "" if each.state == RIGHT else each.line
        if not places(each.own.exercise):
            reason = "the package has no such part"
        if not reason:
            exercises.append(each.own.exercise)
        elif asked_for:
            raise ValueError(f"{each.name}: expected what can be trained with: {reason}")
        elif each.own.written or each.own.problem:
            print(f"left out: {each.name}: {reason}")
    if not exercises:
        raise ValueError("expected a function that is right, found none")
    return exercises


def difference(scores):
    """Say of scores that are not the same how far apart they are."""
    pairs = [
        [number_in(score) for score in row]
        for row in zip(scores.yours.values(), scores.package.values(), strict=True)
    ]
    apart = max(abs(one - other) / max(abs(one), abs(other), 1e-30) for one, other in pairs)
    if apart < ROUNDING:
        return "The last digits may differ by rounding."
    return (
        f"The scores differ by up to {apart:.1%}. Rounding alone comes to that in long trainings "
        "only. Does something of yours act otherwise here than where it was examined?"
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
