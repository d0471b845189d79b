// Who may attend to whom: a mask to edit, and what becomes of weights and outputs.
explore("mask", ({ stage, controls, say }) => {
  const { button, choice, fraction, make, number, output, show, slider, table } = explore;
  const WORDS = ["cats", "chase", "mice", "pad"], N = WORDS.length, LN4 = 2 * Math.LN2;
  const query = core.map(core.from([[-1, 0, 0, 1], [2, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]]), (v) => LN4 * v);
  const key = core.from([[1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 1, 0], [1, 1, 1, 0]]);
  const value = core.from([[1, 5], [-2, 4], [-1, 2], [4, 1]]);
  const state = { keep: core.nested(core.causalKeep(N)), after: false, length: 1, reader: 2 };

  const run = (length) => {
    const longer = core.map(key, (v, n) => (Math.floor(n / 4) === 2 ? length * v : v)), keep = core.mask(state.keep);
    if (!state.after) {
      const [output, { weights }] = core.attention(query, longer, value, keep);
      return { output: core.nested(output), weights: core.nested(weights) };
    }
    const hidden = core.map(core.attention(query, longer, value)[1].weights, (v, n) => v * keep.data[n]);
    return { output: core.nested(core.linear(hidden, value)[0]), weights: core.nested(hidden) };
  };

  // The sentence as one of its words reads it: the more weight, the higher the ink.
  const sentence = stage.appendChild(make("p", { className: "ink" }));
  const words = WORDS.map((word, t) => button(sentence, word, () => {
    state.reader = t;
    paint();
    const read = WORDS.filter((_, s) => Number(cells[t][s].dataset.value) > 0);
    say(read.length ? `${word} reads ${read.join(", ")}.` : `${word} reads nothing.`);
  }));

  // The grid: a row a query, a column a key.
  const cells = WORDS.map((asks, t) => WORDS.map((found, s) => {
    const press = () => {
      state.keep[t][s] = 1 - state.keep[t][s];
      state.reader = t;
      paint();
      say(state.keep[t].some(Boolean)
        ? `${asks} ${state.keep[t][s] ? "may" : "may not"} attend to ${found}; its weights sum to ${number(sum(t))}.`
        : `${asks} may attend to nothing: its weights and its output are 0, and not 0/0.`);
    };
    return make("button", { type: "button", ariaLabel: `${asks} attends to ${found}`, name: `weight-${t}-${s}`, onclick: press });
  }));
  explore.grid(cells);
  const sums = WORDS.map((_, t) => output(`sum-${t}`)), moves = WORDS.map((_, t) => output(`moved-${t}`));
  const outputs = WORDS.map((_, t) => [0, 1].map((c) => output(`output-${t}-${c}`)));
  const grid = table(["", ...WORDS, "sum"], WORDS.map((word, t) => [word, ...[...cells[t], sums[t]].map((part) => make("td", {}, part))]), "keep values");
  grid.role = "grid";
  stage.append(make("div", { className: "panels" }, grid, table(["", "output", "moved by the key"], WORDS.map((word, t) =>
    [word, make("td", {}, outputs[t][0], ", ", outputs[t][1]), make("td", {}, moves[t])]))));

  const sum = (t) => Number(sums[t].dataset.value);
  const causal = core.nested(core.causalKeep(N)), padding = core.nested(core.paddingKeep([3], N))[0][0][0];
  const preset = (label, keep, text) => button(controls, label, () => {
    state.keep = WORDS.map((_, t) => WORDS.map((_, s) => keep(t, s)));
    paint();
    say(text);
  });
  preset("No mask", () => 1, "Every place attends to every place, the padding too.");
  preset("Causal", (t, s) => causal[t][s], "No place attends to a later one.");
  preset("Padding", (t, s) => padding[s], "No place attends to the padding.");
  preset("Both", (t, s) => causal[t][s] * padding[s], "No place attends to a later one, nor to the padding.");
  preset("An empty row", (t) => (t === 1 ? 0 : 1), "chase may attend to nothing: its weights and its output are 0, and not 0/0.");
  choice(controls, { name: "after", label: "the mask acts", value: "", options: { "": "in the softmax", after: "after it (a mistake)" } }, (chosen) => {
    state.after = chosen === "after";
    paint();
    say(state.after ? `Hidden keys stay in the denominators: the rows sum to ${WORDS.map((_, t) => number(sum(t))).join(", ")}.`
      : "Each row sums to 1 over the keys that are kept.");
  });
  slider(controls, { name: "length", label: "key of mice ×", min: 0, max: 3, step: 0.1, value: 1, format: (v) => number(v, 1) }, (length) => {
    state.length = length;
    paint();
    const moved = WORDS.filter((_, t) => Number(moves[t].dataset.value) > 1e-12);
    say(moved.length ? `The longer key has moved the output of ${moved.join(", ")}.` : "No output has moved.");
  });

  const paint = () => {
    const { output, weights } = run(state.length), before = run(1).output;
    WORDS.forEach((_, t) => {
      weights[t].forEach((weight, s) => {
        const cell = cells[t][s], kept = state.keep[t][s] === 1;
        cell.ariaPressed = kept;
        show(cell, weight, kept ? fraction(weight) : "·");
        cell.style.background = kept ? `color-mix(in srgb, var(--key) ${Math.round(40 * weight)}%, var(--paper))` : "";
      });
      words[t].ariaPressed = t === state.reader;
      words[t].style.setProperty("--ink-height", `${100 * weights[state.reader][t]}%`);
      const total = weights[t].reduce((a, b) => a + b, 0);
      show(sums[t], total, number(total));
      sums[t].style.color = Math.abs(total - 1) < 1e-9 || total === 0 ? "" : "var(--wrong)";
      outputs[t].forEach((element, c) => show(element, output[t][c]));
      show(moves[t], Math.hypot(...output[t].map((v, c) => v - before[t][c])));
    });
  };

  paint();
  say("Under the causal mask lengthen the key of mice: the words before it do not move. Then let the mask act after the softmax.");
});
