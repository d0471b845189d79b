import io
import json
import os
import re
import signal
import subprocess
import sys

import pytest
from helpers.processes import start

from transformer_core.__main__ import main
from transformer_core.commands import read
from transformer_core.tasks.dates import DateRules, recipe
from transformer_core.tasks.dates.reader import DateReader

OLD = {"model": "dates", "seed": 0, "characters": "5", "longest": 5}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of one step: whole, and far from able to read."""
    folder, dates = tmp_path_factory.mktemp("runs") / "dates", recipe.Dates()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recipe, "Dates", lambda: dates)
        patch.setattr(recipe, "UNSEEN", 1)
        assert main(["train", "dates", "--out", str(folder), "--steps", "1"]) == 0
    return folder


@pytest.fixture(scope="module")
def rules():
    return DateRules()


@pytest.fixture
def able(monkeypatch, rules):
    """A reader that reads as the rules do."""
    monkeypatch.setattr(DateReader, "read", lambda _, texts: [rules.read(text) for text in texts])


@pytest.fixture
def lines(folder, able, monkeypatch, tmp_path, capsys):
    """Read bytes from the standard input: status, output, errors."""

    def read_lines(content):
        path = tmp_path / "lines"
        path.write_bytes(content)
        with path.open() as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            status = main(["read", str(folder)])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return read_lines


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["jeudi 5 mars 1998"],
        ["jeudi 5 mars 1998", "5.3.1998"],
        ["1998年3月5日"],
        ["Thu, March 5, 1998"],
    ],
)
def test_a_text_is_read(folder, able, capsys, words):
    assert main(["read", str(folder), *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(words)
    assert all(re.fullmatch(r"1998-03-05  \d+\.\d%", line) for line in lines)


def test_a_text_that_cannot_be_read_does_not_keep_the_others_from_it(folder, able, capsys):
    assert main(["read", str(folder), "5 mars 1998", "5 mars", "July 4, 1976"]) == 1
    printed, problem = capsys.readouterr()
    assert [line[:10] for line in printed.splitlines()] == ["1998-03-05", "1976-07-04"]
    assert problem.startswith("error: '5 mars': expected a date from ")


@pytest.mark.parametrize(
    "text, message",
    [
        ("5 březen 1998", "'5 březen 1998': expected known characters, got 'ř'"),
        ("5 " * 30, "'(5 )*5': expected at most 35 characters, got 59"),
        ("", "text: expected at least one character, got none"),
        ("5 mars", "'5 mars': expected a date from 1900-01-01 to 2099-12-31, read ''"),
        ("5 mars 1234", "'5 mars 1234': expected a date from .*, read '1234-03-05'"),
    ],
)
def test_a_text_that_cannot_be_read_is_one_line(folder, able, one_line, text, message):
    one_line(main(["read", str(folder), text]), message)


def test_lines_are_read_in_their_order(lines):
    days = [f"{n % 28 + 1} mars {1900 + n % 200}" for n in range(700)]
    answers = [f"{1900 + n % 200}-03-{n % 28 + 1:02}" for n in range(700)]
    status, out, err = lines("\n".join(days).encode())
    assert (status, err) == (0, "")
    assert out.splitlines() == answers
    status, out, err = lines("\n".join([*days, "701"]).encode())
    assert (status, err[:16]) == (1, "error: line 701:")
    assert out.splitlines() == [*answers, ""]


def test_a_line_that_cannot_be_read_is_empty_and_named(lines):
    status, out, err = lines(b"5 mars 1998\n\n5 b\xff 1998\r\n6 mars 1998\n31.4.1998\n")
    assert status == 1
    assert out == "1998-03-05\n\n\n1998-03-06\n\n"
    assert err.splitlines() == [
        "error: line 2: text: expected at least one character, got none",
        "error: line 3: '5 b\ufffd 1998': expected known characters, got '\ufffd'",
        "error: line 5: '31.4.1998': expected a date from 1900-01-01 to 2099-12-31, read ''",
    ]


def test_no_lines_are_read_as_none(lines):
    assert lines(b"") == (0, "", "")


def test_lines_that_wait_come_together():
    stream = io.BytesIO(b"".join(b"%d\n" % n for n in range(1000)))
    together = list(read.waiting_lines(stream))
    assert [line for lines in together for line in lines] == [b"%d\n" % n for n in range(1000)]
    assert all(1 <= len(lines) <= 256 for lines in together)


def test_lines_that_cannot_be_read_are_an_error_after_those_that_can():
    def stream():
        yield from (b"one\n", b"two\n")
        raise OSError("no more")

    lines = []
    with pytest.raises(OSError, match="standard input: no more"):
        for some in read.waiting_lines(stream()):
            lines += some
    assert lines == [b"one\n", b"two\n"]


def test_a_line_on_its_own_is_not_kept_waiting():
    out, into = os.pipe()
    with open(out, "rb") as stream, open(into, "wb", buffering=0) as writer:
        lines = read.waiting_lines(stream)
        for line in (b"one\n", b"two\n"):
            writer.write(line)
            assert next(lines) == [line]
        writer.write(b"no end")
        writer.close()
        assert list(lines) == [[b"no end"]]


@pytest.mark.parametrize(
    "settings, message",
    [
        (None, "settings.json: expected the file of a run, found none"),
        ({"model": "encoder"}, "expected a run of 'train dates', got one of 'train encoder'"),
        (OLD, "got those of an older one: missing batch, beta2, .*"),
        (
            recipe.DEFAULTS | OLD | {"version": "0"},
            "checkpoint.safetensors: expected the file of a run, found none",
        ),
    ],
    ids=["no run", "a run of the encoder", "an old run", "no checkpoint"],
)
def test_a_folder_that_is_no_run_of_dates_is_one_line(tmp_path, one_line, settings, message):
    if settings:
        (tmp_path / "settings.json").write_text(json.dumps(settings))
    status = main(["read", str(tmp_path), "5"])
    one_line(status, f"{re.escape(str(tmp_path))}.*{message}")


def in_a_shell(folder):
    return start("read", folder, stdin=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.thorough
def test_it_works_in_a_pipe(folder):
    with in_a_shell(folder) as process:
        out, err = process.communicate("5 mars 1998\n1998年3月5日\n".encode())
    assert out.count(b"\n") == 2
    assert process.returncode == (b"error" in err)


@pytest.mark.skipif(os.name == "nt", reason="signals and pipes of POSIX")
@pytest.mark.parametrize(
    "end, status, message",
    [
        pytest.param(
            lambda process: process.send_signal(signal.SIGINT),
            130,
            b"stopped\n",
            id="stopped",
            marks=pytest.mark.thorough,
        ),
        pytest.param(lambda process: process.stdout.close(), 141, b"", id="nobody reads on"),
    ],
)
def test_it_ends_when_stopped_or_when_nobody_reads_on(folder, end, status, message):
    with in_a_shell(folder) as process:
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"\n"  # it runs, and waits
        process.stderr.readline()
        end(process)
        if status == 141:
            process.stdin.write(b"\n")
            process.stdin.flush()
            assert b"line 2" in process.stderr.readline()
        assert process.wait(20) == status
        assert process.stderr.read() == message
