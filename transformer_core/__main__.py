"""The command line: ``python -m transformer_core``."""

import argparse
import sys

from transformer_core.commands import train_encoder


def main(arguments=None):
    """Run one command; return its exit status, 2 where the input does not hold."""
    parser = argparse.ArgumentParser(
        prog="python -m transformer_core",
        description="Train the models of the book from a shell.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="train a model")
    models = train.add_subparsers(dest="model", required=True)
    train_encoder.add_parser(models)

    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the last checkpoint stands", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
