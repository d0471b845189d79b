"""The command line: ``python -m transformer_core.interop``."""

import argparse
import sys

from transformer_core.commands.command_line import run


def main(arguments: list[str] | None = None) -> int:
    """Compare other people's models with ours; return the exit status."""
    return run(make_parser, arguments)


def make_parser():
    parser = argparse.ArgumentParser(
        prog="python -m transformer_core.interop",
        description="Compare other people's models with ours.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser(
        "compare",
        help="say what differs first between two recordings, and why",
        description="Say what differs first between two recordings of one training step, and why. "
        "The exit status is 0 if they agree to rounding, and 1 otherwise.",
    )
    command.add_argument(
        "ours",
        help="a .safetensors file that is assumed to be right, or a folder of weights, which is "
        "run on what the other was given",
    )
    command.add_argument(
        "theirs", help="a .safetensors file of the implementation to examine"
    )
    command.set_defaults(run=compare_files)
    command = commands.add_parser(
        "record",
        help="run a folder of weights, and write what it computes",
        description="Run both passes of a folder of weights on three drawn sequences, and write "
        "all intermediate values, for 'compare' and for another program to start from.",
    )
    add_folder(command)
    command.add_argument("out", help="the .safetensors file to write")
    command.set_defaults(run=record_values)
    command = commands.add_parser(
        "parity",
        help="compare a folder of weights with transformers, array by array",
        description="Print the table of contents of a folder: each array, its parameter here, the "
        "equation, and the errors of its value and of its gradient. Needs torch and transformers.",
    )
    add_folder(command)
    command.set_defaults(run=print_parity)
    return parser


def add_folder(command):
    command.add_argument(
        "folder", help="with config.json and model.safetensors, or an id"
    )
    command.add_argument("--dtype", choices=("float64", "float32"), default="float64")


def record_values(options):
    from transformer_core.interop.recording import record_folder, write_recording

    values = record_folder(options.folder, options.dtype)
    write_recording(options.out, values)
    print(f"{options.out}: {len(values)} values, ids {values['ids'].shape} among them")


def print_parity(options):
    from transformer_core.interop.parity import parity

    print(parity(options.folder, options.dtype))


def compare_files(options):
    from transformer_core.interop.compare import compare

    findings, report = compare(options.ours, options.theirs)
    print(report)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
