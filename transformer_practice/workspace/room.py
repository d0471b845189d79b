"""A process of its own for what a reader has written: whatever that does, the command goes on."""

import faulthandler
import multiprocessing
import os
import re
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from transformer_practice.engine import running
from transformer_practice.engine.running import Failed

MEMORY = 2**30  # bytes that a reader's code may take, besides what the package has
FILES = 10**7  # bytes of a file that it may write: its output is one
SHOWN = 2000  # characters of its output
OVERDUE = 2.0  # seconds after which what does not end in time is ended with its process
LOOKS = 0.2  # seconds between looks at it
CONTEXT: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")


class Room:
    """A process that is asked for one thing after another.

    Parameters
    ----------
    serve : callable
        A function of a module, which the process runs: ``serve(connection, home, *arguments)``.
    home : Path
        The reader's file, or the folder of all of them: the lines of it are said.
    quiet : bool
        Whether what it prints is kept for :meth:`printed`, or printed.
    """

    def __init__(self, serve: Callable, home: Path, *arguments: Any, quiet: bool = True):
        self.home, self.folder = home, TemporaryDirectory()
        self.connection, theirs = CONTEXT.Pipe()
        self.due = CONTEXT.Array("d", 2, lock=False)
        self.process = CONTEXT.Process(
            target=begin,
            args=(serve, theirs, home, *arguments),
            kwargs={"due": self.due, "folder": self.folder.name, "quiet": quiet},
            daemon=True,
        )
        self.process.start()
        theirs.close()

    def ask(self, *request: Any) -> Any:
        """Send a request, and return the answer; as :meth:`receive` does."""
        with suppress(OSError):  # it has ended, as what follows says
            self.connection.send(request)
        return self.receive()

    def receive(self) -> Any:
        """Return the next answer.

        Raises
        ------
        Failed
            If the process ends instead, or a call does not.
        """
        late = False
        with suppress(EOFError, OSError):
            while not late and not self.connection.poll(LOOKS):
                late = 0 < self.due[0] < monotonic() - OVERDUE
            if not late:
                return self.connection.recv()
        if late:
            os.kill(self.process.pid, signal.SIGABRT)  # before it ends it writes down the line
        self.process.join(OVERDUE)
        status = self.process.exitcode or 0
        if late:
            said = running.endless(self.due[1])
        elif status < 0:
            said = f"ends the Python process with the signal {signal.Signals(-status).name}"
        else:
            said = f"ends the Python process with the exit status {status}"
        raise Failed(said + self.line())

    def line(self) -> str:
        """Say in which line of which file the process was when it was ended, if that is known."""
        trace = (Path(self.folder.name) / "trace").read_text(errors="replace")
        for path, number, function in re.findall(r'File "(.*)", line (\d+) in (\w+)', trace):
            if Path(path).is_relative_to(self.home):
                return f"\n    {Path(path).name}, line {number}, in {function}"
        return ""

    def printed(self) -> str:
        """Return what the process has printed since it was asked for the last time: its start."""
        with (Path(self.folder.name) / "output").open("r+", errors="replace") as file:
            text = file.read()
            file.truncate(0)
        return shortened(text)

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()
        self.connection.close()
        self.folder.cleanup()


def shortened(text: str) -> str:
    """Return what was printed, if need be without its end."""
    if len(text) > SHOWN:
        text = f"{text[:SHOWN]}\n... and {len(text) - SHOWN} more characters"
    return text.rstrip()


def begin(serve, connection, *arguments, due, folder, quiet):
    """Be a process of its own, and serve."""
    running.due = due
    faulthandler.enable((Path(folder) / "trace").open("w"))
    if quiet:
        bound()
        output = os.open(Path(folder) / "output", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(output, number)
            setattr(sys, name, open(number, "w", buffering=1, closefd=False, errors="replace"))
    with suppress(KeyboardInterrupt):
        serve(connection, *arguments)


def bound():
    """Bound the memory of the process, and its files, where the system can."""
    with suppress(ImportError, OSError):
        import resource

        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        for kind, most in (
            (resource.RLIMIT_AS, held + MEMORY),
            (resource.RLIMIT_FSIZE, FILES),
            (resource.RLIMIT_CORE, 0),
        ):
            resource.setrlimit(kind, (most, resource.getrlimit(kind)[1]))
