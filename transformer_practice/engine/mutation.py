"""Changes of one function of the package that need no catalogue: something left out, or otherwise.

Each is made in the function's own tree, and planted by giving the function the code of it.
"""

import ast
import copy
import inspect
import re
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import combinations
from types import CodeType, FunctionType
from typing import Any, NamedTuple

PACKAGES = "transformer_core.", "transformer_practice.exercises."
ASIDE = "transformer_core.foundation", "transformer_core.ranks"  # checks, and threads
LONGEST = 60  # characters of the code that is shown
FIRST = "the_first_"  # before the name of a variable as it was before a loop
OTHERWISE = {  # what stands in the place of a function, a method or a sign
    "sum": ("mean", "max"),
    "mean": ("sum",),
    "max": ("sum", "min", "mean"),
    "min": ("max",),
    "maximum": ("minimum",),
    "square": ("abs",),
    "sin": ("cos",),
    "cos": ("sin",),
    "argmax": ("argmin",),
    "std": ("var",),
}
PARTS = {"real": "imag", "imag": "real"}
SIGNS: dict[type, tuple[type, ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.MatMult: (ast.Mult,),
    ast.Div: (ast.Mult,),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
}


class Put(NamedTuple):
    """A node that gets another one in a field, or in one place of a field that is a list."""

    owner: ast.AST
    field: str
    at: int | None
    new: Any

    def swap(self) -> "Put":
        """Put it there, and return what puts the old one back."""
        field = getattr(self.owner, self.field)
        if self.at is None:
            setattr(self.owner, self.field, self.new)
            return self._replace(new=field)
        old, field[self.at] = field[self.at], self.new
        return self._replace(new=old)


class Mutation(NamedTuple):
    """A function of the package, the code that it gets, and what is changed in words."""

    function: FunctionType
    code: CodeType
    said: str
    tree: ast.FunctionDef
    puts: tuple[Put, ...]
    statement: ast.AST | None

    @contextmanager
    def in_tree(self):
        """Have the change in the tree of the function."""
        old = [put.swap() for put in self.puts]
        try:
            yield
        finally:
            for put in reversed(old):
                put.swap()

    @contextmanager
    def planted(self):
        """Run the package with the change in it, and put it right afterwards."""
        right = self.function.__code__
        self.function.__code__ = self.code
        try:
            yield
        finally:
            self.function.__code__ = right


class Tracer:
    """Calls functions, and remembers the package's functions that they run through.

    ``codes`` has the code of each, in the order of the first calls, with its local variables as
    they were when it first returned.

    Parameters
    ----------
    module : str
        That of the reference, which may be none of the package.
    """

    def __init__(self, module: str):
        self.modules = *PACKAGES, module
        self.met: set[str] = set()
        self.codes: dict[CodeType, dict[str, Any]] = {}

    def __call__(self, function: Callable, *arguments: Any) -> Any:
        before = sys.getprofile()
        threading.setprofile(self.profile)
        sys.setprofile(self.profile)
        try:
            return function(*arguments)
        finally:
            threading.setprofile(None)
            sys.setprofile(before)

    def profile(self, frame, event, _):
        if event not in ("call", "return"):
            return
        name = frame.f_globals.get("__name__", "")
        if name.startswith(self.modules):
            self.met.add(name)
            if event == "call":
                self.codes.setdefault(frame.f_code, {})
            elif not self.codes.get(frame.f_code):
                self.codes[frame.f_code] = dict(frame.f_locals)

    def functions(self) -> dict[FunctionType, dict[str, Any]]:
        """Return the functions that are found by name in their modules, with their variables."""
        known = named_functions(self.met & sys.modules.keys())
        return {known[code]: local for code, local in self.codes.items() if code in known}


def named_functions(modules: Iterable[str]) -> dict[CodeType, FunctionType]:
    """Return the functions and methods of modules that have a source, by their code."""
    found: dict[CodeType, FunctionType] = {}
    for module in map(sys.modules.__getitem__, modules):
        owners = [module, *filter(inspect.isclass, vars(module).values())]
        for owner in owners:
            for value in vars(owner).values():
                if inspect.isfunction(value) and not value.__module__.startswith(ASIDE):
                    found[value.__code__] = value
    generated = "<string>"  # the methods that a dataclass is given
    return {code: value for code, value in found.items() if code.co_filename != generated}


def mutations_of(function: FunctionType, alike: Callable[[str], list[str]]) -> Iterator[Mutation]:
    """Yield the changes of a function, one at a time.

    ``alike`` gives the names of the local variables that have the shape of another.
    """
    tree = tree_of(function)
    for said, statement, *puts in edits(tree, alike) if tree else ():
        mutation = mutated(function, tree, said, statement, puts)
        if mutation:
            yield mutation


@cache
def tree_of(function: FunctionType) -> ast.FunctionDef | None:
    """Parse a function; None for a lambda."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    if not isinstance(tree, ast.FunctionDef):
        return None
    tree.decorator_list = []
    return tree


def mutated(function, tree, said, statement, puts):
    """Return a function with some nodes put into its tree; None if that has no sense."""
    for put in puts:
        for node in put.new if isinstance(put.new, list) else [put.new]:
            if isinstance(node, ast.AST):
                ast.fix_missing_locations(node)
    mutation = Mutation(function, function.__code__, said, tree, tuple(puts), statement)
    try:
        with mutation.in_tree():
            code = compiled(tree, function)
    except (SyntaxError, ValueError, TypeError, RecursionError):
        return None
    if code.co_freevars != function.__code__.co_freevars:
        return None
    return mutation._replace(code=code)


class Sum(NamedTuple):
    """A sum in a function, or one term that stands alone."""

    function: FunctionType
    tree: ast.FunctionDef
    statement: ast.AST
    put: Put
    terms: list[tuple[bool, ast.expr]]  # whether each is added, and not subtracted

    def with_coefficients(self, coefficients: Iterable[float]) -> Mutation | None:
        """Return the function with each term so many times as large, and a number added."""
        *factors, number = coefficients
        new: ast.expr | None = ast.Constant(float(number)) if number else None
        for (added, term), k in zip(self.terms, factors, strict=True):
            part = ast.BinOp(ast.Constant(float(k if added else -k)), ast.Mult(), term)
            new = ast.BinOp(new, ast.Add(), part) if new else part
        put = [self.put._replace(new=new)]
        return mutated(self.function, self.tree, "", self.statement, put)

    @property
    def labels(self) -> list[str]:
        return [shown(term) for _, term in self.terms]

    @property
    def shown(self) -> str:
        return shown(self.statement)


def sums_of(function: FunctionType) -> Iterator[Sum]:
    """Yield the sums of a function, and the values of its statements that are none."""
    tree = tree_of(function)
    for node, statement, put in expressions(inner(tree)) if tree else ():
        is_sum = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub)
        whole = not isinstance(put.owner, ast.BinOp) or not isinstance(
            put.owner.op, ast.Add | ast.Sub
        )
        alone = isinstance(put.owner, ast.Assign | ast.AugAssign | ast.Return | ast.Tuple)
        if (is_sum and whole or alone and not is_sum) and is_number(node):
            yield Sum(function, tree, statement, put, list(terms_of(node)))


def is_number(node):
    """Tell whether an expression may be a number: no name that is bound, and no tuple."""
    return isinstance(node, ast.BinOp | ast.Call | ast.Name | ast.Subscript) and not stores_in(node)


def stores_in(node):
    return any(isinstance(each, ast.Name) and stores(each) for each in ast.walk(node))


def terms_of(node, added=True):
    """Yield the terms of a sum, and whether each is added."""
    match node:
        case ast.BinOp(left, ast.Add() | ast.Sub() as op, right):
            yield from terms_of(left, added)
            yield from terms_of(right, added == isinstance(op, ast.Add))
        case _:
            yield added, node


def both(one: Mutation, other: Mutation) -> Mutation | None:
    """Return two changes of one function at once; None if they change the same place."""
    places = [{(put.owner, put.field, put.at) for put in each.puts} for each in (one, other)]
    if one.tree is not other.tree or places[0] & places[1]:
        return None
    said = f"{one.said}, and {other.said}"
    return mutated(one.function, one.tree, said, one.statement, [*one.puts, *other.puts])


def compiled(tree, function):
    """Return the code of a changed function; one that has free variables stands in another."""
    outer = ast.parse("def outer(): pass").body[0]
    outer.body = [ast.parse(f"{name} = None").body[0] for name in function.__code__.co_freevars]
    outer.body.append(tree)
    module = ast.Module([outer], [])
    with warnings.catch_warnings(action="ignore"):  # of what has no sense
        code = compile(module, function.__code__.co_filename, "exec")
    for name in ("outer", tree.name):
        code = next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)
    return code


Edit = tuple  # what is said, the statement in which it stands, and what is put where


def edits(tree: ast.FunctionDef, alike: Callable) -> Iterator[Edit]:
    """Yield what may be otherwise in a function: statements first, then what stands in them."""
    owners = list(inner(tree))
    for owner, _ in owners:
        for field in ("body", "orelse"):
            body = getattr(owner, field, None)
            if isinstance(body, list):
                yield from other_blocks(owner, field, body, alike)
    yield from exchanges(tree)
    for node, statement, put in expressions(owners):
        for said, new in others(node, alike):
            where = place(node, put.owner, statement)
            yield said + where, statement, put._replace(new=new)
    yield from everywhere(list(expressions(owners)), alike)


def expressions(owners):
    """Yield each expression with its statement, and where it stands."""
    for owner, statement in owners:
        for field, value in ast.iter_fields(owner):
            for at, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(node, ast.expr) and not is_size(node, owner):
                    yield node, statement, Put(owner, field, at, node)


def everywhere(found, alike):
    """Yield a number that is another wherever its statement has it, and so a variable."""
    for (statement, number), puts in grouped(found, number_of).items():
        for new in other_numbers(number):
            said = f"`{number}` were `{new}` everywhere in {shown(statement)}"
            yield said, statement, *(put._replace(new=ast.Constant(new)) for put in puts)
    for (_, name), puts in grouped(found, variable_of).items():
        for other in alike(name):
            new = ast.parse(other, mode="eval").body
            said = f"`{other}` replaced `{name}` everywhere"
            yield said, None, *(put._replace(new=new) for put in puts)


def grouped(found, key):
    """Collect the places of expressions that are alike, if there are several."""
    groups: dict[Any, list[Put]] = {}
    for node, statement, put in found:
        if (at := key(node, statement)) is not None:
            groups.setdefault(at, []).append(put)
    return {at: puts for at, puts in groups.items() if len(puts) > 1}


def number_of(node, statement):
    if isinstance(node, ast.Constant) and type(node.value) in (int, float) and statement:
        return statement, node.value
    return None


def variable_of(node, _):
    return (None, node.id) if isinstance(node, ast.Name) and not stores(node) else None


def is_size(node, owner):
    """Tell whether an argument is how many numbers are drawn: too many would take for ever."""
    draws = isinstance(owner, ast.Call) and ast.unparse(owner.func).startswith("rng.")
    return draws and isinstance(node, ast.Call)


def place(node, owner, statement):
    """Say where a short expression stands: in its statement, if that is short, or in its owner."""
    if not isinstance(node, ast.Constant | ast.Name | ast.UnaryOp | ast.Call):
        return ""
    whole = statement
    if not isinstance(whole, ast.Assign | ast.AugAssign) or len(ast.unparse(whole)) > LONGEST:
        whole = owner
    fits = isinstance(whole, ast.expr | ast.keyword | ast.Assign | ast.AugAssign)
    return f", in {shown(whole)}" if fits else ""


def inner(tree):
    """Walk through a function, but not through its checks, its signature and its docstring.

    Each node comes with the statement in which it stands.
    """
    yield tree, None
    waiting = [(each, None) for each in tree.body]
    while waiting:
        node, statement = waiting.pop(0)
        if not is_aside(node):
            statement = node if isinstance(node, ast.stmt) else statement
            yield node, statement
            parts = (each for each in ast.iter_child_nodes(node) if not is_size(each, node))
            waiting[:0] = [(each, statement) for each in parts]


def exchanges(tree):
    """Yield the function with two of the layer's parts in each other's place."""
    parts = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self"
    }
    for one, other in combinations(sorted(parts), 2):
        if one not in other and other not in one:
            new = Exchange(one, other).visit(copy.deepcopy(tree))
            said = f"`{one}` and `{other}` were swapped"
            yield said, None, Put(tree, "body", None, new.body)


class FirstOf(ast.NodeTransformer):
    """Reads a variable as it was before a loop."""

    def __init__(self, name):
        self.name = name

    def visit_Name(self, node):
        first = node.id == self.name and not stores(node)
        return ast.Name(FIRST + node.id, node.ctx) if first else node


class Exchange(ast.NodeTransformer):
    """Puts two names in each other's place, wherever they stand in a name."""

    def __init__(self, one, other):
        self.places = {one: other, other: one}
        self.either = re.compile(f"{one}|{other}")

    def exchanged(self, name):
        return self.either.sub(lambda found: self.places[found[0]], name)

    def visit_Name(self, node):
        return ast.Name(self.exchanged(node.id), node.ctx)

    def visit_Constant(self, node):
        return ast.Constant(self.places.get(node.value, node.value))

    def visit_Attribute(self, node):
        return ast.Attribute(self.visit(node.value), self.exchanged(node.attr), node.ctx)


def is_aside(node):
    if isinstance(node, ast.Expr):
        value = node.value
        if isinstance(value, ast.Constant):
            return True
        return isinstance(value, ast.Call) and ast.unparse(value.func).startswith("check_")
    if isinstance(node, ast.If):
        return all(isinstance(each, ast.Raise) for each in node.body)
    return isinstance(node, ast.Raise | ast.Import | ast.ImportFrom)


def shown(node, longest=LONGEST):
    """Return the code of a node, cut where it is long."""
    text = ast.unparse(node).partition("\n")[0]
    return f"`{text if len(text) <= longest else text[:longest] + '...'}`"


def other_blocks(owner, field, body, alike):
    """Yield a block of statements with one left out, changed, or after another."""

    def puts(first, *new):
        return [Put(owner, field, at, each) for at, each in enumerate(new, first)]

    for i, statement in enumerate(body):
        after = body[i + 1 :]
        if is_fixed(statement):
            continue
        yield f"{shown(statement)} were left out", statement, *puts(i, ast.Pass())
        for said, new in other_statements(statement, alike):
            yield said, statement, *puts(i, new)
        match (statement, *after[:1]):
            case (
                ast.Assign([ast.Name(name)], ast.BinOp(first, ast.Add() | ast.Sub() as op, last)),
                ast.AugAssign(ast.Name(other), ast.Mult(), factor),
            ) if name == other:
                new = ast.BinOp(ast.BinOp(first, ast.Mult(), factor), op, last)
                said = f"`{ast.unparse(last)}` were not multiplied by `{ast.unparse(factor)}`"
                yield said, statement, *puts(i, ast.Assign(statement.targets, new), ast.Pass())
            case (ast.Assign([ast.Tuple(targets)], value), *_):
                for at, target in enumerate(targets):
                    if isinstance(target, ast.Name):
                        unused = ast.Name("_", ast.Store())
                        parts = ast.Tuple([*targets[:at], unused, *targets[at + 1 :]], ast.Store())
                        said = f"`{target.id}` were not assigned from {shown(value)}"
                        yield said, statement, *puts(i, ast.Assign([parts], value))
        for j, other in enumerate(after, 1):
            if is_fixed(other):
                break
            between = body[i + 1 : i + j]
            later = puts(i, *between, other, statement)
            yield f"{shown(statement)} came after {shown(other)}", statement, *later
            if between:
                sooner = puts(i, other, statement, *between)
                yield f"{shown(other)} came before {shown(statement)}", statement, *sooner


def is_fixed(statement):
    return is_aside(statement) or isinstance(statement, ast.Return | ast.FunctionDef)


def other_statements(statement, alike):
    if isinstance(statement, ast.AugAssign):
        yield (
            f"{shown(statement)} were a plain `=`",
            ast.Assign([statement.target], statement.value),
        )
        for sign in SIGNS.get(type(statement.op), ()):
            new = ast.AugAssign(statement.target, sign(), statement.value)
            yield f"{shown(statement)} were {shown(new)}", new
        for other in filter(str.isidentifier, alike(ast.unparse(statement.target))):
            value = ast.BinOp(ast.Name(other, ast.Load()), statement.op, statement.value)
            new = ast.fix_missing_locations(ast.Assign([statement.target], value))
            yield f"{shown(new)} replaced {shown(statement)}", new
    elif isinstance(statement, ast.If):
        yield f"`if {ast.unparse(statement.test)}` were always true", always(statement, True)
        yield f"`if {ast.unparse(statement.test)}` were never true", always(statement, False)
    elif isinstance(statement, ast.For):
        for said, part in (
            ("the last iteration", "[:-1]"),
            ("the first iteration", "[1:]"),
            ("all iterations but the first", "[:1]"),
        ):
            rounds = ast.parse(f"list({ast.unparse(statement.iter)}){part}").body[0].value
            new = ast.For(statement.target, rounds, statement.body, statement.orelse)
            yield f"{said} of {shown(statement)} were left out", new
        match statement.iter:
            case ast.Call(ast.Name("range"), [start, stop, step], []):
                whole = ast.BinOp(ast.BinOp(stop, ast.Sub(), step), ast.Add(), ast.Constant(1))
                rounds = ast.Call(ast.Name("range", ast.Load()), [start, whole, step], [])
                new = ast.For(statement.target, rounds, statement.body, statement.orelse)
                yield f"an incomplete last iteration of {shown(statement)} were left out", new
        names = [n for n in ast.walk(statement) if isinstance(n, ast.Name)]
        bound = {n.id for n in names if stores(n)}
        read = {n.id for n in names if not stores(n)}
        counted = {n.id for n in ast.walk(statement.target) if isinstance(n, ast.Name)}
        for name in sorted(bound & read - counted):
            before = ast.parse(f"{FIRST}{name} = {name}").body[0]
            again = FirstOf(name).visit(copy.deepcopy(statement))
            new = ast.If(ast.Constant(True), [before, again], [])
            yield f"each iteration of {shown(statement)} used the initial `{name}`", new
        calls = [n for n in ast.walk(statement) if isinstance(n, ast.Call)]
        handed = {
            (each.id, "()" if isinstance(arg, ast.Starred) else "None")
            for call in calls
            for arg in (*call.args, *(k.value for k in call.keywords))
            for each in [arg.value if isinstance(arg, ast.Starred) else arg]
            if isinstance(each, ast.Name)
        }
        for name, nothing in sorted(handed):
            if name not in bound:
                last = ast.parse(f"{name} = {nothing}").body
                new = ast.For(statement.target, statement.iter, [*statement.body, *last], [])
                yield f"`{name}` were passed only in the first iteration of {shown(statement)}", new


def stores(name):
    return isinstance(name.ctx, ast.Store)


def always(statement, truth):
    return ast.If(ast.Constant(truth), statement.body, statement.orelse)


def others(node, alike):
    """Yield what may stand in the place of an expression, and what is then said."""
    whole = shown(node)

    def without(part, rest):
        return f"{part} were left out" + f" of {whole}" * (part != whole), rest

    def instead(new):
        return f"{shown(new)} replaced {whole}", new

    match node:
        case ast.BinOp(left, op, right):
            sign = ast.unparse(ast.BinOp(ast.Name("a"), op, ast.Name("b")))[1:-1].strip()
            second = (
                f"({ast.unparse(right)})" if isinstance(right, ast.BinOp) else ast.unparse(right)
            )
            yield without(f"`{sign} {second}`", left)
            if isinstance(op, ast.Add | ast.Mult):
                yield without(f"`{ast.unparse(left)}`", right)
            elif isinstance(op, ast.Sub):
                yield without(f"`{ast.unparse(left)}`", ast.UnaryOp(ast.USub(), right))
                yield instead(ast.BinOp(right, op, left))
            elif isinstance(op, ast.MatMult | ast.Div):
                yield instead(ast.BinOp(right, op, left))
            for other in SIGNS.get(type(op), ()):
                yield instead(ast.BinOp(left, other(), right))
            for new in without_parentheses(node):
                yield f"the parentheses were left out of {whole}", new
            for part, rest in ((left, right), (right, left)):
                match part:
                    case ast.Call(func, [inside], []) if isinstance(op, ast.Add | ast.Mult):
                        new = ast.Call(func, [ast.BinOp(inside, op, rest)], [])
                        yield f"{shown(rest)} were inside `{ast.unparse(func)}`", new
            if isinstance(op, ast.Pow):
                yield instead(ast.Call(ast.Name("abs", ast.Load()), [left], []))
                for times, said in ((2, "twice"), (0.5, "half")):
                    new = ast.BinOp(left, op, ast.BinOp(ast.Constant(times), ast.Mult(), right))
                    yield f"the exponent of {whole} were {said} as large", new
        case ast.Compare(left, [op], [right]):
            for other in SIGNS.get(type(op), ()):
                yield instead(ast.Compare(left, [other()], [right]))
            if isinstance(op, ast.Eq):
                sides = [
                    ast.Call(ast.Name("sorted", ast.Load()), [side], []) for side in (left, right)
                ]
                yield instead(ast.Compare(sides[0], [op], sides[1:]))
        case ast.Constant(int() | float() as number) if not isinstance(number, bool):
            for new in other_numbers(number):
                yield f"{whole} were `{new}`", ast.Constant(new)
        case ast.Constant(bool() as truth):
            yield f"{whole} were `{not truth}`", ast.Constant(not truth)
        case ast.UnaryOp(ast.USub(), ast.Constant(int() as number)):
            for new in (number, 1 - number, -1 - number, 0):
                yield f"{whole} were `{new}`", ast.Constant(new)
        case ast.UnaryOp(_, operand):
            yield without("its sign", operand)
        case ast.BoolOp(op, values):
            for i, value in enumerate(values):
                rest = values[:i] + values[i + 1 :]
                new = rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
                yield without(shown(value), new)
        case ast.IfExp(_, body, orelse):
            yield instead(body)
            yield instead(orelse)
        case ast.Subscript(value, index):
            for new in other_ends(index):
                yield instead(ast.Subscript(value, new, node.ctx))
            if isinstance(index, ast.Slice):
                yield without(f"`[{ast.unparse(index)}]`", value)
                if index.upper and not (index.lower or index.step):
                    one, last = ast.Constant(1), ast.UnaryOp(ast.USub(), index.upper)
                    after = ast.BinOp(index.upper, ast.Add(), one)
                    for part in (ast.Slice(last), ast.Slice(one, after)):
                        yield instead(ast.Subscript(value, part, node.ctx))
            elif isinstance(index, ast.Name):
                for at in (0, -1):
                    yield instead(ast.Subscript(value, ast.Constant(at), node.ctx))
        case ast.Call(func, args, keywords):
            yield from other_calls(func, args, keywords, without, instead)
        case ast.Attribute(value, "real" | "imag" as part) if not stores(node):
            yield instead(ast.Attribute(value, PARTS[part], node.ctx))
        case ast.Attribute(ast.Name()) if not stores(node):
            for other in alike(ast.unparse(node)):
                yield instead(ast.parse(other, mode="eval").body)
        case ast.Name(name) if not stores(node):
            for other in alike(name):
                yield instead(ast.parse(other, mode="eval").body)
            for other in filter(str.isidentifier, alike(name)):
                yield instead(ast.parse(f"{name} + {other}", mode="eval").body)


def other_numbers(number):
    """Return the numbers of the same type that may stand for another."""
    near = number + 1, number - 1, -number, 0, 2 * number, 10 * number
    parts = (number / n for n in (2, 10))
    if isinstance(number, int):
        parts = (number // n for n in (2, 10) if number % n == 0)
    return [
        new for new in dict.fromkeys([*near, *parts]) if new != number and type(new) is type(number)
    ]


def other_ends(index):
    """Yield an index without the last ones where it is without the first ones, or the opposite."""
    match index:
        case ast.Tuple(parts):
            for i, part in enumerate(parts):
                for new in other_ends(part):
                    yield ast.Tuple([*parts[:i], new, *parts[i + 1 :]], ast.Load())
        case ast.Slice(None, ast.UnaryOp(ast.USub(), last), None):
            yield ast.Slice(last)
        case ast.Slice(None, last, None) if last:
            yield ast.Slice(ast.UnaryOp(ast.USub(), last))
        case ast.Slice(first, None, None) if first:
            yield ast.Slice(None, ast.UnaryOp(ast.USub(), first))


def without_parentheses(node):
    """Yield what (a + b) * c and a / (b + c) are without the parentheses; and a / (b * c)."""
    sums, signs = ast.Add | ast.Sub, ast.Mult | ast.Div | ast.MatMult | ast.Pow
    match node:
        case ast.BinOp(left, ast.Div() as op, ast.BinOp(first, ast.Mult() as inner, last)):
            yield ast.BinOp(ast.BinOp(left, op, first), inner, last)
        case ast.BinOp(left, op, ast.BinOp(first, inner, last)) if isinstance(
            op, signs
        ) and isinstance(inner, sums):
            yield ast.BinOp(ast.BinOp(left, op, first), inner, last)
    match node:
        case ast.BinOp(ast.BinOp(first, inner, last), op, right) if isinstance(
            op, signs
        ) and isinstance(inner, sums):
            yield ast.BinOp(first, inner, ast.BinOp(last, op, right))


def other_calls(func, args, keywords, without, instead):
    name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
    if name in ("arange", "range") and len(args) == 1:
        one = ast.Constant(1)
        shifted = ast.Call(func, [one, ast.BinOp(args[0], ast.Add(), one)], keywords)
        yield f"`{ast.unparse(func)}` began at 1", shifted
    if name in ("tuple", "range", "len", "check_kind"):
        return
    if args and not isinstance(args[0], ast.Starred):
        yield without(f"`{ast.unparse(func)}`", args[0])
        match args[0]:
            case ast.BinOp(left, ast.Add() as op, right) if len(args) == 1:
                outside = ast.BinOp(ast.Call(func, [left], keywords), op, right)
                yield f"{shown(right)} were outside `{ast.unparse(func)}`", outside
            case ast.Call(ast.Name("sum") as first, [terms], []) if len(args) == 1:
                each = ast.Call(ast.Name("map", ast.Load()), [func, terms], [])
                yield f"`{ast.unparse(func)}` came before the `sum`", ast.Call(first, [each], [])
            case ast.Call(ast.Attribute(value, method), rest, named):
                package = ast.unparse(value) in ("np", "math", "ops")
                first = (
                    args[0].func
                    if package
                    else ast.Attribute(
                        ast.Call(func, [value, *args[1:]], keywords), method, ast.Load()
                    )
                )
                if package and rest:
                    inside = ast.Call(func, [rest[0], *args[1:]], keywords)
                    rest = [inside, *rest[1:]]
                said = f"`{ast.unparse(func)}` came before `{method}`"
                yield said, ast.Call(first, rest, named)
        twice = ast.Call(func, [ast.Call(func, args, keywords), *args[1:]], keywords)
        yield f"`{ast.unparse(func)}` were applied twice", twice
    if isinstance(func, ast.Attribute) and ast.unparse(func.value) not in ("np", "self", "super()"):
        yield without(f"`.{name}(...)`", func.value)
    match func:
        case ast.Attribute(ast.BinOp(base, ast.Pow() as op, power), "sum" | "mean"):
            first = ast.Call(ast.Attribute(base, name, ast.Load()), args, keywords)
            yield instead(ast.BinOp(first, op, power))
    if name == "norm" and len(args) == 1:
        yield instead(ast.Call(func, [*args, ast.Constant(2)], keywords))
    if name in ("max", "maximum") and len(args) > 1:
        both = ast.BinOp(args[0], ast.Add(), args[1])
        yield instead(ast.Call(func, [both, *args[2:]], keywords) if args[2:] else both)
    for i, each in enumerate(args):
        if i or isinstance(each, ast.Starred):
            rest = [*args[:i], *args[i + 1 :]]
            yield without(shown(each), ast.Call(func, rest, keywords))
        if i:
            swapped = [*args[: i - 1], each, args[i - 1], *args[i + 1 :]]
            yield instead(ast.Call(func, swapped, keywords))
    for i, each in enumerate(keywords):
        if each.arg not in ("out", "dtype", "strict", "copy", "keepdims"):
            rest = [*keywords[:i], *keywords[i + 1 :]]
            yield without(f"`{ast.unparse(each)}`", ast.Call(func, args, rest))
    for keyword in keywords:
        if name in ("sum", "mean") and isinstance(func, ast.Attribute) and keyword.arg == "axis":
            for at, said in ((0, "first"), (-1, "last")):
                new = ast.parse(f"np.take(0, {at}, {ast.unparse(keyword.value)})").body[0].value
                new.args[0] = func.value
                yield f"the {said} entry were taken instead of the `{name}`", new
    for other in OTHERWISE.get(name, ()):
        new = (
            ast.Attribute(func.value, other, ast.Load())
            if isinstance(func, ast.Attribute)
            else ast.Name(other, ast.Load())
        )
        yield f"`{name}` were `{other}`", ast.Call(new, args, keywords)
