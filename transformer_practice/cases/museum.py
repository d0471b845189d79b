"""A museum of training runs, each with one mistake, whose name is hidden."""

import csv
import hashlib
import io
import secrets
from collections.abc import Callable
from difflib import SequenceMatcher
from importlib import import_module
from pathlib import Path
from textwrap import fill
from types import EllipsisType

import numpy as np

import transformer_core
from transformer_core.foundation.files import read_json, to_json, write_atomically
from transformer_practice.cases.curves import curve_svg
from transformer_practice.cases.exhibits import PUBLISHED, ROOMS, SHIPPED, Exhibit, suspects
from transformer_practice.cases.questions import (
    OPS,
    OPS_OF_A_GPT,
    QUESTIONS,
    Rows,
    ask,
    differing,
    price,
)
from transformer_practice.cases.trainings import TASKS, trained
from transformer_practice.engine.planting import edited, places, planted
from transformer_practice.mistakes import MUTANTS, Mutant

BUDGET, WRONG_NAME = 10, 3
SHOWN, NAMED = 12, 8  # rows of an answer that differ and that do not; the file has all
PACKAGE = Path(transformer_core.__file__).parent
JUDGES = "fresh", "generic", "theorems"


class Museum:
    """Cases in a folder, what has been asked of them, and how they were named.

    A new folder is filled: a mistake is drawn out of each room, and a model is trained under each.
    Their names do not stand in it. In a folder that holds a museum the cases that are missing are
    made, and nothing else is touched.

    Parameters
    ----------
    folder : str or Path
    seed : int, optional
        Draws the cases. Default: any, or that of the folder.
    say : callable, optional
        Called with a line for each file that is written.
    shipped : bool
        True: a new museum has six mistakes that projects have published, in a GPT, in place of
        twelve in encoders and an encoder-decoder.

    Raises
    ------
    ValueError
        If the folder has no name, holds something else, or a museum of another seed or of another
        version.
    """

    def __init__(
        self,
        folder: str | Path,
        seed: int | None = None,
        say: Callable[[str], object] = lambda line: None,
        shipped: bool = False,
    ):
        if not str(folder):
            raise ValueError("folder: expected a path, got an empty one")
        self.folder, self.say = Path(folder), say
        self.plan: dict = {}
        self.right: dict[str, np.ndarray] = {}  # losses of the right models, by task
        path = self.folder / "museum.json"
        if not path.exists():
            if self.folder.exists() and any(self.folder.iterdir()):
                raise ValueError(f"{folder}: expected a new or empty folder, or a museum")
            for module in ("safetensors", "tqdm"):  # if one is missing, before there is a folder
                import_module(module)
            self.folder.mkdir(parents=True, exist_ok=True)
            self.draw(secrets.randbelow(10**6) if seed is None else seed, shipped)
            self.write(path, to_json("museum", self.plan))
        else:
            plan = read_json(path, path.read_bytes())
            if isinstance(plan, dict) and isinstance(plan.get("seed"), int):
                self.draw(plan["seed"], plan.get("shipped", False))
            if plan != self.plan:
                raise ValueError(f"{folder}: expected a museum of this version, got one of another")
            if seed not in (None, plan["seed"]):
                raise ValueError(f"seed: expected that of the folder, {plan['seed']}, got {seed}")
        for case in range(1, len(self.exhibits) + 1):
            self.make(case)

    def draw(self, seed, shipped):
        rng = np.random.default_rng(seed)
        rooms = SHIPPED if shipped else ROOMS
        self.exhibits, self.suspected = drawn(rng, rooms), suspects(rooms)
        salt = rng.bytes(8).hex()
        names = [salted(salt, exhibit.name) for exhibit in self.exhibits]
        self.plan = {"seed": seed, "salt": salt, "names": names}
        if shipped:
            self.plan["shipped"] = True

    def make(self, case):
        """Train under the mistake of a case; write what a reader sees of it."""
        place = self.place(case)
        if (place / "answers.json").exists():
            return
        place.mkdir(exist_ok=True)
        losses, right = self.losses(case)
        self.write(place / "curve.csv", table(losses, right).encode())
        self.write(place / "curve.svg", curve_svg(losses, right).encode())
        self.write(place / "questions.md", self.questions(case).encode())
        self.write(place / "answers.json", to_json("answers", {"asked": [], "named": []}))

    def losses(self, case: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the losses of a case, step by step, and those of the right model."""
        path = self.place(case) / "curve.csv"
        if not path.exists():
            task = self.exhibit(case).task
            with self.plant(case), np.errstate(all="ignore"):
                losses = trained(task).losses
            if task not in self.right:
                self.right[task] = trained(task).losses
            return losses, self.right[task]
        rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"))))[1:]
        _, losses, right = np.array(rows, float).T
        return losses, right

    def ask(self, case: int, question: str | EllipsisType) -> str:
        """Ask a question about a case, and pay for it.

        Parameters
        ----------
        case : int
            From 1 on.
        question : str
            Such as "fresh", or "op layer_norm"; ``...`` asks nothing.

        Returns
        -------
        str
            What differs from the right package, and what does not.

        Raises
        ------
        ValueError
            If there is no such case or question, the case is closed, or the points do not suffice.
        """
        if question is ...:
            return f"case {case}: not asked yet"
        question = " ".join(question.split())
        cost, answers = price(question), self.answers(case)
        for earlier in answers["asked"]:
            if earlier["question"] == question:
                return f"case {case}, {question} (asked before)\n{as_text(earlier['rows'])}"
        self.check_open(case)
        if cost > points_left(answers):
            raise ValueError(
                f"question: expected one of at most {points_left(answers)} points, got {cost}"
            )
        rows = ask(question, self.exhibit(case).task, lambda: self.plant(case))
        answers["asked"].append({"question": question, "price": cost, "rows": rows})
        self.save(case, answers)
        points = f"{cost} of your points, {points_left(answers)} left"
        return f"case {case}, {question} ({points})\n{as_text(rows)}"

    def name(self, case: int, answer: str | EllipsisType) -> str:
        """Name the mistake of a case. A wrong name costs 3 points.

        Parameters
        ----------
        case : int
        answer : str
            A name of :meth:`suspects`, or a line of the package, "ops/linear.py:58"; ``...``
            names nothing.

        Returns
        -------
        str
            Whether it is right; if the case is closed thereby, its trail.

        Raises
        ------
        ValueError
            If there is no such case, name or line, or the case is closed.
        """
        if answer is ...:
            return f"case {case}: not named yet"
        mistake = MUTANTS[self.exhibit(case).name]
        right = names_mistake(answer, mistake, self.suspected)
        self.check_open(case)
        answers = self.answers(case)
        answers["named"].append({"answer": answer, "right": right})
        self.save(case, answers)
        if closed(answers):
            trail = self.trail(case)
            self.write(self.place(case) / "trail.txt", trail.encode())
            return trail
        suspect = self.suspected.get(answer)
        file = suspect.file if suspect else file_of(answer)
        near = ", though the file is right" if file == mistake.file else ""
        return f"case {case}: it is not {answer}{near}. {points_left(answers)} points left"

    def trail(self, case: int) -> str:
        """Tell of a closed case: the mistake, what you asked, and what would have been enough."""
        answers, exhibit = self.answers(case), self.exhibit(case)
        if not closed(answers):
            raise ValueError(f"case {case}: expected a case that is closed")
        mistake = MUTANTS[exhibit.name]

        def answer(question):
            return ask(question, exhibit.task, lambda: self.plant(case))

        judges = [
            f"{judge} {'an alarm' if differing(answer(judge)) else 'nothing'}" for judge in JUDGES
        ]
        asked = [
            f"{entry['question']} ({entry['price']}): "
            + ("differs" if differing(entry["rows"]) else "as in the right one")
            for entry in answers["asked"]
        ]
        named = [
            f"{entry['answer']}: {'right' if entry['right'] else 'wrong'}"
            for entry in answers["named"]
        ]
        return "\n".join(
            [
                f"case {case}: {mistake.name}. {mistake.mistake[0].upper()}{mistake.mistake[1:]}.",
                *planted_lines(mistake),
                "\nYour trail",
                *(f"  {line}" for line in asked + named),
                f"  {points_left(answers)} of {BUDGET} points left"
                if answers["named"][-1]["right"]
                else "  not solved",
                f"\nThis would have been enough: {exhibit.key} ({price(exhibit.key)}). "
                "Of all suspects only this one gives its answer:",
                as_text(answer(exhibit.key)),
                f"\nThe judges: {', '.join(judges)}.",
                *(f"\nReported: https://github.com/{thread}" for thread in self.threads(exhibit)),
            ]
        )

    def threads(self, exhibit):
        """Return where a mistake was reported, if it is one that was published."""
        return PUBLISHED[exhibit.name].threads if "shipped" in self.plan else ()

    def suspects(self) -> str:
        """List the mistakes that may have been planted, by their files."""
        by_file: dict[str, list[Mutant]] = {}
        for mutant in self.suspected.values():
            by_file.setdefault(mutant.file, []).append(mutant)
        return "\n".join(
            f"{file}\n" + "\n".join(f"  {mutant.name}: {mutant.mistake}" for mutant in mutants)
            for file, mutants in sorted(by_file.items())
        )

    def score(self) -> str:
        """Say how many cases are named, and what was left of their budgets."""
        solved = [
            points_left(answers)
            for case in range(1, len(self.exhibits) + 1)
            if (answers := self.answers(case))["named"] and answers["named"][-1]["right"]
        ]
        score = f"named right: {len(solved)} of {len(self.exhibits)}"
        if not solved:
            return score
        return f"{score}; points left in these: {sum(solved)} of {BUDGET * len(solved)}"

    def state(self) -> str:
        """Show the cases in a table, with their losses, and the score."""
        rows = [" case  task      loss: first   last  right one  asked  points left"]
        for case in range(1, len(self.exhibits) + 1):
            (losses, right), answers = self.losses(case), self.answers(case)
            end, right_end = losses[-10:].mean(), right[-10:].mean()
            asked = len(answers["asked"])
            rows.append(
                f"{case:5}  {self.exhibit(case).task:8} {losses[0]:12.3f} {end:6.3f} "
                f"{right_end:10.3f} {asked:6}  {outcome(answers)}"
            )
        return "\n".join([*rows, self.score()])

    def questions(self, case: int) -> str:
        """Say what a case trains, what may be asked of it, and what that costs."""
        names = OPS + OPS_OF_A_GPT * (self.exhibit(case).task == "text")
        return "\n".join(
            [
                f"# Case {case}\n",
                f"{TASKS[self.exhibit(case).task].about}",
                "The package has one mistake, in the model, the optimiser or the loop. The run was",
                "saved half-way and resumed.\n",
                f"You have {BUDGET} points. A question costs its price, "
                f"a wrong name {WRONG_NAME}.\n",
                "| Question | Price | What it looks at |",
                "|---|---|---|",
                *(
                    f"| {name}{' NAME' * (name == 'op')} | {question.price} | {question.about} |"
                    for name, question in QUESTIONS.items()
                ),
                "\n" + fill(f"NAME is one of {', '.join(names)}.", 96),
                "",
            ]
        )

    def exhibit(self, case):
        if case not in range(1, len(self.exhibits) + 1):
            raise ValueError(f"case: expected 1 to {len(self.exhibits)}, got {case}")
        return self.exhibits[case - 1]

    def plant(self, case):
        return planted(MUTANTS[self.exhibit(case).name])

    def place(self, case):
        self.exhibit(case)
        return self.folder / f"case-{case:02}"

    def answers(self, case):
        path = self.place(case) / "answers.json"
        return read_json(path, path.read_bytes())

    def save(self, case, answers):
        self.write(self.place(case) / "answers.json", to_json("answers", answers))

    def check_open(self, case):
        if closed(self.answers(case)):
            raise ValueError(f"case: expected an open one, got {case}, which is closed")

    def write(self, path, content):
        write_atomically(path, content)
        self.say(f"wrote {path}")


def drawn(rng: np.random.Generator, rooms: list[list[Exhibit]] = ROOMS) -> list[Exhibit]:
    """Draw an exhibit from each room, and their order."""
    found = [room[rng.integers(len(room))] for room in rooms]
    return [found[i] for i in rng.permutation(len(found))]


def salted(salt, name):
    return hashlib.sha256(f"{salt} {name}".encode()).hexdigest()


def table(losses, right):
    rows = zip(losses, right, strict=True)
    return "step,this run,the right one\n" + "".join(
        f"{step},{loss:.5g},{other:.5g}\n" for step, (loss, other) in enumerate(rows, start=1)
    )


def points_left(answers):
    asked = sum(entry["price"] for entry in answers["asked"])
    return BUDGET - asked - WRONG_NAME * sum(not n["right"] for n in answers["named"])


def closed(answers):
    named = answers["named"]
    return bool(named) and (named[-1]["right"] or points_left(answers) < 0)


def outcome(answers):
    if not closed(answers):
        return f"{points_left(answers)}"
    return f"{points_left(answers)}, named" if answers["named"][-1]["right"] else "not solved"


def as_text(rows: Rows) -> str:
    """Set out what differs from the right package, and name what does not."""
    different = differing(rows)
    same = [name for name in rows if name not in different]
    text = []
    if different:
        width = max(map(len, different))
        wide = max(13, *(len(right) for _, right in different.values()))
        text.append(f"  {'':{width}}  {'the right one':{wide}}  this run")
        for name, (seen, right) in list(different.items())[:SHOWN]:
            text.append(f"  {name:{width}}  {right:{wide}}  {seen}")
        if len(different) > SHOWN:
            text.append(f"  and {len(different) - SHOWN} more that differ")
    if same:
        few = "; ".join(same[:NAMED]) + ("; ..." if len(same) > NAMED else "")
        text.append(f"  as in the right one, {len(same)} of {len(rows)}: {few}")
    return "\n".join(
        fill(line, 96, subsequent_indent="      ", break_on_hyphens=False) for line in text
    )


def file_of(answer):
    return answer.rpartition(":")[0].removeprefix("transformer_core/")


def names_mistake(answer, mistake, suspects):
    """Whether an answer, a name or a line, is the mistake."""
    _, colon, line = answer.rpartition(":")
    if not colon:
        if answer not in suspects:
            raise ValueError(f"name: expected a suspect or FILE:LINE, got {answer}")
        return answer == mistake.name
    file = file_of(answer)
    if not line.isdecimal() or not (PACKAGE / file).is_file():
        raise ValueError(f"line: expected one such as ops/linear.py:58, got {answer}")
    return file == mistake.file and any(int(line) in span for span in lines(mistake))


def planted_lines(mistake):
    """Yield the right lines and those that were planted in their place."""
    right = (PACKAGE / mistake.file).read_text(encoding="utf-8")
    pair = right.splitlines(), edited(right, mistake).splitlines()
    for change, i, i_end, j, j_end in SequenceMatcher(None, *pair).get_opcodes():
        if change != "equal":
            yield f"\n{mistake.file}, line {i + 1}"
            yield from (f"- {line}" for line in pair[0][i:i_end])
            yield from (f"+ {line}" for line in pair[1][j:j_end])


def lines(mistake):
    """The numbers of the lines of the package that a mistake changes, a range for each place."""
    source = (PACKAGE / mistake.file).read_text(encoding="utf-8")
    for start, end, _ in places(source, mistake):
        text = source[start:end]
        first = source[: end - len(text.lstrip())].count("\n") + 1
        yield range(first, first + text.strip().count("\n") + 1)
