"""The command line: ``transformer-core``, or ``python -m transformer_core``."""

import argparse
import sys

from transformer_core.commands.command_line import run

PROGRAM = "python -m transformer_core" if __name__ == "__main__" else "transformer-core"


def main(arguments: list[str] | None = None) -> int:
    """Train the models of the book, and use them; return the exit status."""
    return run(make_parser, arguments, many=("train",))


def make_parser():
    from transformer_core.commands import fill, read, search, train, write

    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Train the models of the book from a shell, and use them.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for command in (train, read, fill, write, search):
        command.add_parser(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
