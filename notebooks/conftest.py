"""How `make test` compares what cells put out with what is stored: ``pytest --nbval``.

Texts are the same, and so is what is glued; numbers, to what rounding changes from one processor to
another: two in a hundred; in an error below a millionth, a factor of 10. Drawings are there. Cells
with the tag ``nbval-ignore-output`` print ratios of rounding errors, which have no right value.
"""

import re
from itertools import starmap
from math import isclose

from nbval.plugin import IPyNbCell

NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?")


class Text(str):
    """A text that is equal to another but for white space and the rounding of numbers."""

    __hash__ = str.__hash__

    def __eq__(self, stored):
        if "<svg" in self:
            return "<svg" in stored
        words, others = (NUMBER.sub("#", text).split() for text in (self, stored))
        numbers = zip(NUMBER.findall(self), NUMBER.findall(stored), strict=False)
        return words == others and all(starmap(same, numbers))

    def __ne__(self, stored):
        return not self == stored


def same(number, stored):
    small, large = sorted(abs(float(each)) for each in (number, stored))
    rounding = large < 1e-6 and large <= 10 * max(small, 1e-14)
    return rounding or isclose(float(number), float(stored), rel_tol=0.02)


def compare_what_is_shown(cell, outputs, stored):
    """Compare as nbval does, which does not know that a semicolon hides the value of a cell."""
    if cell.cell.source.rstrip().endswith(";"):
        outputs = [
            output for output in outputs if output["output_type"] != "execute_result"
        ]
    return compare(cell, outputs, stored)


compare = IPyNbCell.compare_outputs
IPyNbCell.compare_outputs = compare_what_is_shown
IPyNbCell.sanitize = lambda cell, text: Text(text)
