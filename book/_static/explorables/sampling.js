// The distribution of the next token, setting after setting, in the order of the package.
"use strict";
explore("sampling", ({ stage, controls, say }) => {
  const { canvas, cell, choice, draw, number, readouts, show, slider, table } = explore;
  const WORDS = ["mice", "birds", "balls", "flies", "leaves", "string", "shadows", "dogs", "cars", "trains", "ideas", "stars"];
  const N = WORDS.length, TEXTS = {
    sure: { text: "cats chase", weights: [61, 8, 8, 4, 2, 2, 1, 1, 1, 1, 1, 1] },
    doubt: { text: "she drew", weights: [13, 11, 11, 10, 9, 8, 7, 6, 5, 4, 2, 1] },
  };
  const STAGES = { model: "the model", temperature: "temperature", top_k: "top-k", top_p: "top-p", min_p: "min-p" };
  const state = { text: "sure", temperature: 1, top_k: N, top_p: 0.9, min_p: 0.05 };

  const softmax = (z) => [...core.softmax(core.from([z]))[0].data];
  const sum = (values) => values.reduce((total, v) => total + v, 0);
  const ruledOut = (z, keep) => z.map((v, n) => (keep(v, n) ? v : -Infinity));
  const falling = (values) => [...values].sort((a, b) => b - a);
  const RULES = {
    model: (z) => z,
    temperature: (z) => {
      const below = z.map((v) => v - Math.max(...z)), { temperature } = state;
      return temperature === 0 ? ruledOut(z, (_, n) => below[n] === 0) : below.map((v) => v / temperature);
    },
    top_k: (z) => {
      const least = falling(z)[state.top_k - 1];
      return ruledOut(z, (v) => v >= least);
    },
    top_p: (z) => {
      if (state.top_p === 1) return z;
      const p = softmax(z);
      let above = 0, least = 1;
      for (const v of falling(p)) {
        if (above < state.top_p) least = v;
        above += v;
      }
      return ruledOut(z, (_, n) => p[n] >= least);
    },
    min_p: (z) => {
      const p = softmax(z), least = state.min_p * Math.max(...p);
      return ruledOut(z, (_, n) => p[n] >= least);
    },
  };

  // The distribution after each setting, and which setting has removed a word.
  const run = () => {
    let z = TEXTS[state.text].weights.map(Math.log);
    const after = {}, removed = {};
    for (const [name, rule] of Object.entries(RULES)) {
      const next = rule(z);
      next.forEach((v, n) => { if (v === -Infinity && z[n] > -Infinity) removed[n] = STAGES[name]; });
      z = next;
      after[name] = softmax(z);
    }
    return { after, removed };
  };

  const width = Math.max(270, Math.min(stage.clientWidth, 640)), ROW = 23, LEFT = 66, RIGHT = width - 58;
  const drawing = canvas(stage, width, N * ROW + 4, "The probability of each word: of the model, and after all settings");
  const rows = WORDS.map((word, n) => {
    const y = n * ROW;
    draw(drawing, "text", { x: LEFT - 8, y: y + 16, "text-anchor": "end" }, word);
    return {
      given: draw(drawing, "rect", { x: LEFT, y: y + 2, height: ROW - 5, fill: "none", stroke: "var(--soft)", "stroke-dasharray": "4 3" }),
      bar: draw(drawing, "rect", { x: LEFT, y: y + 5, height: ROW - 11, fill: "var(--blue)" }),
      text: draw(drawing, "text", { x: width, y: y + 16, "text-anchor": "end", name: `q-${n}` }),
    };
  });

  const cells = Object.fromEntries(Object.keys(STAGES).map((name) =>
    [name, ["kept", "mass", "entropy"].map((what) => cell(`${what}-${name}`))]));
  stage.append(table(["in this order", "words", "mass m", "entropy H"], Object.entries(STAGES).map(([name, text], n) =>
    [n ? `${n}. ${text}` : text, ...cells[name]])));
  const write = readouts(stage, { distance: "½ Σ |q − p| =", cut: "1 − m =", divergence: "KL(q ‖ p) =", "minus-log": "−ln m =" });
  const exactly = (element, value) => show(element, value, number(value, 3));

  const update = (move = "") => {
    const { after, removed } = run(), { model, temperature: p, min_p: q } = after;
    const most = Math.max(...model, ...q);
    rows.forEach(({ given, bar, text }, n) => {
      given.setAttribute("width", ((RIGHT - LEFT) * model[n]) / most);
      bar.setAttribute("width", ((RIGHT - LEFT) * q[n]) / most);
      show(text, q[n], removed[n] ?? number(q[n], 3));
      text.style.fill = removed[n] ? "var(--soft)" : "";
    });
    const massOf = (name) => sum(p.filter((_, n) => after[name][n] > 0));
    for (const [name, [kept, mass, entropy]] of Object.entries(cells)) {
      const remaining = after[name].filter((v) => v > 0);
      show(kept, remaining.length, String(remaining.length));
      exactly(mass, massOf(name));
      exactly(entropy, 0 - sum(remaining.map((v) => v * Math.log(v))));
    }
    const m = massOf("min_p");
    const distances = {
      distance: sum(q.map((v, n) => Math.abs(v - p[n]))) / 2, cut: 1 - m,
      divergence: sum(q.map((v, n) => (v ? v * Math.log(v / p[n]) : 0))), "minus-log": -Math.log(m),
    };
    for (const [name, value] of Object.entries(distances)) write[name](value, number(value, 3));
    const words = WORDS.filter((_, n) => q[n] > 0);
    say(`${move} ${words.length === N ? "All words remain" : `${words.length === 1 ? "One word remains" : `${words.length} words remain`}: ${words.join(", ")}`}. Mice has ${number(q[0], 3)}.`);
  };

  choice(controls, { name: "text", label: "the text so far", value: state.text,
    options: { sure: "cats chase: the model is sure", doubt: "she drew: it is in doubt" } }, (name) => {
    state.text = name;
    update(`After “${TEXTS[name].text}”.`);
  });
  const setting = (name, label, settings) => slider(controls, { name, label, value: state[name], ...settings }, (value) => {
    state[name] = value;
    update(`${label} ${(settings.format ?? number)(value)}.`);
  });
  setting("temperature", "temperature τ", { min: 0, max: 3, step: 0.1, format: (v) => number(v, 1) });
  setting("top_k", "top-k", { min: 1, max: N, step: 1, format: String });
  setting("top_p", "top-p, ρ", { min: 0.01, max: 1, step: 0.01 });
  setting("min_p", "min-p, μ", { min: 0, max: 1, step: 0.01 });
  update();
});
