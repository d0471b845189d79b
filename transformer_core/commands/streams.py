"""Standard streams on which a command can rely."""

import os
import sys
from contextlib import contextmanager, redirect_stderr


class Steady:
    """A stream that goes on, into nothing, when nobody reads it any more."""

    def __init__(self, stream):
        self.stream = stream

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def write(self, text):
        self.attempt(self.stream.write, text)

    def flush(self):
        self.attempt(self.stream.flush)

    def attempt(self, function, *arguments):
        try:
            function(*arguments)
        except OSError:
            into_nothing(self.stream)


def into_nothing(stream):
    """Let what a stream still holds, and will get, go nowhere."""
    os.dup2(os.open(os.devnull, os.O_RDWR), stream.fileno())


@contextmanager
def steady_errors():
    """Let no closed stream's number go to a file, and no error stream end the work."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if stream is None:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    with redirect_stderr(Steady(sys.stderr or open(os.devnull, "w"))):
        yield


@contextmanager
def steady_output():
    """Write every character, if need be by its number, and all of them before the end.

    Raises
    ------
    ValueError
        If the standard output is closed.
    OSError
        If it takes no more.
    """
    if sys.stdout is None:
        raise ValueError("standard output: expected an open one, got a closed one")
    if hasattr(sys.stdout, "reconfigure"):  # not so in a notebook
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        try:
            sys.stdout.flush()
        except OSError as error:
            into_nothing(sys.stdout)
            raise OSError(error.errno, error.strerror, "standard output") from None
