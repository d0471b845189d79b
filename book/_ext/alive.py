"""The trained models in the page: the directives ``{mini-bert}``, ``{mini-bert} front`` and
``{date-reader}``.

The body is the caption. A notebook glues, as JSON under the key ``alive``, answers of the model in
8 bits: they are shown until the reader asks for the model, and without scripts. The weights are
``_static/models/NAME.js``, which the notebook writes and no page links.
"""

import json
from html import escape
from pathlib import Path

from figures import Figure, glued_values

STATIC = Path(__file__).parents[1] / "_static"


class LiveModel(Figure):
    """A trained model that the reader asks in the page; ``front`` is its small form."""

    optional_arguments = 1
    model: str
    notebook: str

    def run(self):
        values = glued_values(self.env.app.notebooks[self.notebook])
        size = (STATIC / "models" / f"{self.model}.js").stat().st_size
        data = {"megabytes": size / 1e6, **json.loads(values["alive"])}
        html = f'{self.data(data)}<div class="stage">{self.still(data["examples"][0])}</div>'
        self.load(
            "core.js", "explore.js", "models.js", "models.css", f"explorables/{self.model}.js"
        )
        classes = "explorable", "model", *self.arguments
        return self.figure(html, classes, f"explorable-{self.model}")


class MiniBert(LiveModel):
    model, notebook = "mini_bert", "notebooks/350_train_bert"

    @staticmethod
    def still(example):
        """The sentence with its gap filled, the five likeliest words, and what they came from."""
        best = example["words"][0][0]
        before, after = map(escape, example["sentence"].split("___"))
        rows = "".join(
            f'<tr><th scope="row">{escape(word)}</th><td><span class="bar" '
            f'style="width: {100 * p:.1f}%"></span></td><td>{100 * p:.1f} %</td></tr>'
            for word, p in example["words"]
        )
        longest = max(example["norms"])
        tokens = "".join(
            f'<span><span class="bar" style="height: {3 * norm / longest:.2f}rem"></span>'
            f"{escape(token)}<small>{norm:.2f}</small></span>"
            for token, norm in zip(example["tokens"], example["norms"], strict=True)
        )
        return (
            f'<p class="sentence">{before}<mark>{escape(best)}</mark>{after}</p>'
            f'<table class="guesses">{rows}</table><div class="tokens">{tokens}</div>'
        )


class DateReader(LiveModel):
    model, notebook = "date_reader", "notebooks/335_train_encoder_decoder"

    @staticmethod
    def still(example):
        """The written characters below each other, with what each of them looks at."""
        head = "".join(f"<th>{escape(c)}</th>" for c in example["text"])
        rows = "".join(
            f"<tr><th>{written}</th>"
            + "".join(f'<td style="--weight: {w}"></td>' for w in row)
            + "</tr>"
            for written, row in zip(example["answer"], example["weights"], strict=True)
        )
        return (
            f'<p class="sentence">{escape(example["text"])} → '
            f"<mark>{example['answer']}</mark></p>"
            f'<div class="map"><table><tr><td></td>{head}</tr>{rows}</table></div>'
        )


def setup(app):
    app.add_directive("mini-bert", MiniBert)
    app.add_directive("date-reader", DateReader)
    return {"parallel_read_safe": True}
