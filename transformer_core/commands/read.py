"""``read``: dates in ISO 8601, read by a model that ``train dates`` has trained."""

import sys
from datetime import date
from queue import Queue
from threading import Thread

from transformer_core.tasks.dates import load
from transformer_core.tasks.dates.data import FIRST, LAST

TOGETHER = 256


def add_parser(commands):
    parser = commands.add_parser(
        "read",
        help="read dates into ISO 8601",
        description=(
            "Read each TEXT as a date into ISO 8601 with the model in RUN, and print the date and "
            "the probability that the model gives it. Without a TEXT, read one date from each "
            "line of the standard input, in UTF-8, and write only its date, or an empty line if it "
            "cannot be read. The reason then goes to the standard error, and the exit status is 1."
        ),
    )
    parser.add_argument("folder", metavar="RUN", help="folder that 'train dates' made")
    parser.add_argument(
        "texts",
        metavar="TEXT",
        nargs="*",
        help="a date as people write it, in quotation marks",
    )
    parser.set_defaults(run=run)


def run(options):
    reader = load(options.folder)
    if options.texts:
        return read_arguments(reader, options.texts)
    if sys.stdin is None:
        raise ValueError("standard input: expected lines to read, got a closed one")
    status, done = 0, 0
    # Not sys.stdin.buffer: Python cannot end while a thread waits in it.
    stream = open(sys.stdin.fileno(), "rb", closefd=False)
    for lines in waiting_lines(stream):
        texts = [line.decode("utf-8", "replace") for line in lines]
        for number, (answer, problem) in enumerate(read(reader, texts), done + 1):
            if problem:
                status = 1
                print(f"error: line {number}: {problem}", file=sys.stderr)
            print(answer)
        sys.stdout.flush()
        done += len(lines)
    return status


def read_arguments(reader, texts):
    """Print the date of each text with its probability; return the exit status."""
    status = 0
    for text, (answer, problem) in zip(texts, read(reader, texts), strict=True):
        if problem:
            status = 1
            print(f"error: {problem}", file=sys.stderr)
        else:
            print(f"{answer}  {reader.probability(text, answer):.1%}")
    return status


def read(reader, texts):
    """Return a pair for each text: its date and "", or "" and what is wrong."""
    readable, problems = {}, {}
    for n, text in enumerate(texts):
        try:
            readable[n] = reader.prepare(text)
        except ValueError as error:
            problems[n] = str(error)
    answers = dict(zip(readable, reader.read(readable.values()), strict=True))
    for n, answer in answers.items():
        if not is_date(answer):
            problems[n] = (
                f"{readable[n]!r}: expected a date from {FIRST} to {LAST}, read {answer!r}"
            )
    return [
        ("", problems[n]) if n in problems else (answers[n], "")
        for n in range(len(texts))
    ]


def is_date(answer):
    try:
        return FIRST <= date.fromisoformat(answer) <= LAST
    except ValueError:
        return False


def waiting_lines(stream):
    """Yield the lines of a stream in lists: those that wait, at least 1 and at most 256.

    So a line on its own is answered at once, and of many, many are read together. An error in
    reading is raised here, after the lines before it.
    """
    queue = Queue(TOGETHER)

    def fill():
        try:
            for line in stream:
                queue.put(line)
            queue.put(None)
        except OSError as error:
            queue.put(OSError(f"standard input: {error}"))

    Thread(target=fill, daemon=True).start()
    end = False
    while end is False:
        lines = [queue.get()]
        while len(lines) < TOGETHER and not queue.empty():
            lines.append(queue.get())
        if not isinstance(lines[-1], bytes):
            end = lines.pop()
        if lines:
            yield lines
    if end is not None:
        raise end
