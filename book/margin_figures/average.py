"""The output of *chase* is an average of the three values: it cannot leave their triangle."""

from graphs import row
from margin_figures import Sketch

from book.sentence import KEY, QUERY, TOKENS, VALUE
from transformer_core.ops import attention

output, cache = attention(QUERY, KEY, VALUE)
weights = cache.weights[1]

sketch = Sketch(x=(-3.1, 2.1), y=(1.6, 5.4))
sketch.area(*VALUE.T, "face")
for value in VALUE:
    sketch.thin(*zip(output[1], value, strict=True), "value")
sides = [((-8, 2), "end"), ((0, -8), "middle"), ((8, 4), "start")]
for value, token, side in zip(VALUE, TOKENS, sides, strict=True):
    sketch.dots(*value, "value")
    sketch.text(*value, token, "value", *side)
sketch.dots(*output[1])
sketch.text(*output[1], "*o*", offset=(9, 5), anchor="start")
sketch.alt = (
    f"A triangle with the values {row(VALUE)} of {', '.join(TOKENS)} at its corners. Inside it "
    f"the output {row(output[1])} of {TOKENS[1]}, their average under the weights {row(weights)}."
)
