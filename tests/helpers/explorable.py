"""How the tests move an explorable, and read what it shows."""

from itertools import product

import numpy as np
from numpy.testing import assert_allclose

PAGES = {
    "step": "110_gradient_check",
    "scramble": "120_linear",
    "simplex": "130_softmax",
    "layer_norm": "150_layer_norm",
    "activations": "160_feed_forward",
    "attention": "210_attention",
    "mask": "215_masks",
    "positions": "230_embedding",
    "optimizers": "240_optimizers",
    "depth": "270_residual",
    "gain": "280_signal_propagation",
    "dropout": "290_dropout",
    "cost": "410_cost",
    "schedule": "250_schedules",
    "balls": "260_steepest_descent",
    "plateau": "360_plateau",
    "heads": "220_multi_head_attention",
    "ring": "450_many_machines",
    "rotary": "520_rotary",
    "byte_pairs": "550_byte_pairs",
    "sampling": "570_sampling",
    "speculative": "575_speculative",
    "few_bits": "590_few_bits",
}


class Explorable:
    """A figure on its page, or alone there, moved by what a reader moves."""

    def __init__(self, view, name, whole_page):
        figure = f"#explorable-{name}"
        self.view = view.open(f"book/{PAGES[name]}", None if whole_page else figure)
        self.tab = view.tab
        self.root = self.tab.locator(f"{figure}.alive")
        self.root.wait_for()
        self.root.locator("summary").evaluate_all("all => all.forEach((each) => each.click())")

    def slide(self, **values):
        move = "(field, to) => { field.value = to; field.dispatchEvent(new Event('input')) }"
        for name, value in values.items():
            self.root.locator(f"input[name={name}]").evaluate(move, value)

    def press(self, name, *keys):
        """Press keys on a handle, which is called by its name or by its label."""
        handle = self.root.locator(
            f'[data-name="{name}"], [aria-label="{name}"]:not(input):not([data-name])'
        )
        for key in keys:
            handle.press(key)

    def click(self, label):
        self.root.get_by_role("button", name=label, exact=True).click()

    def tick(self, name, on=True):
        self.root.locator(f"input[name={name}]").set_checked(on)

    def choose(self, name, value):
        self.root.locator(f"select[name={name}]").select_option(value)

    def shown(self, *names):
        """The numbers under these names, all of whose digits the page keeps."""
        read = """(part, names) => names.map((name) => part.querySelector(
            `[name="${name}"][data-value], [data-name="${name}"][data-value]`).dataset.value)"""
        values = [float(value) for value in self.root.evaluate(read, names)]
        return values[0] if len(values) == 1 else np.array(values)

    def grid(self, name, *lengths):
        """The numbers of an array: ``weight-0-1`` is an entry of ``weight``."""
        places = product(*map(range, lengths))
        names = ("-".join([name, *map(str, place)]) for place in places)
        return self.shown(*names).reshape(lengths)

    def row(self, name, length):
        """The numbers of a row: ``x1`` is an entry of ``x``."""
        return self.shown(*(f"{name}{i}" for i in range(length)))

    def everything(self):
        return self.root.locator("[data-value]").evaluate_all(
            "all => all.map(e => e.dataset.value)"
        )

    def at(self, label):
        handle = self.root.get_by_label(label, exact=True)
        return [float(v) for v in handle.get_attribute("data-value").split(",")]

    def said(self):
        return self.root.locator(".said").inner_text()


def close(shown, expected, rtol=1e-12, atol=1e-14):
    assert_allclose(shown, expected, rtol=rtol, atol=atol)
