"""The command line: ``transformer-core``, or ``python -m transformer_core``."""

import argparse
import sys

from transformer_core.commands.streams import steady_errors, steady_output

AS_MODULE = __name__ == "__main__"
# What the extra "train" of the package installs.
TRAIN = {"babel", "safetensors", "threadpoolctl", "tokenizers", "tqdm"}


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return its exit status, 1 after an error in one line.

    An error that nobody has thought of shows its traceback: it is a mistake of the package.
    """
    with steady_errors():
        try:
            with steady_output():
                options = parse(arguments)
                return options.run(options) or 0
        except KeyboardInterrupt as stop:
            status, message = 130, "; ".join(["stopped", *stop.args])
        except BrokenPipeError:
            status, message = 1, "error: standard output: nobody reads on"
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            if missing not in TRAIN:
                raise
            install = "python -m pip install 'transformer-core[train]'"
            status, message = 1, f"error: {missing} is not installed, try: {install}"
        except (MemoryError, OSError, ValueError) as error:
            status, message = 1, f"error: {str(error) or 'out of memory'}"
        print(" ".join(message.splitlines()), file=sys.stderr)
        return status


def parse(arguments):
    # Here, because NumPy takes a while: Ctrl-C may come meanwhile.
    from transformer_core.commands import fill, practice, read, train

    parser = argparse.ArgumentParser(
        prog="python -m transformer_core" if AS_MODULE else "transformer-core",
        description="Train the models of the book from a shell, use them, and write them yourself.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for command in (train, read, fill):
        command.add_parser(commands)
    practice.add_parser(commands, train.add_models)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
