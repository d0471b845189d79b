"""What an operation of the package still lacks, with the place to add it.

``make lacking OP=softplus``; without a name, of all. It reads the files as text, so that it takes
no time, and answers before the operation can be imported.
"""

import re
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WITHOUT = {  # what some operations do without, and why
    "gradient": (  # it rearranges, tabulates, or is differentiated in another operation
        "cached_keep causal_keep log_softmax merge_heads padding_keep pairs_to_halves "
        "rotary_frequencies round_rows round_to sinusoidal_positions split_heads window_keep"
    ).split(),
    "graph": ["soft_cap"],  # drawn by the reader of its exercise
    "exercise": [],
    "mistake": [],
}


def operations():
    """The names of the operations, without their backward passes."""
    from transformer_core import ops

    return [name for name in ops.__all__ if not name.endswith("_backward")]


@cache
def read(pattern):
    paths = filter(Path.is_file, sorted(ROOT.glob(pattern)))
    return "\n".join(path.read_text("utf-8") for path in paths)


def lacks(name):
    """List what an operation lacks: each a sentence that begins with the place to add it.

    Parameters
    ----------
    name : str
        Of the operation, whether or not the package has it.

    Returns
    -------
    list of str
    """
    label = f"eq:{name.replace('_', '-')}-backward"
    backward = f"{name}_backward"
    sources = {
        path.relative_to(ROOT / "transformer_core").as_posix(): path.read_text("utf-8")
        for path in ROOT.glob("transformer_core/ops/*.py")
    }
    face = sources.pop("ops/__init__.py")
    file = next((f for f, text in sources.items() if f"def {name}(" in text), f"ops/{name}.py")
    source = sources.get(file, "")
    mistakes = f"transformer_practice/mistakes/{file.replace('.py', '.toml')}"
    needed = []

    def need(there, what):
        if not there:
            needed.append(what)

    def both(of):
        need(f"def {of}(" in source, f"transformer_core/{file}: the function {of}")
        need(
            re.search(rf"^from.*import (?:\([^)]*)?.*\b{of}\b", face, re.M),
            f"transformer_core/ops/__init__.py: {of}, in the import from its file",
        )

    both(name)
    if name in WITHOUT["gradient"]:
        return needed
    both(backward)
    need(f"({label})" in source, f"transformer_core/{file}: ({label}), in the docstring")
    need(
        re.search(rf"\({label}\)$|:label: {label}$", read("book/*.md"), re.M),
        f"the page of the chapter: the formula of the gradient, $$ ... $$ ({label})",
    )
    need(
        re.search(rf'^    "{name}[",]|OPS\[f"{name},', read("tests/helpers/cases.py"), re.M),
        f'tests/helpers/cases.py, OPS: "{name}", with the shapes of its arrays',
    )
    need(
        f'equation("{label}")' in read("tests/ops/test_*.py"),
        f'tests/{file.replace("/", "/test_")}: check.op(OPS["{name}"]), and the exact proof by '
        f'SymPy, each under @pytest.mark.equation("{label}")',
    )
    need(
        f'"{name}": ' in read("tests/parity/test_ops.py"),
        f'tests/parity/test_ops.py, TWINS: "{name}", as a function of PyTorch tensors',
    )
    for what, there, place in [
        ("graph", backward in read("book/graphs/*.py"), f"book/graphs/{name}.py: its graph"),
        (
            "exercise",
            re.search(rf'ops\.{name}\b|"{name}"', read("transformer_practice/exercises/*.py")),
            "transformer_practice/exercises: an exercise",
        ),
        ("mistake", (ROOT / mistakes).exists(), f"{mistakes}: what people get wrong"),
    ]:
        need(
            there or name in WITHOUT[what], f'{place}; or tests/lacking.py, WITHOUT["{what}"]: why'
        )
    return needed


def main(names):
    """Print what operations lack, and return the status of the command."""
    complete = True
    for name in names or operations():
        needed = lacks(name)
        complete &= not needed
        if needed:
            print(f"{name} lacks:", *needed, sep="\n  ")
        elif names:
            print(f"{name} lacks nothing")
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
