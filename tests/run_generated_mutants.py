"""Let mutmut make mistakes in ops and optim, and run their tests: ``make mutants-generated``.

Succeeds if those mutants survive that ``tests/generated/equivalent.toml`` lists, and no other. A
mutant is known by its file, its function and what it makes of one of its statements, however these
are formatted, so that the list outlives changes elsewhere.
"""

import argparse
import ast
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
MUTANTS = ROOT / "mutants"
EQUIVALENT = ROOT / "tests/generated/equivalent.toml"
WITHOUT_A_VERDICT = ("not checked", "timeout")  # left out by NAME; stopped, so killed


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="which, as 'transformer_core.ops.softmax*'; default: all",
    )
    parser.add_argument("--workers", type=int, default=2, help="how many run at a time")
    options = parser.parse_args(arguments)
    shutil.rmtree(MUTANTS, ignore_errors=True)  # of an older run
    mutmut("run", "--max-children", str(options.workers), *options.names)
    found = survivors()
    listed = equivalent()
    if options.names:  # nothing is known of the others
        listed &= found
    for mutant in sorted(found - listed):
        print(f"survives: {mutant}")
    for mutant in sorted(listed - found):
        print(f"listed, but killed or no longer made: {mutant}")
    print(f"{len(found & listed)} survive that are equivalent")
    return 0 if found == listed else 1


def survivors():
    """Ask mutmut which mutants of its last run survive."""
    lines = mutmut("results", capture_output=True).splitlines()
    verdicts = (line.strip().rsplit(": ", 1) for line in lines)
    return {key(name) for name, verdict in verdicts if verdict not in WITHOUT_A_VERDICT}


def key(name):
    """Return a mutant's file and function, and the statement that it changes, as it makes it.

    mutmut writes the mutants of a function beside it, as ``xǁAdamǁstep__mutmut_3``.
    """
    module, _, mutant = name.rpartition(".")
    original = mutant.partition("__mutmut_")[0]
    function = original.removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")
    file = Path(*module.split(".")).with_suffix(".py")
    statements = {}
    for node in ast.walk(ast.parse((MUTANTS / file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            mangled, node.name = node.name, function.rpartition(".")[2]
            statements[mangled] = ast.unparse(node).splitlines()
    both = zip(statements[f"{original}__mutmut_orig"], statements[mutant], strict=True)
    changed = next(new for old, new in both if new != old)
    return f"{file.relative_to('transformer_core').as_posix()}, {function}: {changed.strip()}"


def equivalent():
    listed = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))
    return {mutant for entry in listed["equivalent"] for mutant in entry["mutants"]}


def mutmut(*arguments, capture_output=False):
    """Run a command of mutmut; return what it prints, if captured."""
    return subprocess.run(
        [sys.executable, "-m", "mutmut", *arguments],
        cwd=ROOT,
        check=True,
        capture_output=capture_output,
        text=True,
    ).stdout


if __name__ == "__main__":
    sys.exit(main())
