"""What may be missing in a function, or may stand in another place: changes that put it there."""

import ast
import copy
import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np

from transformer_practice.engine.mutation import (
    LONGEST,
    OTHERWISE,
    Edit,
    Put,
    expressions,
    inner,
    place,
    shown,
)

AROUND = (  # what may be missing around an expression
    "-{0}",
    "abs({0})",
    "1 - {0}",
    "2 * {0}",
    "3 * {0}",
    "{0} / 2",
    "{0} + 1",
    "{0} - 1",
    "np.square({0})",
    "np.sqrt({0})",
    "np.exp({0})",
    "np.log({0})",
    "np.floor({0})",
    "np.round({0})",
    "max({0}, 0)",
    "max({0}, 1)",
    "~{0}",
    "not {0}",
    "np.where(np.isfinite({0}), {0}, 0)",
    "{0}.copy()",
    "{0}.T",
    "np.swapaxes({0}, 0, 1)",
    "np.swapaxes({0}, 1, 2)",
    "np.swapaxes({0}, -1, -2)",
    "{0}[:, None]",
    "{0}[:, None, None]",
    "{0}[..., None]",
    "{0}[None]",
    "{0}[::-1]",
)
REDUCTIONS = "sum", "mean", "max", "min", "var", "std", "argmax", "argsort", "sort", "cumsum"
AXES = "-1", "0", "1", "-2", "(0, 1)"
NUMPY = frozenset(dir(np))


def insertions(tree: ast.FunctionDef, local: dict[str, Any]) -> Iterator[Edit]:
    """Yield what may be missing in a function, or elsewhere, one change at a time.

    ``local`` has its variables, and the fields of those that have any.
    """
    owners = list(inner(tree))
    places = [each for each in expressions(owners) if is_value(*each)]
    for node, statement, put in places:
        for said, new in (*axes(node), *more_arguments(node, local), *rewritten(node, local)):
            yield said + place(node, put.owner, statement), statement, put._replace(new=new)
    for owner, _ in owners:
        yield from changed_blocks(owner)
    yield from exchanged_parameters(tree)
    yield from exchanged_calls(places)
    yield from alike_everywhere(places)
    called = {f"{name}({{0}})" for name in functions_of_one(places)}
    for node, statement, put in places:
        where = f", in {shown(statement)}" if statement else ""
        for template in (*AROUND, *sorted(called - {*AROUND})):
            new = filled(template, node)
            said = f"{shown(new)} replaced {shown(node)}"
            if len(ast.unparse(new)) > LONGEST:
                said = f"`{template.format('(...)')}` were applied to {shown(node)}"
            yield said + where, statement, put._replace(new=new)
        for text in others_for(node, local, put.owner):
            said = f"`{text}` replaced {shown(node)}"
            yield said + where, statement, put._replace(new=expression(text))


def is_value(node, _, put):
    """Tell whether an expression is read, and is no slice and no function that is called."""
    if isinstance(node, ast.Slice | ast.Starred | ast.Lambda | ast.JoinedStr):
        return False
    called = isinstance(put.owner, ast.Call) and put.field == "func"
    parts = [node, *(node.elts if isinstance(node, ast.Tuple) else [])]
    return not called and all(isinstance(getattr(p, "ctx", ast.Load()), ast.Load) for p in parts)


def expression(text):
    return ast.parse(text, mode="eval").body


def filled(template, *nodes):
    """Return the expression of a template with nodes in the places of its braces."""
    names = [f"_{i}" for i in range(len(nodes))]
    return Fill(dict(zip(names, nodes, strict=True))).visit(expression(template.format(*names)))


class Fill(ast.NodeTransformer):
    def __init__(self, nodes):
        self.nodes = nodes

    def visit_Name(self, name):
        return self.nodes.get(name.id, name)


def functions_of_one(places):
    """Return the functions of one argument that are called by name: `np.tanh`."""
    for node, *_ in places:
        match node:
            case ast.Call(ast.Name() | ast.Attribute(ast.Name("np" | "math")) as func, [_], []):
                yield ast.unparse(func)


def last_name(func):
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")


def axes(node):
    """Yield a sum, or another reduction, along another axis, or with its axes kept."""
    match node:
        case ast.Call(func, args, keywords) if last_name(func) in REDUCTIONS:
            others = [each for each in keywords if each.arg != "axis"]
            for text in AXES:
                axis = ast.keyword("axis", expression(text))
                yield (
                    f"`axis={text}` were added to {shown(node)}",
                    ast.Call(func, args, [*others, axis]),
                )
            kept = ast.keyword("keepdims", ast.Constant(True))
            if kept.arg not in (each.arg for each in keywords):
                new = ast.Call(func, args, [*keywords, kept])
                yield f"`keepdims=True` were added to {shown(node)}", new
                if len(others) == len(keywords):
                    last = ast.keyword("axis", expression("-1"))
                    said = f"`axis=-1, keepdims=True` were added to {shown(node)}"
                    yield said, ast.Call(func, args, [*keywords, last, kept])


def more_arguments(node, local):
    """Yield a call of something other than NumPy with one of the variables as an argument more."""
    match node:
        case ast.Call(func, args, keywords) if last_name(func) not in NUMPY:
            given = {ast.unparse(each) for each in (*args, *(k.value for k in keywords))}
            for name, value in local.items():
                if name.isidentifier() and name not in (*given, "self") and not callable(value):
                    more = ast.Name(name, ast.Load())
                    said = f"`{name}` were added as an argument to {shown(node)}"
                    yield said, ast.Call(func, [*args, more], keywords)
                    yield said, ast.Call(func, args, [*keywords, ast.keyword(name, more)])


def rewritten(node, local):
    """Yield what people write one for the other.

    Such as a power and a product of matrices, a length and a product with a vector of length 1, a
    product with a mask and a choice by it, one bound and two, a remainder and the number of a
    group.
    """
    new: list[ast.expr] = []
    match node:
        case ast.Call(outer, [ast.Call(within, args, named)], []):
            new = [ast.Call(within, [ast.Call(outer, args, [])], named)]
    match node:
        case ast.Call(ast.Attribute(value, "reshape") as func, [first, second], []):
            new += [ast.Attribute(ast.Call(func, [second, first], []), "T", ast.Load())]
        case ast.Call(ast.Name("abs") | ast.Attribute(attr="abs"), [value], []):
            new += [filled("{0}.imag", value)]
        case ast.Call(ast.Attribute(attr="norm"), [value], []):
            rows = [n for n, v in local.items() if isinstance(v, np.ndarray) and v.ndim == 1]
            new += [filled("{0} @ {1}", ast.Name(name, ast.Load()), value) for name in rows]
        case ast.Call(ast.Name("int"), [value], []):
            new += [filled("round({0})", value)]
        case ast.Call(ast.Attribute(attr="exp"), [value], []):
            new += [filled("np.exp({0} - {0}.max(axis=-1, keepdims=True))", value)]
        case ast.Call(ast.Attribute(attr="outer"), [first, second], []):
            new += [filled("{0}[..., None] * {1}", first, second)]
        case ast.Call(ast.Attribute(attr="tile"), [value, ast.Tuple([times, *_])], []):
            new += [filled("np.repeat({0}, {1}, axis=0)", value, times)]
        case ast.Call(ast.Attribute(attr="eye"), [_], []):
            shapes = [n for n, v in local.items() if isinstance(v, np.ndarray) and v.ndim == 2]
            new += [expression(f"np.eye(*{name}.shape)") for name in shapes]
        case ast.BinOp(left, ast.Add(), right):
            new += [filled("np.hypot({0}, {1})", left, right)]
        case ast.BinOp(left, ast.Mult(), right):
            new += [filled("np.minimum({0}, {1})", left, right)]
            if is_mask(local.get(ast.unparse(right))):
                new += [filled("np.where({1}, {0}, -np.inf)", left, right)]
        case ast.BinOp(left, ast.Div(), right):
            new += [filled("{0} / np.where({1} == 0, 1, {1})", left, right)]
            new += [filled("{0} // {1}", left, right)]
        case ast.BinOp(left, ast.FloorDiv(), right):
            others = "-(-{0} // {1})", "{0} / {1}", "{0} % {1}"
            new += [filled(other, left, right) for other in others]
        case ast.BinOp(left, ast.Mod(), right):
            others = "{0} // {1}", "{0} // (len({0}) // {1})"
            new += [filled(other, left, right) for other in others]
        case ast.BinOp(left, ast.Pow(), ast.Constant(2)):
            new += [filled("{0} @ {0}", left)]
        case ast.Compare(left, [ast.Lt() | ast.LtE()], [_]):
            new += [filled("({1} >= 0) & {0}", node, left)]
    match node:
        case ast.Call() if last_name(node.func) not in NUMPY:
            new += [filled("{0}.imag", node)]
        case ast.Name(name) if isinstance(local.get(name), np.ndarray):
            new += [filled("np.argsort({0}, axis=-1)", node)]
    return [(f"{shown(each)} replaced {shown(node)}", each) for each in new]


def is_mask(value):
    return isinstance(value, np.ndarray) and value.dtype == bool


def changed_blocks(owner):
    """Yield a block with one statement otherwise, after the loop in which it stands, or in it."""
    for field in ("body", "orelse"):
        body = getattr(owner, field, None)
        for i, statement in enumerate(body if isinstance(body, list) else []):
            for said, new in changed_statements(statement):
                yield said, statement, Put(owner, field, i, new)
            if isinstance(statement, ast.For | ast.If):
                *before, last = statement.body
                before_it, after = body[:i], body[i + 1 :]
                for j, each in enumerate(before_it):
                    if isinstance(each, ast.Assign):
                        said = f"{shown(each)} were in {shown(statement)}, not before it"
                        inside = with_body(statement, [each, *statement.body])
                        new = [*body[:j], *body[j + 1 : i], inside, *after]
                        yield said, each, Put(owner, field, None, new)
                if before:
                    said = f"{shown(last)} came after {shown(statement)}, not in it"
                    new = [*before_it, with_body(statement, before), last, *after]
                    yield said, last, Put(owner, field, None, new)
                if after:
                    said = f"{shown(after[0])} were in {shown(statement)}, not after it"
                    inside = with_body(statement, [*statement.body, after[0]])
                    yield said, after[0], Put(owner, field, None, [*before_it, inside, *after[1:]])


def changed_statements(statement):
    """Yield an addition at repeated indices, and a statement with two names exchanged."""
    match statement:
        case ast.AugAssign(ast.Subscript(array, index), ast.Add(), value):
            new = ast.Expr(filled("np.add.at({0}, {1}, {2})", array, index, value))
            yield f"{shown(new)} replaced {shown(statement)}", new
        case ast.Assign([ast.Subscript() as target], value):
            new = ast.AugAssign(target, ast.Add(), value)
            yield f"{shown(new)} replaced {shown(statement)}", new
    match statement:
        case ast.Assign() | ast.AugAssign() | ast.Return(ast.expr()):
            names = (n for n in ast.walk(statement.value) if isinstance(n, ast.Name))
            names = dict.fromkeys(n.id for n in names if n.id not in ("np", "ops", "math", "self"))
            for one, other in combinations(names, 2):
                new = copy.copy(statement)
                new.value = SwapNames(one, other).visit(copy.deepcopy(statement.value))
                yield f"`{one}` and `{other}` were swapped in {shown(statement)}", new


class SwapNames(ast.NodeTransformer):
    """Puts two names in each other's place."""

    def __init__(self, one, other):
        self.places = {one: other, other: one}

    def visit_Name(self, node):
        return ast.Name(self.places.get(node.id, node.id), node.ctx)


def with_body(block, body):
    if isinstance(block, ast.For):
        return ast.For(block.target, block.iter, body, block.orelse)
    return ast.If(block.test, body, block.orelse)


def exchanged_parameters(tree):
    """Yield a function with two of its arguments in each other's place."""
    arguments = tree.args
    names = [each.arg for each in (*arguments.args, *arguments.kwonlyargs) if each.arg != "self"]
    for one, other in combinations(names, 2):
        first = ast.parse(f"{one}, {other} = {other}, {one}").body
        said = f"`{one}` and `{other}` were swapped"
        yield said, None, Put(tree, "body", None, [*first, *tree.body])


def exchanged_calls(places):
    """Yield two calls with each other's function, if one is not of NumPy, nor in the other."""
    calls = [(node, statement) for node, statement, _ in places if isinstance(node, ast.Call)]
    for (one, statement), (other, _) in combinations(calls, 2):
        of_numpy = all(last_name(each.func) in NUMPY for each in (one, other))
        alike = len(one.args) == len(other.args)
        if alike and not of_numpy and not (is_in(one, other) or is_in(other, one)):
            puts = Put(one, "func", None, other.func), Put(other, "func", None, one.func)
            yield f"the functions of {shown(one)} and {shown(other)} were swapped", statement, *puts


def is_in(node, whole):
    return any(each is node for each in ast.walk(whole))


def alike_everywhere(places):
    """Yield what is otherwise everywhere: an axis, axes before a reshape, a call left out."""
    axis_of: dict[str, list[Put]] = {}
    reshaped: dict[str, list[Put]] = {}
    calls: dict[str, list[Put]] = {}
    reductions: dict[str, list[Put]] = {}
    for node, _, put in places:
        match node:
            case ast.Call(ast.Attribute(_, name) as func):
                reductions.setdefault(name, []).append(Put(func, "attr", None, name))
        if isinstance(put.owner, ast.keyword) and put.owner.arg == "axis":
            axis_of.setdefault(ast.unparse(node), []).append(put)
        match node:
            case ast.Call(ast.Attribute(value, "reshape") as func, args, []):
                bases = reshaped.setdefault(", ".join(map(ast.unparse, args)), [])
                bases.append(Put(func, "value", None, value))
            case ast.Call(func, [value], []):
                calls.setdefault(ast.unparse(func), []).append(put._replace(new=value))
    for old, puts in axis_of.items():
        for text in AXES:
            if len(puts) > 1 and text != old:
                new = [put._replace(new=expression(text)) for put in puts]
                yield f"`axis={text}` replaced `axis={old}` everywhere", None, *new
    for name, puts in calls.items():
        if len(puts) > 1:
            yield f"`{name}` were left out everywhere", None, *puts
    for name, puts in reductions.items():
        for other in OTHERWISE.get(name, ()) if len(puts) > 1 else ():
            new = [put._replace(new=other) for put in puts]
            yield f"`{name}` were `{other}` everywhere", None, *new
    for sizes, puts in reshaped.items():
        for template in AROUND:
            if len(puts) > 1 and "swapaxes" in template:
                new = [put._replace(new=filled(template, put.new)) for put in puts]
                said = f"`{template.format('(...)')}` came before `.reshape({sizes})` everywhere"
                yield said, None, *new


def others_for(node, local, owner):
    """Return what may stand for a variable, a number or a call: any array, any number or size.

    For a variable, and for all that a statement computes, also what it is with another value
    subtracted, added, as a factor or a divisor, and with a mask; for the latter also with the
    logarithm of an array added, which is what a shift before ``exp`` leaves to add.
    """
    name = ast.unparse(node)
    arrays = [n for n, v in local.items() if isinstance(v, np.ndarray) and n != name]
    numbers = [text for text in numbers_among(local) if text != name]
    whole = isinstance(owner, ast.Assign | ast.Return | ast.Tuple)
    with_others = [f"({name} {sign} {v})" for v in (*arrays, *numbers) for sign in "-*/+"]
    with_others += [f"({name} + np.log({v}))" for v in arrays if whole]
    masks = [v for v in arrays if is_mask(local[v])]
    with_others += [f"np.where({v}, {name}, -np.inf)" for v in masks]
    with_others += [f"({name} * {v}[..., None])" for v in masks if whole]
    match node:
        case ast.Name() if isinstance(local.get(name), np.ndarray):
            return [*arrays, *with_others]
        case ast.Name():
            return ["0", "1", *numbers, *with_others]
        case ast.Attribute() | ast.Constant(int() | float()) | ast.Call():
            return ["0", "1", *numbers, *(with_others if whole else ())]
        case ast.Subscript():
            return [f"({name} {sign} {v})" for v in numbers for sign in "-*/+"]
        case ast.BinOp() if whole:
            return with_others
    return []


def numbers_among(local):
    """Return the numbers among variables, one less them, and the sizes of arrays."""
    numbers = {n: v for n, v in local.items() if type(v) in (int, float, np.float64)}
    rests = [f"(1 - {name})" for name, value in numbers.items() if isinstance(value, float)]
    sizes = {
        f"{name}.shape[{axis}]": size
        for name, value in local.items()
        if isinstance(value, np.ndarray) and re.fullmatch(r"\w+", name)
        for axis, size in enumerate(value.shape)
    }
    first = {size: text for text, size in reversed(sizes.items())}
    return [*numbers, *rests, *first.values()]
