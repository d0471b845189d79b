"""``search``: the passages of a text that are nearest in meaning to a question."""

from textwrap import shorten

from transformer_core.foundation.checks import check_whole
from transformer_core.tasks.search import load

SHOWN = 90  # characters of a passage


def add_parser(commands):
    parser = commands.add_parser(
        "search",
        help="find passages by their meaning",
        description=(
            "Print the passages nearest to a question, with their cosines, from the text that RUN "
            "was trained on. The first search of a run computes the vectors of all passages, and "
            "keeps them."
        ),
    )
    parser.add_argument("folder", metavar="RUN", help="folder that 'train search' made")
    parser.add_argument(
        "question", metavar="QUESTION", help='such as "stack arrays vertically"'
    )
    parser.add_argument(
        "--top", type=int, default=5, help="how many to print (default: 5)"
    )
    parser.set_defaults(run=run)


def run(options):
    check_whole("top", options.top, 1)
    found = load(options.folder).find(options.question, options.top)
    for passage, cosine in found:
        print(f"{cosine:6.3f}  {passage.name}: {shorten(passage.text, SHOWN)}")
