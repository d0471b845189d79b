"""The command line: ``transformer-core``, or ``python -m transformer_core``."""

import argparse
import sys
from contextlib import redirect_stderr, redirect_stdout

from transformer_core.commands.streams import steady_errors, steady_output

AS_MODULE = __name__ == "__main__"
# What the extras of the package install that the commands need.
EXTRAS = {"mpi4py": "machines"} | dict.fromkeys(
    ("babel", "safetensors", "threadpoolctl", "tokenizers", "tqdm"), "train"
)


def main(arguments: list[str] | None = None) -> int:
    """Run one command, on all ranks if mpiexec has started it; return its exit status.

    That is 1 after an error in one line. An error that nobody has thought of shows its traceback:
    it is a mistake of the package.
    """
    with steady_errors():
        try:
            # Here, because NumPy takes a while: Ctrl-C may come meanwhile.
            from transformer_core.distributed import guarded, world

            with guarded(world(), explain) as communicator, steady_output():
                options = parse(arguments, communicator)
                return options.run(options) or 0
        except SystemExit:
            raise
        except BaseException as error:
            explained = explain(error)
            if explained is None:
                raise
            status, message = explained
        print(message, file=sys.stderr)
        return status


def explain(error):
    """Return the exit status and the line for an error, or None for a mistake of the package."""
    match error:
        case SystemExit():  # argparse has said why
            return error.code, ""
        case KeyboardInterrupt():
            status, message = 130, "; ".join(["stopped", *error.args])
        case BrokenPipeError():
            status, message = 1, "error: standard output: nobody reads on"
        case ModuleNotFoundError():
            missing = (error.name or "").partition(".")[0]
            if missing not in EXTRAS:
                return None
            install = f"python -m pip install 'transformer-core[{EXTRAS[missing]}]'"
            status, message = 1, f"error: {missing} is not installed, try: {install}"
        case MemoryError() | OSError() | ValueError():
            status, message = 1, f"error: {str(error) or 'out of memory'}"
        case _:
            return None
    return status, " ".join(message.splitlines())


def parse(arguments, communicator):
    """Return the options, of which ``run`` is the command; the first rank alone says what is wrong.

    Raises
    ------
    ValueError
        If there are many ranks, and it is not a command for many.
    """
    from transformer_core.commands import fill, practice, read, train

    parser = argparse.ArgumentParser(
        prog="python -m transformer_core" if AS_MODULE else "transformer-core",
        description="Train the models of the book from a shell, use them, and write them yourself.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for command in (train, read, fill):
        command.add_parser(commands)
    practice.add_parser(commands, train.add_models)
    parser.set_defaults(communicator=communicator)
    first = communicator.rank == 0
    with (
        redirect_stdout(sys.stdout if first else None),
        redirect_stderr(sys.stderr if first else None),
    ):
        options = parser.parse_args(arguments)
    if communicator.size > 1 and options.command != "train":
        raise ValueError(
            f"{options.command}: expected one process, got {communicator.size} ranks; "
            "only train runs on many"
        )
    return options


if __name__ == "__main__":
    sys.exit(main())
