"""The catalogue of mistakes: what stands in the package, and what people write in its place.

There is one file for each file of ``transformer_core`` that they wound: ``ops/linear.toml`` for
``ops/linear.py``. An entry has the name of the mistake, where it is made ("backward", "forward" or
"around" the passes), one sentence, and its edits: pairs of the right text, which stands in the file
exactly once, and the wrong text::

    [linear-weight-not-transposed]
    place = "backward"
    mistake = "W is used in place of its transpose; a square matrix has the right shape"
    edits = [['dy_rows @ weight.T', 'dy_rows @ weight.reshape(weight.T.shape)']]
    forms = [
      [['dy_rows @ weight.T', 'dy_rows @ weight']],
    ]

``forms`` are other edits, by which people make the same mistake; a sentence before them stands for
that of the mistake. Those of another file stand under
``[[linear-weight-not-transposed.elsewhere]]``, with its ``file`` and ``edits``. Text of several
lines stands between three single quotes, from the next line on. A new file is added to FILES.
"""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

BACKWARD, FORWARD, AROUND = "backward", "forward", "around"  # where the mistake is made
REQUIRED, OPTIONAL = {"place", "mistake", "edits"}, {"forms", "elsewhere"}
FILES = (  # in the order of the book: mistakes that come to the same are named in this order
    "ops/linear.toml",
    "ops/softmax.toml",
    "ops/layer_norm.toml",
    "ops/rms_norm.toml",
    "ops/relu.toml",
    "ops/gelu.toml",
    "ops/silu.toml",
    "ops/gated_product.toml",
    "ops/dropout.toml",
    "ops/attention.toml",
    "layers/multi_head_attention.toml",
    "ops/heads.toml",
    "ops/masks.toml",
    "ops/positions.toml",
    "layers/positions.toml",
    "ops/rotary.toml",
    "layers/rotary.toml",
    "layers/qk_norm.toml",
    "ops/soft_cap.toml",
    "ops/tiled_attention.toml",
    "ops/rounding.toml",
    "ops/embedding.toml",
    "layers/embedding.toml",
    "layers/pair_table.toml",
    "layers/residual.toml",
    "layers/feed_forward.toml",
    "layers/gated_feed_forward.toml",
    "layers/layer_norm.toml",
    "layers/rms_norm.toml",
    "ops/tanh.toml",
    "layers/pooler.toml",
    "layers/head_transform.toml",
    "ops/low_rank.toml",
    "layers/lora.toml",
    "ops/mean_pool.toml",
    "ops/mean_squared_error.toml",
    "ops/cross_entropy.toml",
    "ops/l2_normalize.toml",
    "ops/contrastive_loss.toml",
    "models/stack.toml",
    "models/encoder_decoder.toml",
    "models/decoding.toml",
    "models/sampling.toml",
    "models/speculative.toml",
    "models/bert.toml",
    "models/bert_encoder.toml",
    "models/classifier.toml",
    "models/gpt.toml",
    "optim/adam.toml",
    "optim/optimizer.toml",
    "optim/adamw.toml",
    "optim/sgd.toml",
    "optim/clipping.toml",
    "optim/loss_scaling.toml",
    "foundation/chunks.toml",
    "optim/schedules.toml",
    "optim/muon.toml",
    "optim/together.toml",
    "training/accumulation.toml",
    "distributed/data_parallel.toml",
    "tasks/bert/masking.toml",
    "training/loop.toml",
    "training/few_bits.toml",
    "training/blas.toml",
    "training/run.toml",
    "tasks/bert/mini_bert.toml",
    "tasks/bert/counts.toml",
    "tasks/texts/wordpiece.toml",
    "tasks/gpt/pretokens.toml",
    "tasks/gpt/byte_pairs.toml",
    "tasks/gpt/windows.toml",
    "tasks/gpt/kneser_ney.toml",
    "tasks/dates/data.toml",
    "tasks/search/sentence_encoder.toml",
    "foundation/files.toml",
    "training/on_disk.toml",
    "gradient_check.toml",
    "distributed/local_steps.toml",
    "distributed/cost.toml",
    "distributed/sharded_optimizer.toml",
    "distributed/sharded_parameters.toml",
    "distributed/tensor_parallel.toml",
    "distributed/vocabulary_parallel.toml",
    "distributed/sequence_parallel.toml",
    "distributed/ring_attention.toml",
    "distributed/pieces.toml",
    "ranks/communicator.toml",
    "ranks/threads.toml",
    "distributed/pipeline.toml",
    "distributed/schedules.toml",
)


class Mutant(NamedTuple):
    """A mistake that can be planted."""

    name: str
    place: str
    file: str  # in transformer_core
    edits: dict  # right text, which stands in the file once, to wrong text
    mistake: str
    forms: tuple[tuple[dict, str], ...] = ()  # other edits of the same mistake, with a sentence
    elsewhere: tuple[tuple[str, dict], ...] = ()  # and such edits of other files

    def __hash__(self) -> int:
        return hash((self.file, *self.edits.items()))

    def in_all_forms(self) -> Iterator["Mutant"]:
        """Yield the mistake once for each way of making it, with the file and the edits of it."""
        for edits, mistake in ((self.edits, self.mistake), *self.forms):
            yield self._replace(edits=edits, mistake=mistake)
        for file, edits in self.elsewhere:
            yield self._replace(file=file, edits=edits)


def read_catalogue(folder: Path, files: tuple[str, ...] = FILES) -> list[Mutant]:
    """Read the mistakes of some files of a folder, in their order.

    Raises
    ------
    ValueError
        If a file of the folder is not among them, is not TOML, or has an entry that is not whole;
        or if two mistakes have one name.
    """
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*.toml")}
    if there != set(files):
        raise ValueError(f"FILES: expected those of {folder}, got others: {there ^ set(files)}")
    catalogue: dict[str, Mutant] = {}
    for file in files:
        entries = tomllib.loads((folder / file).read_text(encoding="utf-8"))
        for name, entry in entries.items():
            if name in catalogue:
                raise ValueError(f"{file}: {name}: expected a new name, got one that is taken")
            try:
                catalogue[name] = mutant_of(name, file.replace(".toml", ".py"), entry)
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{file}: {name}: {error}") from None
    return list(catalogue.values())


def mutant_of(name: str, file: str, entry: dict) -> Mutant:
    """Make a mistake of an entry of the catalogue, or raise ``ValueError``."""
    if not REQUIRED <= entry.keys() <= REQUIRED | OPTIONAL:
        raise ValueError(f"expected {REQUIRED} and perhaps {OPTIONAL}, got {set(entry)}")
    if entry["place"] not in (BACKWARD, FORWARD, AROUND):
        raise ValueError(f"place: expected backward, forward or around, got {entry['place']}")
    return Mutant(
        name,
        entry["place"],
        file,
        edits_of(entry["edits"]),
        entry["mistake"],
        tuple(form_of(form, entry["mistake"]) for form in entry.get("forms", ())),
        tuple((form["file"], edits_of(form["edits"])) for form in entry.get("elsewhere", ())),
    )


def form_of(form: list, mistake: str) -> tuple[dict[str, str], str]:
    """Return the edits of a form and its sentence: that of the mistake, if it has none."""
    if form and isinstance(form[0], str):
        mistake, *form = form
    return edits_of(form), mistake


def edits_of(pairs: list) -> dict[str, str]:
    """Return edits, right text to wrong text, or raise ``ValueError``."""
    edits = {right: wrong for right, wrong in pairs}
    if not edits or len(edits) < len(pairs) or not all(r != w for r, w in edits.items()):
        raise ValueError(f"edits: expected pairs of different texts, got {pairs}")
    return edits


CATALOGUE = read_catalogue(Path(__file__).parent)
MUTANTS = {mutant.name: mutant for mutant in CATALOGUE}

# Tests that kill this one, or do not run at all, tell nothing of the others.
NO_MISTAKE = Mutant(
    "no-mistake",
    BACKWARD,
    "ops/softmax.py",
    {"dx = dweights - coupling": "dx = -coupling + dweights"},
    "none: the same gradient, written otherwise",
)

PLANTABLE = MUTANTS | {NO_MISTAKE.name: NO_MISTAKE}
