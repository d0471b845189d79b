"""What a reader has written is examined, and told in one line for each exercise."""

import re
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from transformer_practice.engine.answer import Answer
from transformer_practice.engine.examiner import full_stop, report_on
from transformer_practice.engine.exercise import Exercise, names_of
from transformer_practice.engine.report import Report
from transformer_practice.engine.running import Failed, NotWritten
from transformer_practice.engine.runs import Runs
from transformer_practice.exercises import every_exercise, exercises_in
from transformer_practice.workspace.folder import (
    Own,
    chapters,
    file_of,
    in_one_line,
    missing,
    read,
    untouched,
)
from transformer_practice.workspace.room import Room
from transformer_practice.workspace.surroundings import Surroundings

RIGHT, WRONG, OPEN = "right", "wrong", "not written yet"
PROCESSES = sys.platform != "emscripten"  # there are none in a page


class Examined(NamedTuple):
    """What the examiner says of what a reader has of an exercise; no report: it had nothing."""

    own: Own
    report: Report | None = None

    @property
    def name(self) -> str:
        return self.own.exercise.name

    @property
    def state(self) -> str:
        """Right is what has its gradient, or whatever is asked for, written and right."""
        if self.own.problem or self.report and self.report.written and not self.report.right:
            return WRONG
        if self.report and self.report.right and self.own.functions[-1]:
            return RIGHT
        return OPEN

    @property
    def said(self) -> str:
        """The first sentence of what is wrong, or which of two functions is right already."""
        if self.own.problem:
            return self.own.problem
        if not self.report:
            return ""
        if self.state == OPEN and self.report.right:
            return f"{self.report.verdict} {names_of(self.own.exercise)[-1]}: {OPEN}."
        if self.state == OPEN:
            return self.report.verdict
        first, *_ = re.sub(r"^\S+: right\. ", "", self.report.verdict).splitlines()
        sentence, stop, _ = first.partition(". ")
        return sentence + stop.strip()

    def with_printed(self, text: str) -> "Examined":
        """Add what was printed to the report."""
        return self._replace(report=self.report and replace(self.report, printed=text))

    def as_dict(self) -> dict:
        """Return the state and the report for JSON."""
        report = self.report.as_dict() if self.report else {"verdict": self.said}
        return {"name": self.name, "state": self.state} | report

    @property
    def line(self) -> str:
        """The state, and what is to be said of it."""
        if self.state == WRONG:
            line = f"{WRONG}: {self.said}"
        elif self.state == OPEN:
            line = self.said or OPEN
        elif all(self.own.functions):
            line = RIGHT
        else:
            line = f"{RIGHT}, with the package's forward pass"
        if self.own.problem or not self.own.absent:
            return line
        return f"{line} (the file has no {', '.join(self.own.absent)})"


class InRoom:
    """An answer whose functions are in a room: a method of :class:`Answer` is asked for there."""

    def __init__(self, file, exercise, forward=False, backward=False, mended=False):
        self.file, self.exercise = file, exercise
        self.forward, self.backward, self.is_mended = forward, backward, mended

    def alone(self, stage):
        return InRoom(self.file, self.exercise, **{stage: True})

    def mended(self, *arguments):
        if self.ask("mended", *arguments):
            return InRoom(self.file, self.exercise, self.forward, self.backward, True)
        return None

    def ask(self, method, *arguments):
        given = [stage for stage in Runs._fields if getattr(self, stage)]
        return self.file.ask(self.exercise.name, given, self.is_mended, method, *arguments)

    def __getattr__(self, method):
        return partial(self.ask, method)


class File:
    """A reader's file in a room, which is opened anew after whatever has ended it.

    The package's own numbers are computed outside, and no other file is there: what a file changes
    changes no verdict but its own.
    """

    def __init__(self, path: Path, course: str):
        self.path, self.course = path, course
        self.room: Room | None = None
        self.left = ""  # what a room that is closed has printed

    def read(self) -> list[Own]:
        """Return what the file has of each exercise."""
        exercises = exercises_of(self.course)
        self.room = Room(serve_answers, self.path, self.course)
        try:
            owns = self.checked(self.room.receive)
        except Failed as error:
            problem = f"{self.path.name} {in_one_line(error)}"
            return [missing(exercise, problem) for exercise in exercises]
        return [own._replace(exercise=e) for own, e in zip(owns, exercises, strict=True)]

    def ask(
        self, name: str, given: Sequence[str], mended: bool, method: str, *arguments: Any
    ) -> Any:
        """Ask an answer that has the ``given`` functions, or what it is when it is mended.

        Raises
        ------
        NotWritten
            As :class:`Answer`.
        Failed
            If the functions end their process, or change what is not theirs.
        """
        if not self.room:
            self.read()
        value = self.checked(self.room.ask, name, given, mended, method, arguments)
        if isinstance(value, NotWritten):
            raise value
        return value

    def checked(self, ask, *request):
        """Return an answer, and close the room unless all is well in it."""
        well = False
        try:
            value, change, busy = ask(*request)
            well = not (change or busy)
        finally:
            if not well:
                self.close()
        if change:
            raise Failed(change)
        return value

    def printed(self) -> str:
        """Return what was printed since the last time."""
        text = self.left or (self.room.printed() if self.room else "")
        self.left = ""
        return text

    def close(self) -> None:
        """End the process, if there is one."""
        if self.room:
            self.left = self.room.printed()
            self.room.close()
        self.room = None


def exercises_of(course: str) -> Sequence[Exercise]:
    """Return the exercises of a chapter, of all of them for "", or of a file with a course."""
    if not course:
        return every_exercise()
    return chapters()[course] if course in chapters() else exercises_in(Path(course))


def serve_answers(connection, path, course):
    """Run a reader's file, say what it has, and answer for its functions."""
    exercises, surroundings = exercises_of(course), Surroundings()
    owns = read(path, exercises)
    has = [own._replace(exercise=None, functions=tuple(map(bool, own.functions))) for own in owns]
    connection.send((has, surroundings.change(), surroundings.busy()))
    by_name = {own.exercise.name: Answer(own.exercise, *own.functions) for own in owns}
    mended = {}
    with suppress(EOFError):  # when nothing more is asked
        while True:
            name, given, is_mended, method, arguments = connection.recv()
            whole = by_name[name]
            answer = Answer(whole.exercise, **{stage: getattr(whole, stage) for stage in given})
            try:
                value = getattr(mended[name] if is_mended else answer, method)(*arguments)
            except NotWritten as error:
                value = error
            if isinstance(value, Answer):
                mended[name], value = value, True
            connection.send((value, surroundings.change(), surroundings.busy()))


def examine_chapter(
    folder: Path, chapter: str, exercises: Sequence[Exercise]
) -> Iterator[Examined]:
    """Examine what the file of a chapter has of some exercises, one after the other."""
    if untouched(folder, chapter):
        yield from (Examined(missing(exercise)) for exercise in exercises)
    else:
        names = {exercise.name for exercise in exercises}
        yield from examine_file(folder / file_of(chapter), chapter, names)


def examine_file(
    path: Path, course: str = "", names: Collection[str] | None = None
) -> Iterator[Examined]:
    """Examine what a file has, one exercise after the other.

    Parameters
    ----------
    path : Path
    course : str
        A chapter, or the path of a file with the exercises of another course. Default: the whole
        book.
    names : collection of str
        Those exercises alone. Default: what is written in the file.
    """
    file = File(path, course)
    try:
        owns = file.read() if PROCESSES else read(path, exercises_of(course))
        for own in owns:
            wanted = own.written or own.problem if names is None else own.exercise.name in names
            if wanted:
                kind = partial(InRoom, file) if PROCESSES else Answer
                examined = examine_answer(own, kind(own.exercise, *own.functions))
                yield examined.with_printed(file.printed())
    finally:
        file.close()


def examine_answer(own: Own, answer: Any) -> Examined:
    """Have the functions of an exercise examined that are written."""
    if own.problem or not own.written:
        return Examined(own)
    name = own.exercise.name
    try:
        return Examined(own, report_on(answer))
    except Failed as error:
        verdict = f"{name}: {full_stop(str(error))}"
    except Exception as error:  # the other exercises are examined all the same
        verdict = f"the examiner itself fails: {type(error).__name__}: {error}"
    return Examined(own, Report(name, False, True, verdict))
