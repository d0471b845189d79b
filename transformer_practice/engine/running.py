"""A reader's function is run with a time limit, and with words for what fails."""

import ctypes
import dis
import inspect
import linecache
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from time import monotonic
from typing import Any

import numpy as np

SECONDS = 5.0
LONGEST = 1000  # characters of what an error says
ENDLESS = "did not return within"
REMEDIES = {  # of what NumPy and Python say: what to try
    "cannot be interpreted as an integer": "Is there a / where a // belongs? A / gives a float.",
    "File too large": "Too much is printed, or written to a file.",
    "output array is read-only": "It is changed in place: make a new array.",
}
PACKAGE = re.compile(r"transformer_practice.engine.(running|runs|exercise|answer|examiner)\.py$")
NOTHING = "returns None: is there a `return`?"
RETURNS = {"LOAD_CONST", "RETURN_CONST"}  # the instructions that name what is returned

# When the reader's function that is called has to be back, 0 where none is, and after how many
# seconds. A process of its own shares it with the one that waits for it.
due = [0.0, 0.0]


class NotWritten(Exception):
    """The function is a stub as yet."""


class Failed(Exception):
    """The function did not come to an end; the message says why."""


class TimeIsUp(BaseException):
    """Raised in a function that runs for too long."""


def call(function: Callable, *arguments: Any, seconds: float = SECONDS) -> Any:
    """Call a reader's function, and stop it after some time.

    Parameters
    ----------
    function : callable
    *arguments
        Given to it as they are.
    seconds : float
        How long it may run.

    Returns
    -------
    What the function returns.

    Raises
    ------
    NotWritten
        If it raises ``NotImplementedError``, or has an empty body: ``pass``, or ``...``.
    Failed
        If it raises anything else, returns None, or does not return in time.
    """
    result: dict[str, Any] = {}
    context = copy_context()  # with what NumPy is to do about an overflow

    def run():
        try:
            result["value"] = context.run(function, *arguments)
        except BaseException as error:
            result["error"] = error

    if sys.platform == "emscripten":  # a page has no threads, and ends what takes too long
        run()
    else:
        thread = threading.Thread(target=run, daemon=True)
        with limited(seconds):
            thread.start()
            thread.join(seconds)
            if thread.is_alive():
                stop(thread)
                raise Failed(endless(seconds))
    error = result.get("error")
    if isinstance(error, NotImplementedError):
        raise NotWritten
    if error is not None:
        raise Failed(describe(error)) from error
    if result["value"] is None:
        raise NotWritten if is_empty(function) else Failed(NOTHING)
    return result["value"]


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Say in :data:`due` when a reader's function has to be back."""
    due[:] = monotonic() + seconds, seconds
    try:
        yield
    finally:
        due[0] = 0.0


def endless(seconds: float) -> str:
    return f"{ENDLESS} {seconds:g} s: is there a loop that never ends?"


def returns_nothing(function: Callable, *arguments: Any) -> bool:
    """Call what is to return nothing, and tell whether it does."""
    if is_empty(function):
        raise NotImplementedError
    return function(*arguments) is None


def is_empty(function: Callable) -> bool:
    """Tell whether a function has no code: a docstring, ``pass`` and ``...`` are none."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code is not None and not code.co_names and steps(code) == steps(empty)


def empty(): ...


def steps(code):
    return [
        (each.opname, each.argval if each.opname in RETURNS else None)
        for each in dis.get_instructions(code)
        if each.opname != "NOP"
    ]


def stop(thread):
    """Let an exception rise in a thread, at its next line of Python, until the thread has ended.

    One may get lost: what Python calls in between, a callback of the garbage collector, say, or
    a ``__del__``, drops what rises in it. A bare ``except:`` does the same.
    """
    identity = ctypes.c_ulong(thread.ident)
    last = monotonic() + 1.0
    while thread.is_alive() and monotonic() < last:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(identity, ctypes.py_object(TimeIsUp))
        thread.join(0.05)


def describe(error: BaseException) -> str:
    """Say what was raised, at which line of the reader's own code, and what that line holds."""
    said = re.sub(r"matmul: .*\(size", "the sizes do not fit in a matrix product (", f"{error}")
    said = "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in said[:LONGEST])
    text = f"raises {type(error).__name__}: {said}".rstrip(": ").replace("( ", "(")
    frames = [
        (frame, summary)
        for (frame, _), summary in zip(
            traceback.walk_tb(error.__traceback__),
            traceback.extract_tb(error.__traceback__),
            strict=True,
        )
        if not PACKAGE.search(summary.filename)
    ]
    remedies = [remedy for said, remedy in REMEDIES.items() if said in str(error)]
    if not frames:
        return "\n    ".join([text, *remedies])
    own = frames[0][1].filename
    frame, last = [each for each in frames if each[1].filename == own][-1]
    line = last.line or linecache.getline(own, last.lineno).strip()
    shapes = {
        name: value.shape
        for name in dict.fromkeys(re.findall(r"\w+", line))
        if isinstance(value := frame.f_locals.get(name), np.ndarray)
    }
    about = [f"line {last.lineno}: {line}"]
    if shapes and isinstance(error, ValueError):
        about.append("; ".join(f"{name} is {shape}" for name, shape in shapes.items()))
        if "broadcast" in str(error) and one_axis_lost(error):
            remedies.append("Is keepdims=True missing?")
    return "\n    ".join([text, *about, *remedies])


def one_axis_lost(error):
    """Tell whether of two shapes that do not fit one is the other without its last axis."""
    shapes = [
        tuple(map(int, re.findall(r"\d+", found)))
        for found in re.findall(r"\(([\d,]*)\)", str(error))
    ]
    return len(shapes) == 2 and any(one[:-1] == other for one, other in (shapes, shapes[::-1]))
