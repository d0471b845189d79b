"""Small changes of a reader's own functions, which may put them right."""

import ast
import inspect
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO
from itertools import chain, islice, starmap
from time import monotonic, process_time
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from transformer_practice.engine.insertions import insertions
from transformer_practice.engine.mutation import Mutation, Tracer, both, edits, mutated, tree_of
from transformer_practice.engine.points import Point
from transformer_practice.engine.running import NotWritten
from transformer_practice.engine.runs import Run, names_alike, passes_agree, runs_agree, with_fields

CHANGES = 4000  # that are tried at most
PAGE = sys.platform == "emscripten"  # without threads: what does not end ends the whole page
ENOUGH = 2.0 if PAGE else 4.0  # seconds of its processor after which no more are tried
SLOWER, SHORTEST = 20, 0.05  # how long each may take: so many times as long, and so many seconds
NEAR = 1e-6  # by which an output is no more wrong than before
LARGE = 10_000  # whole numbers above it take for ever as exponents, and all memory as sizes
FIT = 40  # pairs that are tried of those whose effects add up
FEW = 3  # changes that mend some of the points, with which another one is sought
LIKELY = 12  # changes that are tried with any other
ALIKE = 2  # changes that come to the same and are tried in pairs: one may change the same place
ENTRIES, SAME = 6, 1e-7  # by which it is seen whether effects add up, and how nearly
# what is said of changes: of another order, of it or of what is left out, of what no reader means
MOVED = re.compile("` came (before|after) `")
OMITTED_OR_MOVED = re.compile(f"{MOVED.pattern}| were left out")
UNLIKELY = re.compile(
    r"`(\w+) \+ \w+` replaced `\1`|`np.where\(([^,]+), ([^,]+), .*` replaced `np.where\(\3, \2"
)
# names of what reaches beyond the process
ASIDE = {
    *"open input exit os sys subprocess socket shutil Path save savez savetxt tofile memmap".split()
}


class Search:
    """The search for small changes with which a reader's pass is right.

    Parameters
    ----------
    answer : Answer
    stage : str
    points : sequence of Point
        The first is one at which the pass is wrong.
    right : sequence of Run
        What it should come to at each of them.
    apart : sequence of str
        Wrong outputs for which a change of their own is sought, too.
    first : Mutation, optional
        A change that is made already.
    """

    def __init__(
        self,
        answer: Any,
        stage: str,
        points: Sequence[Point],
        right: Sequence[Run],
        apart: Sequence[str] = (),
        first: Mutation | None = None,
    ):
        self.answer, self.stage, self.points, self.right = answer, stage, list(points), list(right)
        self.apart, self.first = apart, first
        start = monotonic()
        self.tracer = Tracer(str(inspect.unwrap(getattr(answer, stage)).__module__))
        run = getattr(answer.runs_at(points[:1], self.tracer), stage)[0]
        self.seconds = max(SHORTEST, SLOWER * (monotonic() - start))
        self.wrong, self.own = wrongness(run, self.right[0]), numbers_of(run, self.right[0])
        before = answer.runs_at(points)
        self.well = list(map(runs_agree, getattr(before, stage), self.right))
        names = [point.name for point in points] if stage == "backward" else []
        self.before = dict(zip(names, before.forward, strict=False))
        self.keys: Counter[bytes] = Counter()

    def single(self, most: int, until: float = 0.0) -> dict[str, list[Mutation]]:
        """Find single changes: at most so many for the whole pass, "", and one for an output."""
        until = until or process_time() + ENOUGH
        found: dict[str, list[Mutation]] = {}
        self.known: list[tuple[float, Mutation, np.ndarray]] = []
        self.partial: list[tuple[Mutation, list[bool]]] = []  # with which some points are right
        for change, runs in self.tried(self.changes(), until):
            if self.holds(change, runs):
                found.setdefault("", []).append(change)
                if len(found[""]) == most:
                    break
            for name in self.apart:
                if name not in found and self.holds(change, runs, {name}):
                    found[name] = [change]
            self.know(change, runs[0])
        return found

    def two(self) -> Mutation | None:
        """Find two changes, after the search for one: each for some of the points, or for all."""
        names = [
            at.name for at, is_right in zip(self.points, self.well, strict=True) if not is_right
        ]
        if not any(name.startswith("generic") for name in names):  # they tell too little
            return None
        until = process_time() + ENOUGH
        for change, right in self.partial[:FEW]:
            order = sorted(range(len(right)), key=right.__getitem__)
            points, runs = [self.points[at] for at in order], [self.right[at] for at in order]
            search = Search(self.answer, self.stage, points, runs, first=change)
            for found in search.single(1, until).get("", ()):
                return found
        return self.pair(until)

    def at_generic_points(self) -> tuple[Mutation, list[str]] | None:
        """Return a change with which every generic point is right, and the points that are not."""
        for change, right in sorted(self.partial, key=lambda each: -sum(each[1])):
            left = [
                each.name for each, is_right in zip(self.points, right, strict=True) if not is_right
            ]
            if reads_all(change) and not any(name.startswith("generic") for name in left):
                return change, left
        return None

    def know(self, change, run):
        """Remember what the pass comes to with a change, of those that are alike the first two."""
        left = wrongness(run, self.right[0])
        worse = any(left[name] > self.wrong[name] + NEAR for name in left)
        all_left = np.inf if worse else sum(left.values())
        if run.outputs.keys() >= self.right[0].outputs.keys():
            numbers = numbers_of(run, self.right[0])
            if numbers.shape == self.own.shape and np.isfinite(numbers).all():
                key = numbers.round(9).tobytes()
                self.keys[key] += 1
                if self.keys[key] <= ALIKE:
                    self.known.append((all_left, change, numbers))

    def pair(self, until: float) -> Mutation | None:
        """Find two changes whose effects add up or multiply, or of which the first helps alone."""
        right = numbers_of(*2 * self.right[:1])
        if not np.isfinite(self.own).all() or self.own.shape != right.shape:
            return None
        found = [numbers for *_, numbers in self.known]
        fit = that_add_up(np.stack(found), self.own, right) if found else ()
        pairs = [(self.known[one][1], self.known[other][1]) for one, other in islice(fit, FIT)]
        better = sorted(self.known, key=lambda each: each[0])
        better = [b for b in better if b[0] < sum(self.wrong.values()) - NEAR][:LIKELY]
        pairs += [(first, second) for _, first, _ in better for _, second, _ in self.known]
        for change, runs in self.tried(filter(None, starmap(both, pairs)), until):
            if self.holds(change, runs):
                return change
        return None

    def changes(self):
        """Return the changes of the pass; of a backward pass those of its forward pass, too."""
        functions = [inspect.unwrap(getattr(self.answer, self.stage))]
        if self.stage == "backward" and self.answer.forward:
            functions.append(inspect.unwrap(self.answer.forward))
        changes = changes_of(functions, self.tracer.codes)
        if self.first:
            return filter(None, map(partial(both, self.first), changes))
        return changes

    def tried(self, changes, until):
        """Yield changes with what the pass then comes to at the first point, until it is enough."""
        for change in islice(changes, CHANGES):
            if process_time() > until:
                break
            if runs := self.runs_with(change, self.points[:1]):
                yield change, runs

    def holds(self, change, runs, only=None):
        """Tell whether the pass is right with a change at the first point, and at all others."""
        if not passes_agree(runs, self.right[:1], only):
            return False
        runs = [*runs, *self.runs_with(change, self.points[1:])]
        if len(runs) < len(self.right):
            return False
        if passes_agree(runs, self.right, only):
            return reads_all(change)
        if not only:
            right = list(map(runs_agree, runs, self.right))
            if right[0] and all(map(int.__ge__, right, self.well)):
                self.partial.append((change, right))
        return False

    def runs_with(self, change, points):
        """Run the pass; nothing if its forward pass is another one than before."""
        with change.planted(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            try:
                runs = self.answer.runs_at(points, seconds=self.seconds)
            except NotWritten:  # nothing is left of it
                return []
        known = [self.before[each.name] for each in points] if self.before else []
        if not all(map(runs_agree, runs.forward, known)):
            return []
        return getattr(runs, self.stage)


def numbers_of(run: Run, right: Run) -> np.ndarray:
    """Return the outputs of a run as one row; NaN where it has none of a name."""
    missing = np.array([np.nan])
    rows = [np.ravel(1.0 * run.outputs.get(name, missing)) for name in right.outputs]
    return np.concatenate([np.zeros(0), *rows])


def that_add_up(found: np.ndarray, before: np.ndarray, after: np.ndarray) -> Iterator[list[int]]:
    """Yield the numbers of two rows whose differences from what was before come to what is after.

    They add up, or multiply.
    """
    for change in (np.subtract, log_ratio):
        effect, wanted = change(found, before), change(after, before)
        at = np.flatnonzero(np.isfinite(wanted))
        at = at[np.argsort(-np.abs(wanted[at]), kind="stable")][:ENTRIES]
        fits = np.ones((len(found), len(found)), bool)
        for entry in at:
            sums = effect[:, entry, None] + effect[:, entry]
            fits &= np.abs(sums - wanted[entry]) <= SAME * np.abs(wanted[at]).max()
        yield from np.argwhere(np.triu(fits, 1)).tolist() if len(at) else ()


def log_ratio(array, before):
    """Return the logarithm of a ratio; NaN or infinity where it has none."""
    with np.errstate(all="ignore"):
        return np.log(np.abs(array / before))


def wrongness(run: Run, right: Run) -> dict[str, float]:
    """Return how wrong each output is, from 0 to 1."""
    wrong = {}
    for name, expected in right.outputs.items():
        own = run.outputs.get(name)
        if run.failure or own is None or own.shape != expected.shape or not np.isfinite(own).all():
            wrong[name] = 1.0
        else:
            gap = np.linalg.norm(1.0 * np.ravel(own) - np.ravel(expected))
            sizes = [float(np.linalg.norm(1.0 * np.ravel(each))) for each in (own, expected)]
            wrong[name] = float(gap) / max(*sizes, 1e-300)
    return wrong


def changes_of(functions: Sequence[Callable], local: Mapping[CodeType, dict]) -> Iterator[Mutation]:
    """Yield the small changes of functions and of those beside them that they call.

    What is left out or stands in another order comes first, then the rest of what stands there,
    then what may be missing. A function that reaches beyond its process is left as it is.

    Parameters
    ----------
    functions : sequence of callable
    local : dict
        The variables of each code that was run, as :class:`Tracer` has them.
    """
    beside = {each.__code__: each for each in chain(*map(functions_beside, functions))}
    first, *others = [each.__code__ for each in functions]
    found = {}
    for code in [first, *(code for code in local if code not in (first, *others)), *others]:
        own = beside.get(code)
        if own and not ASIDE & {*code.co_names}:
            try:
                tree = tree_of(own)
            except (OSError, SyntaxError, TypeError, ValueError):  # its source is not known
                continue
            if tree and not (PAGE and any(isinstance(n, ast.While) for n in ast.walk(tree))):
                variables = with_fields(local.get(code, {}))
                found[own] = tree, {n: v for n, v in variables.items() if not is_large(v)}
    for kind in (omissions_and_moves, replacements, additions):
        for own, (tree, variables) in found.items():
            for said, statement, *puts in kind(own, tree, variables):
                mutation = mutated(own, tree, said, statement, puts)
                if mutation and not UNLIKELY.match(said) and not any(map(is_power, puts)):
                    yield mutation


def omissions_and_moves(function, tree, variables):
    """Return what may be left out of a function, then what may stand in another order."""
    found = [e for e in edits_of(function, tree, variables) if OMITTED_OR_MOVED.search(e[0])]
    return sorted(found, key=lambda edit: bool(MOVED.search(edit[0])))


def replacements(function, tree, variables):
    """Return what else may be otherwise in a function."""
    return [e for e in edits_of(function, tree, variables) if not OMITTED_OR_MOVED.search(e[0])]


def edits_of(function, tree, variables):
    return edits(tree, partial(names_alike, function, variables))


def additions(_, tree, variables):
    """Yield what may be missing in a function."""
    return insertions(tree, variables)


def reads_all(mutation):
    """Tell whether a changed function still reads each of its arguments that it has read."""
    before, after = Reads(), Reads()
    before.visit(mutation.tree)
    with mutation.in_tree():
        after.visit(mutation.tree)
    code = mutation.function.__code__
    names = {*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]}
    return not names & (before.names - after.names)


class Reads(ast.NodeVisitor):
    """The names that are read before they are given another value."""

    def __init__(self):
        self.names, self.given = set(), set()

    def visit_Name(self, name):
        if not isinstance(name.ctx, ast.Load):
            self.given.add(name.id)
        elif name.id not in self.given:
            self.names.add(name.id)

    def visit_Assign(self, assignment):
        self.visit(assignment.value)
        for target in assignment.targets:
            self.visit(target)

    def visit_AugAssign(self, assignment):
        self.visit(assignment.value)
        if isinstance(assignment.target, ast.Name) and assignment.target.id not in self.given:
            self.names.add(assignment.target.id)
        self.visit(assignment.target)


def is_power(put):
    """Tell whether a value stands for a number in an exponent: a power of it may take for ever."""
    exponent = isinstance(put.owner, ast.BinOp) and isinstance(put.owner.op, ast.Pow)
    number = exponent and put.field == "right" and isinstance(put.owner.right, ast.Constant)
    return number and not isinstance(put.new, ast.Constant)


def is_large(value):
    """Tell whether a value is a large whole number."""
    return isinstance(value, int) and abs(value) > LARGE


def functions_beside(function: Any) -> Iterator[FunctionType]:
    """Yield a function, and the functions and methods of its module."""
    yield function
    for value in list(function.__globals__.values()):
        for each in [value, *(vars(value).values() if inspect.isclass(value) else ())]:
            if inspect.isfunction(each) and each.__module__ == function.__module__:
                yield inspect.unwrap(each)


def said_of(mutation: Mutation) -> str:
    """Say what is changed, and in which line of the reader's file."""
    number = getattr(mutation.statement, "lineno", 0)
    if not number:
        return f"in `{mutation.function.__name__}`, {mutation.said}"
    return f"in line {mutation.function.__code__.co_firstlineno + number - 1}, {mutation.said}"
