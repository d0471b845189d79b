"""An encoder-decoder with its characters: it reads dates."""

from collections.abc import Iterable
from math import exp

from transformer_core.foundation.checks import check_positive_int
from transformer_core.models import EncoderDecoder, greedy_search
from transformer_core.ops import cross_entropy
from transformer_core.tasks.dates.characters import END, PAD, START, Characters, strings
from transformer_core.tasks.dates.data import normalise


class DateReader:
    """Reads dates as people write them, and writes them in ISO 8601.

    Parameters
    ----------
    model : EncoderDecoder
    source, target : Characters
        The vocabularies of the model.
    """

    def __init__(self, model: EncoderDecoder, source: Characters, target: Characters):
        self.model, self.source, self.target = model, source, target

    def read(self, texts: Iterable[str], together: int = 256) -> list[str]:
        """Return what the model writes for each text, by greedy search.

        It writes something for every text, and nothing makes sure that it is a date.

        Parameters
        ----------
        texts : iterable of str
            Normalised first, see :func:`normalise`.
        together : int
            How many are read at once.

        Returns
        -------
        list of str
        """
        check_positive_int("together", together)
        texts = [self.prepare(text) for text in strings("texts", texts)]
        # Texts of like length together: little padding.
        order = sorted(range(len(texts)), key=lambda n: len(texts[n]))
        answers = [""] * len(texts)
        for first in range(0, len(texts), together):
            rows = order[first : first + together]
            ids, lengths = self.source.encode([texts[row] for row in rows])
            written, _ = greedy_search(
                self.model, ids, lengths, start=START, end=END, padding=PAD
            )
            for row, target in zip(rows, written, strict=True):
                answers[row] = self.target.decode(target)
        return answers

    def probability(self, text: str, answer: str) -> float:
        """Return the probability that the model gives to an answer, its end included."""
        source, _ = self.source.encode([self.prepare(text)])
        target, _ = self.target.encode([answer], framed=True)
        logits, _ = self.model.forward(source, target[:, :-1])
        loss, _ = cross_entropy(logits, target[:, 1:])
        return exp(-float(loss) * (target.shape[1] - 1))

    def prepare(self, text: str) -> str:
        """Return the text normalised; raise ``ValueError`` unless the model can read it."""
        text = normalise(text)
        self.source.check(text)
        longest = self.model.longest_source
        if len(text) > longest:
            raise ValueError(
                f"{text!r}: expected at most {longest} characters, got {len(text)}"
            )
        return text
