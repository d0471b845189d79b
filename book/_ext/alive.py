"""The trained models in the page: the directives ``{mini-bert}``, ``{mini-bert} front``,
``{date-reader}`` and ``{writing-gpt}``.

The body is the caption. A notebook glues, as JSON under the key ``alive``, answers of the model in
8 bits: they are shown until the reader asks for the model, and without scripts. Those of the GPT
are computed by the build, with the functions that its page calls. The weights are in
``_static/models/NAME.js``, to which no page links. ``studies.page_bert``, ``studies.page_dates``
and ``studies.page_gpt`` write them.
"""

import json
from functools import cache
from html import escape
from pathlib import Path

from figures import Figure, glued_values

from book.living_models import read_script
from transformer_core.tasks.gpt import why
from transformer_practice.workspace import writer

STATIC = Path(__file__).parents[1] / "_static"
PROMPT, SAMPLING, LONGEST = "Return the", '{"temperature": 0.8, "top_p": 0.9}', 40


class LiveModel(Figure):
    """A trained model that the reader asks in the page; ``front`` is its small form."""

    optional_arguments = 1
    model: str
    notebook: str
    scripts: tuple[str, ...] = ()  # that its own needs, beside those of all models

    def alive(self):
        """What is shown before the model is asked for."""
        values = glued_values(self.env.app.notebooks[self.notebook])
        return json.loads(values["alive"])

    def run(self):
        size = (STATIC / "models" / f"{self.model}.js").stat().st_size
        data = {"megabytes": size / 1e6, **self.alive()}
        html = f'{self.data(data)}<div class="stage">{self.still(data["examples"][0])}</div>'
        shared = "core.js", "explore.js", "models.js", "models.css"
        self.load(*shared, *self.scripts, f"explorables/{self.model}.js")
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


class WritingGpt(LiveModel):
    model = "gpt"
    scripts = "live.js", "live.css"

    def alive(self):
        self.depend_on(STATIC / "models/gpt.js", Path(writer.__file__), Path(why.__file__))
        return {"examples": [written()]}

    @staticmethod
    def still(example):
        """A text with the probability of its tokens, and the two answers to one question."""
        tokens, asked, found = example["tokens"], example["asked"], example["why"]
        largest = [max(map(abs, found[name])) for name in ("lengths", "changes")]

        def bars(n):
            if n >= asked:
                return ""
            shares = abs(found["lengths"][n]) / largest[0], abs(found["changes"][n]) / largest[1]
            return "".join(
                f'<span class="{name}" style="height: {share:.0%}"></span>'
                for name, share in zip(("bar", "bar without"), shares, strict=True)
            )

        chips = "".join(
            f'<span class="token" style="--p: {token.get("p", 0):.3f}">'
            f'<span class="bars">{bars(n)}</span><span>{escape(visible(token, n))}</span>'
            f"<small>{percent(token['p']) if n else ''}</small></span>"
            for n, token in enumerate(tokens)
        )
        rows = "".join(
            f'<tr><th scope="row">{escape(visible(rival))}</th>'
            f'<td><span class="bar" style="width: {rival["p"]:.1%}"></span></td>'
            f"<td>{percent(rival['p'])}</td></tr>"
            for rival in tokens[asked]["rivals"]
        )
        return f'<div class="written">{chips}</div><table class="guesses">{rows}</table>'


@cache
def written():
    """A text that the GPT of the page writes, and why it has written a token of it."""
    settings, weights = read_script(STATIC / "models/gpt.js")
    writer.open_model(json.dumps(settings), {name: a.ravel() for name, a in weights.items()})
    tokens = json.loads(writer.begin(PROMPT))
    while len(tokens) < LONGEST and not tokens[-1].get("ends"):
        ids = json.dumps([token["id"] for token in tokens])
        tokens.append(json.loads(writer.write(ids, SAMPLING, 0)))
    asked = len(tokens) - 2
    ids = json.dumps([token["id"] for token in tokens[: asked + 1]])
    found = json.loads(writer.why(ids))
    lesson = json.loads(writer.learn("Cats chase mice through the open window.", 0.001))
    return {"tokens": tokens, "asked": asked, "why": found, "lesson": lesson}


def visible(token, place=None):
    """The text of a token, with a mark for a blank and for a new line."""
    text = token["text"].replace(" ", "·").replace("\n", "↵")
    return text or ("start" if place == 0 else "end")


def percent(p):
    digits = 0 if p >= 0.0995 else 1 if p >= 0.01 else 2
    return "< 0.01 %" if p < 0.0001 else f"{100 * p:.{digits}f} %"


def setup(app):
    app.add_directive("writing-gpt", WritingGpt)
    app.add_directive("mini-bert", MiniBert)
    app.add_directive("date-reader", DateReader)
    return {"parallel_read_safe": True}
