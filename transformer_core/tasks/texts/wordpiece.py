"""WordPiece: words cut into the longest pieces that a vocabulary knows."""

from pathlib import Path
from typing import TYPE_CHECKING

from transformer_core.foundation.checks import check_positive_int

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PAD, UNK, CLS, SEP, MASK = range(5)
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # by their ids


def train_wordpiece(
    texts: list[str], vocabulary: int = 8192, at_most: bool = False
) -> "Tokenizer":
    """Learn a vocabulary from texts, as BERT's: lower case, no accents, punctuation apart.

    The special tokens have the ids 0 to 4. The same texts always give the same tokenizer.

    Parameters
    ----------
    texts : list of str
    vocabulary : int
        V, special tokens included.
    at_most : bool
        Learn fewer where the texts have no more.

    Returns
    -------
    tokenizers.Tokenizer

    Raises
    ------
    ValueError
        If the texts have too few different words for a vocabulary of this size, or so many
        different characters that they do not fit into it.
    """
    from tokenizers import Tokenizer
    from tokenizers.decoders import WordPiece as Decoder
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.trainers import WordPieceTrainer

    check_texts(texts)
    check_positive_int("vocabulary", vocabulary)
    normalizer, pre_tokenizer = BertNormalizer(lowercase=True), BertPreTokenizer()

    def tokenizer_of(words):
        tokenizer = Tokenizer(WordPiece(words, unk_token=SPECIAL_TOKENS[UNK]))
        tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
        tokenizer.decoder = Decoder()
        return tokenizer

    # Between two pairs of pieces that are equally frequent, the trainer prefers lower ids, and it
    # numbers the letters inside words in the order of a hash table, another in every run. Listed
    # as special tokens they are numbered first, in the order given here.
    words = {
        word
        for text in texts
        for word, _ in pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(text))
    }
    inner = sorted({f"##{character}" for word in words for character in word[1:]})
    trainer = WordPieceTrainer(
        vocab_size=vocabulary,
        special_tokens=[*SPECIAL_TOKENS, *inner],
        show_progress=False,
    )
    learner = tokenizer_of({})
    learner.train_from_iterator(texts, trainer)
    learned = learner.get_vocab()
    if len(learned) > vocabulary or len(learned) < vocabulary and not at_most:
        raise ValueError(
            f"texts: expected enough of them for a vocabulary of {vocabulary}, got "
            f"{len(words)} different words, which make {len(learned)} pieces"
        )
    tokenizer = tokenizer_of(learned)
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    return tokenizer


def load_wordpiece(path: str | Path) -> "Tokenizer":
    """Read a tokenizer that ``tokenizer.save(path)`` wrote."""
    from tokenizers import Tokenizer

    if not isinstance(path, (str, Path)) or not str(path):
        raise ValueError(f"path: expected that of a tokenizer, got {path!r}")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise ValueError(f"{path}: expected a tokenizer, got: {error}") from None
    found = tuple(tokenizer.id_to_token(k) for k in range(len(SPECIAL_TOKENS)))
    if found != SPECIAL_TOKENS:
        raise ValueError(
            f"{path}: expected the first tokens {SPECIAL_TOKENS}, got {found}"
        )
    return tokenizer


def token_ids(tokenizer: "Tokenizer", texts: list[str]) -> list[list[int]]:
    """Return the ids of each text, a list of int for each."""
    check_texts(texts)
    encodings = tokenizer.encode_batch(texts, add_special_tokens=False)
    return [encoding.ids for encoding in encodings]


def check_texts(texts):
    """Raise ``ValueError`` unless texts are a list of strings."""
    if not isinstance(texts, list) or not all(isinstance(t, str) for t in texts):
        raise ValueError(f"texts: expected a list of strings, got {texts!r:.60}")
