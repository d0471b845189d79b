"""``practice museum`` and ``practice survivors``."""

from runpy import run_path

from transformer_practice.cases.museum import Museum
from transformer_practice.cases.survivors import survivors

NEXT = (
    "next: transformer-practice museum {} ask 1 fresh\n"
    "case-01/questions.md lists all questions with their prices"
)


def add_parser(subcommands):
    museum = subcommands.add_parser(
        "museum",
        help="find the hidden mistakes of twelve training runs, or of six that projects published",
        description=(
            "Create a museum in FOLDER, or show the state of one: twelve training runs, each with "
            "one hidden mistake. Ask questions about a case, each of which has its price, and "
            "name the mistake."
        ),
    )
    museum.add_argument("folder", metavar="FOLDER", help="a new folder, or a museum")
    museum.add_argument("--seed", type=int, help="the seed of the cases (default: random)")
    museum.add_argument(
        "--shipped",
        action="store_true",
        help="six runs of a GPT, with mistakes that projects have published",
    )
    museum.set_defaults(run=run_museum, act=state_and_next)
    actions = museum.add_subparsers(metavar="ACTION")

    def action(name, help, act):
        parser = actions.add_parser(name, help=help, description=help)
        parser.set_defaults(act=act)
        return parser

    ask = action(
        "ask",
        "ask a question about a case, such as 'fresh' or 'op layer_norm'",
        lambda museum, options: museum.ask(options.case, " ".join(options.question)),
    )
    name = action(
        "name",
        "name the mistake of a case: a suspect, or a line such as ops/linear.py:58",
        lambda museum, options: museum.name(options.case, options.answer),
    )
    trail = action(
        "trail", "report on a closed case", lambda museum, options: museum.trail(options.case)
    )
    for parser in (ask, name, trail):
        parser.add_argument("case", metavar="CASE", type=int, help="its number, from 1")
    ask.add_argument("question", metavar="QUESTION", nargs="+")
    name.add_argument("answer", metavar="MISTAKE_OR_FILE:LINE")
    action("suspects", "list the mistakes that may be hidden", lambda museum, _: museum.suspects())
    action("score", "show how many are named, at what price", lambda museum, _: museum.score())

    test = subcommands.add_parser(
        "survivors",
        help="test your test",
        description=(
            "Plant each mistake of an op, a layer or a model, run the function 'check' of a "
            "Python file on it, and list the mistakes that it misses."
        ),
    )
    test.add_argument("file", metavar="FILE", help="with a function check(forward, backward)")
    test.add_argument("name", metavar="NAME", help="such as layer_norm, or Reconstructor")
    test.set_defaults(run=run_survivors)


def state_and_next(museum, _):
    return f"{museum.state()}\n{NEXT.format(museum.folder)}"


def run_museum(options):
    museum = Museum(options.folder, options.seed, print, options.shipped)
    print(options.act(museum, options))


def run_survivors(options):
    try:
        check = run_path(options.file)["check"]
    except OSError:
        raise
    except Exception as error:  # whatever a reader's file may do
        raise ValueError(f"{options.file}: expected a function check, got {error!r}") from None
    report = survivors(options.name, check)
    print(report)
    return 1 if report.problem or report.survived else 0
