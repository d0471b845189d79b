"""How every command line of this repository runs: errors in one line, on all ranks."""

import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout

from transformer_core.commands.streams import steady_errors, steady_output

# What the extras of the package install that the commands need.
EXTRAS = {"mpi4py": "machines", "scipy": "gelu"} | dict.fromkeys(
    ("babel", "safetensors", "threadpoolctl", "tokenizers", "tqdm"), "train"
)


def run(make_parser: Callable, arguments: list[str] | None, many: tuple = ()) -> int:
    """Run one command, on all ranks if mpiexec has started it; return its exit status.

    That is 1 after an error in one line, and 141, as of other programs, without a line where nobody
    reads on what is printed. An error that nobody has thought of shows its traceback:
    it is a mistake of the package.

    Parameters
    ----------
    make_parser : callable
        Returns a parser whose options have ``command``, and ``run``, which is called with them.
    arguments : list of str, optional
        Default: those of the process.
    many : tuple of str
        The commands that run on many ranks.
    """
    with steady_errors():
        try:
            # Here, because NumPy takes a while: Ctrl-C may come meanwhile.
            from transformer_core.ranks import guarded, world

            with guarded(world(), explain) as communicator, steady_output():
                options = parse(make_parser(), arguments, communicator, many)
                return options.run(options) or 0
        except SystemExit:
            raise
        except BaseException as error:
            explained = explain(error)
            if explained is None:
                raise
            status, message = explained
        if message:
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
            status, message = 141, ""  # a reader such as head has seen enough
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


def parse(parser, arguments, communicator, many):
    """Return the options; the first rank alone says what is wrong.

    Raises
    ------
    ValueError
        If there are many ranks, and it is not a command for many.
    """
    parser.set_defaults(communicator=communicator)
    first = communicator.rank == 0
    with (
        redirect_stdout(sys.stdout if first else None),
        redirect_stderr(sys.stderr if first else None),
    ):
        options = parser.parse_args(arguments)
    if communicator.size > 1 and options.command not in many:
        only = f"; only {', '.join(many)} runs on many" if many else ""
        raise ValueError(
            f"{options.command}: expected one process, got {communicator.size} ranks{only}"
        )
    return options
