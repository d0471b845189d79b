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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import combinations
from types import CodeType, FunctionType
from typing import Any, NamedTuple

PACKAGES = "transformer_core.", "transformer_practice.exercises."
ASIDE = "transformer_core.foundation", "transformer_core.ranks"  # checks, and threads
LONGEST = 60  # characters of the code that is shown
OTHERWISE = {  # what stands in the place of a function, a method or a sign
    "sum": ("mean", "max"),
    "mean": ("sum",),
    "max": ("sum", "min"),
    "min": ("max",),
    "maximum": ("minimum",),
    "square": ("abs",),
    "sin": ("cos",),
    "cos": ("sin",),
    "argmax": ("argmin",),
    "std": ("var",),
}
SIGNS: dict[type, tuple[type, ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
}


class Mutation(NamedTuple):
    """A function of the package, the code that it gets, and what is changed in words."""

    function: FunctionType
    code: CodeType
    said: str

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
        if frame.f_globals.get("__name__", "").startswith(self.modules):
            if event == "call":
                self.codes.setdefault(frame.f_code, {})
            elif event == "return" and not self.codes.get(frame.f_code):
                self.codes[frame.f_code] = dict(frame.f_locals)

    def functions(self) -> dict[FunctionType, dict[str, Any]]:
        """Return the functions that are found by name in the package, with their variables."""
        known = named_functions(self.modules)
        return {known[code]: local for code, local in self.codes.items() if code in known}


@cache
def named_functions(modules: tuple[str, ...]) -> dict[CodeType, FunctionType]:
    """Return the functions and methods of modules that have a source, by their code."""
    found: dict[CodeType, FunctionType] = {}
    for name, module in list(sys.modules.items()):
        if name.startswith(modules):
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
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    if not isinstance(tree, ast.FunctionDef):  # a lambda
        return
    tree.decorator_list = []
    for said, owner, field, new in edits(tree, alike):
        old = getattr(owner, field)
        setattr(owner, field, new)
        try:
            code = compiled(tree, function)
        except (SyntaxError, ValueError, TypeError):
            continue
        finally:
            setattr(owner, field, old)
        if code.co_freevars == function.__code__.co_freevars:
            yield Mutation(function, code, said)


def compiled(tree, function):
    """Return the code of a changed function; one that has free variables stands in another."""
    outer = ast.parse("def outer(): pass").body[0]
    outer.body = [ast.parse(f"{name} = None").body[0] for name in function.__code__.co_freevars]
    outer.body.append(tree)
    module = ast.fix_missing_locations(ast.Module([outer], []))
    with warnings.catch_warnings(action="ignore"):  # of what has no sense
        code = compile(module, function.__code__.co_filename, "exec")
    for name in ("outer", tree.name):
        code = next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)
    return code


Edit = tuple[str, ast.AST, str, Any]  # what is said; whose field is another, and which


def edits(tree: ast.FunctionDef, alike: Callable) -> Iterator[Edit]:
    """Yield what may be otherwise in a function: statements first, then what stands in them."""
    owners = list(inner(tree))
    for owner, _ in owners:
        for field, body in blocks_of(owner):
            for said, new in other_blocks(body):
                yield said, owner, field, new
    yield from exchanges(tree)
    for owner, statement in owners:
        for field, value in ast.iter_fields(owner):
            if isinstance(value, ast.expr):
                for said, new in others(value, alike):
                    yield said + place(value, owner, statement), owner, field, new
            elif isinstance(value, list):
                for i, each in enumerate(value):
                    if isinstance(each, ast.expr) and not is_size(each, owner):
                        where = place(each, owner, statement)
                        for said, new in others(each, alike):
                            yield said + where, owner, field, [*value[:i], new, *value[i + 1 :]]


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
            yield f"`{one}` and `{other}` had changed places", tree, "body", new.body


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


def blocks_of(owner):
    for field in ("body", "orelse"):
        body = getattr(owner, field, None)
        if isinstance(body, list) and body:
            yield field, body


def shown(node, longest=LONGEST):
    """Return the code of a node, cut where it is long."""
    text = ast.unparse(node).partition("\n")[0]
    return f"`{text if len(text) <= longest else text[:longest] + '...'}`"


def other_blocks(body):
    """Yield a block of statements with one left out, changed, or after the next."""
    for i, statement in enumerate(body):
        before, after = body[:i], body[i + 1 :]
        if is_aside(statement) or isinstance(statement, ast.Return | ast.FunctionDef):
            continue
        yield f"{shown(statement)} were left out", [*before, *(after or [ast.Pass()])]
        for said, new in other_statements(statement):
            yield said, [*before, new, *after]
        match (statement, *after[:1]):
            case (
                ast.Assign([ast.Name(name)], ast.BinOp(first, ast.Add() | ast.Sub() as op, last)),
                ast.AugAssign(ast.Name(other), ast.Mult(), factor),
            ) if name == other:
                new = ast.BinOp(ast.BinOp(first, ast.Mult(), factor), op, last)
                rest = [*before, ast.Assign(statement.targets, new), *after[1:]]
                yield f"`{ast.unparse(last)}` were not multiplied by `{ast.unparse(factor)}`", rest
            case (ast.Assign([ast.Tuple(targets)], value), *_):
                for at, target in enumerate(targets):
                    if isinstance(target, ast.Name):
                        unused = ast.Name("_", ast.Store())
                        parts = ast.Tuple([*targets[:at], unused, *targets[at + 1 :]], ast.Store())
                        rest = [*before, ast.Assign([parts], value), *after]
                        yield f"`{target.id}` were not taken from {shown(value)}", rest
        if after and not isinstance(after[0], ast.Return) and not is_aside(after[0]):
            swapped = [*before, after[0], statement, *after[1:]]
            yield f"{shown(statement)} came after {shown(after[0])}", swapped


def other_statements(statement):
    if isinstance(statement, ast.AugAssign):
        yield (
            f"{shown(statement)} were a plain `=`",
            ast.Assign([statement.target], statement.value),
        )
        for sign in SIGNS.get(type(statement.op), ()):
            new = ast.AugAssign(statement.target, sign(), statement.value)
            yield f"{shown(statement)} were {shown(new)}", new
    elif isinstance(statement, ast.If):
        yield f"`if {ast.unparse(statement.test)}` always held", always(statement, True)
        yield f"`if {ast.unparse(statement.test)}` never held", always(statement, False)
    elif isinstance(statement, ast.For):
        for said, part in (
            ("the last round", "[:-1]"),
            ("the first round", "[1:]"),
            ("all rounds but the first", "[:1]"),
        ):
            rounds = ast.parse(f"list({ast.unparse(statement.iter)}){part}").body[0].value
            new = ast.For(statement.target, rounds, statement.body, statement.orelse)
            yield f"{said} of {shown(statement)} were left out", new
        match statement.iter:
            case ast.Call(ast.Name("range"), [start, stop, step], []):
                whole = ast.BinOp(ast.BinOp(stop, ast.Sub(), step), ast.Add(), ast.Constant(1))
                rounds = ast.Call(ast.Name("range", ast.Load()), [start, whole, step], [])
                new = ast.For(statement.target, rounds, statement.body, statement.orelse)
                yield f"a last round of {shown(statement)} that is not whole were left out", new
        bound = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and stores(n)}
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
                yield f"`{name}` were handed on in the first round of {shown(statement)} only", new


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
        return f"{shown(new)} stood for {whole}", new

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
                        yield f"{shown(rest)} stood inside of `{ast.unparse(func)}`", new
            if isinstance(op, ast.Pow):
                yield instead(ast.Call(ast.Name("abs", ast.Load()), [left], []))
                for times, said in ((2, "twice"), (0.5, "half")):
                    new = ast.BinOp(left, op, ast.BinOp(ast.Constant(times), ast.Mult(), right))
                    yield f"the exponent of {whole} were {said} as large", new
        case ast.Compare(left, [op], right):
            for other in SIGNS.get(type(op), ()):
                yield instead(ast.Compare(left, [other()], right))
        case ast.Constant(int() | float() as number) if not isinstance(number, bool):
            for new in dict.fromkeys(
                [
                    number + 1,
                    number - 1,
                    -number,
                    0,
                    2 * number,
                    number / 2,
                    10 * number,
                    number / 10,
                ]
            ):
                if new != number and type(new) is type(number):
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
        case ast.Name(name) if not stores(node):
            for other in alike(name):
                yield instead(ast.parse(other, mode="eval").body)


def other_ends(index):
    """Yield an index without the last ones where it is without the first ones, or the opposite."""
    match index:
        case ast.Tuple(parts):
            for i, part in enumerate(parts):
                for new in other_ends(part):
                    yield ast.Tuple([*parts[:i], new, *parts[i + 1 :]], ast.Load())
        case ast.Slice(ast.Constant() as first, None, None):
            yield ast.Slice(None, ast.UnaryOp(ast.USub(), first))
        case ast.Slice(None, ast.UnaryOp(ast.USub(), last), None):
            yield ast.Slice(last)


def without_parentheses(node):
    """Yield what (a + b) * c and a / (b + c) are without the parentheses; and a / (b * c)."""
    sums, signs = ast.Add | ast.Sub, ast.Mult | ast.Div | ast.MatMult
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
                yield f"{shown(right)} stood outside of `{ast.unparse(func)}`", outside
    if isinstance(func, ast.Attribute) and ast.unparse(func.value) not in ("np", "self", "super()"):
        yield without(f"`.{name}(...)`", func.value)
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
                yield f"the {said} alone were taken, and no `{name}`", new
    for other in OTHERWISE.get(name, ()):
        new = (
            ast.Attribute(func.value, other, ast.Load())
            if isinstance(func, ast.Attribute)
            else ast.Name(other, ast.Load())
        )
        yield f"`{name}` were `{other}`", ast.Call(new, args, keywords)
