"""Which of four judges notice each mistake of the catalogue."""

from hashlib import sha256

from transformer_practice.engine.planting import planted
from transformer_practice.judges.checks import fresh_check, generic_check
from transformer_practice.judges.ranks import ranks_check
from transformer_practice.judges.theorems import broken_theorems
from transformer_practice.mistakes import MUTANTS


def runs():
    """The settings of every run."""
    for mistake in MUTANTS:
        yield {"mistake": mistake, "text": fingerprint(MUTANTS[mistake])}


def fingerprint(mutant):
    """Eight digits that change with what is planted."""
    return sha256(repr((mutant.file, mutant.edits)).encode()).hexdigest()[:8]


def run(mistake, text):
    """What each judge says of a mistake; of ranks only where they may differ from one process."""
    mutant = MUTANTS[mistake]
    between = mutant.file.startswith(("distributed/", "ranks/", "training/"))
    with planted(mutant):
        return {
            "new models": fresh_check(),
            "random point": generic_check(),
            "theorems": ", ".join(broken_theorems()),
            "one process": ranks_check() if between else None,
        }
