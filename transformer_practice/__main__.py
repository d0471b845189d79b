"""The command line: ``transformer-practice``, or ``python -m transformer_practice``."""

import argparse
import sys

from transformer_core.commands.command_line import run

PROGRAM = "python -m transformer_practice" if __name__ == "__main__" else "transformer-practice"


class Parser(argparse.ArgumentParser):
    """One that takes a NAME after an option, too: older versions of argparse do not."""

    def parse_known_args(self, args=None, namespace=None):
        options, left = super().parse_known_args(args, namespace)
        if getattr(options, "name", "") is None and left and left[0][:1] != "-":
            options.name = left.pop(0)
        return options, left


def main(arguments: list[str] | None = None) -> int:
    """Write the backward passes yourself, and have them examined; return the exit status."""
    return run(make_parser, arguments)


def make_parser():
    from transformer_practice.commands import add_commands

    parser = argparse.ArgumentParser(
        prog=PROGRAM, description="Write the Transformer yourself, and have it examined."
    )
    add_commands(parser.add_subparsers(dest="command", required=True, parser_class=Parser))
    return parser


if __name__ == "__main__":
    sys.exit(main())
