"""A task for fine-tuning: which module does this sentence of the documentation come from?"""

import ast
import importlib.util
import re
import sysconfig
import warnings
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from book.living_models import read_script
from studies import ROOT
from transformer_core.layers import LayerSpec
from transformer_core.models import Bert, StackSpec
from transformer_core.tasks.texts.documentation import docstrings_of_tree, prose
from transformer_core.tasks.texts.documents import is_held_out
from transformer_core.tasks.texts.wordpiece import CLS, PAD, SEP, SPECIAL_TOKENS, token_ids

CLASSES, HELD_OUT = 24, 0.05
LENGTH = 24  # tokens, with [CLS] and [SEP]
SENTENCE = re.compile(r"(?<=[.!?]) +(?=[A-Z])")
WEIGHTS = ROOT / "book/_static/models/mini_bert.js"


class Sentence(NamedTuple):
    name: str  # of the object whose docstring has it
    module: str
    text: str


class Split(NamedTuple):
    """Sentences to train on and to measure with, as texts and as modules' numbers."""

    texts: list
    labels: np.ndarray


@cache
def sentences():
    """Every sentence that is in one module alone, with the first object that says it."""
    found = {}
    for module, path in sources():
        try:
            with warnings.catch_warnings(action="ignore"):
                tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):  # a template
            continue
        stem = path.parent.name if path.stem == "__init__" else path.stem
        for name, docstring in docstrings_of_tree(stem, tree):
            for text in SENTENCE.split(prose(docstring).replace("\n", " ")):
                if text.count(" ") >= 4:
                    found.setdefault(text, []).append(Sentence(name, module, text))
    return [said[0] for said in found.values() if len({s.module for s in said}) == 1]


def sources():
    """The files of Python's library, NumPy and Matplotlib, each with the module that it is of."""
    folders = {"": Path(sysconfig.get_path("stdlib"))}
    for package in ("numpy", "matplotlib"):
        spec = importlib.util.find_spec(package)
        if spec and spec.origin:
            folders[f"{package}."] = Path(spec.origin).parent
    for prefix, folder in folders.items():
        for path in sorted(folder.rglob("*.py")):
            inside = path.relative_to(folder).parts
            if {"test", "tests", "idle_test", "site-packages"}.isdisjoint(inside):
                yield prefix + inside[0].removesuffix(".py"), path


@cache
def modules():
    """The modules with the most sentences."""
    counts = Counter(sentence.module for sentence in sentences())
    return [module for module, _ in counts.most_common(CLASSES)]


def split(each, seed):
    """Draw ``each`` sentences of every module to train on; held out are always the same.

    Objects of one name fall on one side, as in ``documents.split``: no test sentence is of an
    object that the pretraining has read.
    """
    sides = ([], [])
    for sentence in sentences():
        if sentence.module in modules():
            sides[is_held_out(sentence.name, HELD_OUT)].append(sentence)
    rng = np.random.default_rng(seed)
    drawn = []
    for module in modules():
        own = [sentence for sentence in sides[0] if sentence.module == module]
        drawn += [own[k] for k in rng.choice(len(own), each, replace=False)]
    return tuple(
        Split([s.text for s in side], np.array([modules().index(s.module) for s in side]))
        for side in (drawn, sides[1])
    )


@cache
def pretrained():
    """The settings, the weights and the tokenizer of the Mini-BERT that the page runs."""
    settings, weights = read_script(WEIGHTS)
    vocabulary = {piece: n for n, piece in enumerate(settings["pieces"])}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    return settings, weights, tokenizer


def load_bert():
    """A new copy of that Mini-BERT."""
    settings, weights, _ = pretrained()
    stack = StackSpec(len(settings["pieces"]), settings["length"], settings["layers"])
    spec = LayerSpec.from_settings(settings["spec"])
    bert = Bert(spec, stack, np.random.default_rng(0), tied=True, embedding_norm=True)
    bert.set_parameters({name: array.copy() for name, array in weights.items()})
    return bert


def encode(texts):
    """Ids (N, T) and the mask of what is no padding: [CLS], the first T - 2 pieces, [SEP]."""
    ids = np.full((len(texts), LENGTH), PAD)
    for row, pieces in zip(ids, token_ids(pretrained()[2], texts), strict=True):
        line = [CLS, *pieces[: LENGTH - 2], SEP]
        row[: len(line)] = line
    return ids, ids != PAD
