"""``fill``: masked words of a sentence, restored by a model that ``train bert`` has trained."""

import re

from transformer_core.tasks.bert import load
from transformer_core.tasks.bert.mini_bert import fill_masks


def add_parser(commands):
    parser = commands.add_parser(
        "fill",
        help="restore the masked words of a sentence",
        description=(
            "Print what the Mini-BERT in RUN would put in place of each [MASK] of a sentence, with "
            "its probability; ___ is a [MASK], too. A piece that begins with ## continues the "
            "word before it."
        ),
    )
    parser.add_argument("folder", metavar="RUN", help="folder that 'train bert' made")
    parser.add_argument(
        "sentence", metavar="SENTENCE", help='such as "Return the [MASK] of an array."'
    )
    parser.add_argument(
        "--top", type=int, default=5, help="how many words to print (default: 5)"
    )
    parser.set_defaults(run=run)


def run(options):
    sentence = re.sub(r"_{3,}", "[MASK]", options.sentence)  # __init__ stays
    answers = fill_masks(*load(options.folder), sentence, options.top)
    for number, words in enumerate(answers, 1):
        if len(answers) > 1:
            print(f"[MASK] {number}")
        for word, probability in words:
            print(f"{probability:7.2%}  {word}")
