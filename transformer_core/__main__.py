"""The command line: ``transformer-core``, or ``python -m transformer_core``."""

import argparse
import os
import sys

from transformer_core.commands import fill, read, train_bert, train_dates, train_encoder


def main(arguments=None):
    """Run one command; return its exit status, 2 where the input does not hold."""
    as_module = __name__ == "__main__"
    parser = argparse.ArgumentParser(
        prog="python -m transformer_core" if as_module else "transformer-core",
        description="Train the models of the book from a shell, and use them.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="train a model")
    models = train.add_subparsers(dest="model", required=True)
    train_encoder.add_parser(models)
    train_dates.add_parser(models)
    train_bert.add_parser(models)
    read.add_parser(commands)
    fill.add_parser(commands)

    options = parser.parse_args(arguments)
    try:
        return options.run(options) or 0
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        checkpoint = (
            "; the last checkpoint stands" if options.command == "train" else ""
        )
        print(f"stopped{checkpoint}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # nobody reads on, as behind a pipe into head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


if __name__ == "__main__":
    sys.exit(main())
