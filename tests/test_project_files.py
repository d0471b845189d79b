"""What holds for the pages, the notebooks and the files that describe the project."""

import re
import sys
import tomllib
from functools import cache
from importlib.metadata import files
from pkgutil import resolve_name

import pytest
import yaml
from helpers.texts import ROOT, cells, imported, prose, read
from sphinx_external_toc.parsing import parse_toc_yaml

import transformer_core

PAGES = sorted(ROOT.glob("book/*.md"))
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))
OUR_OWN = {"transformer_core", "transformer_practice", "book", "studies", "benchmarks"}

TEXTS = [ROOT / "README.md", *PAGES, *NOTEBOOKS]


def requirements(name):
    """The requirements of a file, without comments and hashes."""
    lines = read(ROOT / name).replace("\\\n", "").splitlines()
    lines = (re.split("#|--hash", line)[0].strip() for line in lines)
    return [line for line in lines if line]


@cache
def labels():
    found = re.findall(
        r"^\s*\$\$ \((eq:[\w-]+)\)$|^:label: (eq:[\w-]+)$",
        "\n".join(map(read, PAGES)),
        flags=re.MULTILINE,
    )
    return [one or other for one, other in found]


# Requirements and versions


@pytest.mark.parametrize(
    "name",
    [
        "requirements.txt",
        ".binder/requirements.txt",
        "tests/browser/requirements.txt",
        "tests/generated/requirements.txt",
        "tests/lowest/requirements.txt",
        "tests/parity/requirements.txt",
        "tests/parity/weights.txt",
    ],
)
def test_every_requirement_is_an_exact_pin(name):
    for requirement in requirements(name):
        assert re.fullmatch(r"[\w.-]+(\[[\w,-]+\])?==[\w.]+( ; .+)?", requirement)


def test_what_is_installed_has_the_hashes_of_its_index():
    text = read(ROOT / "requirements.txt").replace("\\\n", "")
    for line in re.findall(r"^\w.*$", text, flags=re.MULTILINE):
        assert re.search(r"--hash=sha256:[0-9a-f]{64}(\s|$)", line), line


def test_the_lowest_numpy_that_is_allowed_is_tested():
    project = tomllib.loads(read(ROOT / "pyproject.toml"))["project"]
    (numpy,) = project["dependencies"]
    tested = requirements("tests/lowest/requirements.txt")
    assert numpy.replace(">=", "==") + ".0" in tested
    others = {requirement for requirement in tested if "numpy" not in requirement}
    assert others <= set(requirements("requirements.txt"))


# What only a comparison with the library, or a model of the hub, asks for.
ON_REQUEST = {"huggingface_hub", "torch", "transformers"}


def test_binder_has_the_versions_that_the_book_is_built_with():
    assert set(requirements(".binder/requirements.txt")) <= set(requirements("requirements.txt"))


def test_binder_has_what_the_notebooks_and_the_package_import():
    code = [cell.source for path in NOTEBOOKS for cell in cells(path, "code")]
    code += map(read, ROOT.glob("transformer_core/**/*.py"))
    installed = {line.partition("==")[0] for line in requirements(".binder/requirements.txt")}
    given = sys.stdlib_module_names | OUR_OWN | ON_REQUEST
    given = given.union(file.parts[0].removesuffix(".py") for n in installed for file in files(n))
    assert imported("\n".join(code)) - given == set()


def test_the_version_is_the_same_everywhere():
    project = tomllib.loads(read(ROOT / "pyproject.toml"))["project"]
    citation = yaml.safe_load(read(ROOT / "CITATION.cff"))
    assert project["version"] == transformer_core.__version__
    assert citation["version"] == transformer_core.__version__
    assert citation["license"] == project["license"]


def test_pre_commit_has_the_ruff_of_the_requirements():
    repositories = yaml.safe_load(read(ROOT / ".pre-commit-config.yaml"))["repos"]
    (pinned,) = (r["rev"] for r in repositories if r["repo"].endswith("/ruff-pre-commit"))
    assert pinned.replace("v", "ruff==") in requirements("requirements.txt")


def test_the_console_script_is_the_command_line(capsys):
    project = tomllib.loads(read(ROOT / "pyproject.toml"))["project"]
    assert project["scripts"].keys() == {"transformer-core", "transformer-practice"}
    for name, place in project["scripts"].items():
        with pytest.raises(SystemExit, match="0"):
            resolve_name(place)(["--help"])
        assert capsys.readouterr().out.startswith(f"usage: {name} ")


def test_actions_are_pinned_by_hash_and_the_same_everywhere():
    workflows = "\n".join(map(read, ROOT.glob(".github/workflows/*.yml")))
    used = re.findall(r"uses: (\S+)@(.+)", workflows)
    assert len(set(used)) == len(dict(used))
    for action, version in used:
        assert re.fullmatch(r"[0-9a-f]{40} # v\d+\.\d+\.\d+", version), action
    kept = "persist-credentials: false"  # no step needs them after the checkout
    assert workflows.count("actions/checkout@") == workflows.count(kept)


# Pages and notebooks together


def test_the_table_of_contents_has_every_page_and_notebook():
    listed = set(parse_toc_yaml(ROOT / "_toc.yml"))
    files = [path.relative_to(ROOT) for path in PAGES + NOTEBOOKS]
    assert listed == {path.with_suffix("").as_posix() for path in files}


def test_pages_and_notebooks_have_the_same_names():
    pages, notebooks = ({path.stem for path in group} for group in (PAGES, NOTEBOOKS))
    assert {page for page in pages if page[0].isdigit()} <= notebooks <= pages


def test_every_room_of_the_package_has_its_page():
    rooms = {path.parent.name for path in ROOT.glob("transformer_core/*/__init__.py")}
    pages = {path.stem.removeprefix("api_") for path in ROOT.glob("book/api_*.md")}
    assert pages == rooms - {"commands", "foundation"} | {"gradient_check", "practice"}


def test_relative_links_lead_to_a_file():
    links = [(path, link) for path in TEXTS for link in re.findall(r"\]\(([^)\s]+)\)", prose(path))]
    local = [(path, to.partition("#")[0]) for path, to in links if not re.match(r"\w+:|#", to)]
    assert [(path, to) for path, to in local if not (path.parent / to).exists()] == []


# Pages


def test_equation_labels_are_unique():
    assert len(labels()) == len(set(labels()))


def test_references_to_equations_resolve():
    pages = "\n".join(map(read, PAGES))
    assert set(re.findall(r"\{eq\}`([^`]+)`", pages)) - set(labels()) == set()


def test_a_blank_line_stands_before_every_labelled_equation():
    """Without it, MyST drops the label."""
    for path in PAGES:
        lines = read(path).splitlines()
        marks = [i for i, line in enumerate(lines) if line.strip().startswith("$$")]
        assert len(marks) % 2 == 0, path
        for opening, closing in zip(marks[::2], marks[1::2], strict=True):
            assert lines[opening].strip() == "$$", (path, lines[opening])
            if "(eq:" in lines[closing]:
                assert lines[opening - 1].strip() == "", (path, lines[opening + 1])


def test_equations_carry_no_label_of_latex():
    """Sphinx cannot refer to it."""
    assert [path for path in TEXTS if re.search(r"\\(label|eqref)\b", prose(path))] == []


# Notebooks


def test_notebooks_are_stored_executed():
    for path in NOTEBOOKS:
        code = [cell for cell in cells(path, "code") if cell.source.strip()]
        assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1)), path
        for cell in code:
            assert all(output.output_type != "error" for output in cell.outputs), (
                f"{path}: show an error by its message, its traceback names folders: {cell.source}"
            )


def test_every_figure_says_what_it_shows():
    for path in NOTEBOOKS:
        for cell in cells(path, "code"):
            kinds = {kind for output in cell.outputs for kind in output.get("data", {})}
            if any(kind.startswith("image/") for kind in kinds):
                image = cell.metadata.get("mystnb", {}).get("image", {})
                assert len(image.get("alt", "")) >= 40, (path, cell.source)


def test_notebooks_stay_small():
    assert [path for path in NOTEBOOKS if path.stat().st_size >= 600 * 1024] == []


def test_notebooks_hold_plain_markdown():
    """Roles and directives of MyST are for the pages: other readers show them raw."""
    raw = re.compile(r"\{[\w:-]+\}`|^(```|:::)\{", re.MULTILINE)
    assert [path for path in NOTEBOOKS if raw.search(prose(path))] == []


def test_every_test_that_a_page_names_exists():
    named = set(re.findall(r"`(test_\w+)`", "\n".join(map(read, PAGES))))
    defined = "\n".join(map(read, ROOT.glob("tests/**/test_*.py")))
    assert sorted(name for name in named if f"def {name}(" not in defined) == []


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("book/_static/*.css")), ids=lambda path: path.name
)
def test_every_brace_of_a_style_sheet_has_its_partner(path):
    depth = 0
    for character in re.sub(r"/\*.*?\*/", "", read(path), flags=re.DOTALL):
        depth += (character == "{") - (character == "}")
        assert 0 <= depth <= 2
    assert depth == 0


def test_the_quick_loop_goes_through_every_room():
    folded = read(ROOT / "Makefile").replace("\\\n", "")
    rooms = re.search(r"^ROOMS := (.*)", folded, re.MULTILINE)[1].split()
    tests = [path.relative_to(ROOT / "tests") for path in ROOT.glob("tests/**/test_*.py")]
    folders = {path.parts[0] if len(path.parts) > 1 else "whole" for path in tests}
    assert sorted(rooms) == sorted(folders - {"browser", "parity"})
