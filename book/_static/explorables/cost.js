// What a training step costs: the formulas of the page, part by part.
"use strict";
explore("cost", ({ stage, controls, say }) => {
  const { draw, make, number, power } = explore;
  const PARTS = {
    embeddings: "soft", projections: "blue", attention: "red", "feed-forward": "green", "norms, sums": "purple",
    "output layer, loss": "orange", update: "sky",
  };
  // A model's sizes, and what it has besides the parts of every encoder. Without tables it reads vectors;
  // with S it is an encoder that reads S positions of another vocabulary, and a decoder as deep that writes T.
  const page = { B: 8, T: 64, D: 192, H: 4, F: 768, V: 8192, L: 3, tables: true, share: 0.15, finalNorm: true };
  const MODELS = {
    bert8: { ...page, text: "Mini-BERT, 8 sequences" },
    bert32: { ...page, text: "Mini-BERT, 32 sequences", B: 32 },
    trained: { ...page, text: "Mini-BERT as it is trained", B: 16, share: 0.3, tied: true, embeddingNorm: true, gelu: true },
    encoder: { text: "the encoder that reconstructs", B: 32, T: 16, D: 64, H: 4, F: 256, V: 64, L: 2, biased: true },
    dates: { text: "the encoder–decoder that reads dates", B: 64, S: 35, T: 11, D: 64, H: 4, F: 256, V: 14, L: 2, sources: 162,
      tables: true, share: 1, tied: true, biased: true },
    base: { text: "BERT-base", B: 32, T: 512, D: 768, H: 12, F: 3072, V: 30522, L: 12, tables: true, share: 0.15, tied: true, segments: 2,
      embeddingNorm: true, biased: true, gelu: true },
    seven: { text: "a GPT of 7 billion (GPT-3 6.7B)", B: 8, T: 2048, D: 4096, H: 32, F: 16384, V: 50257, L: 32, tables: true, share: 1,
      tied: true, finalNorm: true, biased: true, gelu: true },
  };
  // A story in three steps: a model, the tokens that it is to read, and a machine by its two roofs.
  const LAPTOP = { rate: 100e9, bandwidth: 40e9 };
  const STORY = [
    { label: "1. Mini-BERT on a laptop", name: "trained", tokens: 3200 * 16 * 64, ...LAPTOP },
    { label: "2. BERT-base on the same laptop", name: "base", tokens: 1e6 * 256 * 512, ...LAPTOP },
    { label: "3. Seven billion on an accelerator", name: "seven", tokens: 1e12, rate: 10 ** 14.5, bandwidth: 10 ** 12.5 },
  ];
  const LETTERS = { B: "sequences B", T: "positions T", D: "width D", H: "heads H", F: "hidden F", V: "vocabulary V", L: "layers L" };
  // Powers of 2, and halfway between them; two steps double.
  const NICE = Array.from({ length: 40 }, (_, n) => (n % 2 ? 3 : 2) * 2 ** (n >> 1) / 2).filter(Number.isInteger);
  const RANGES = { B: [1, 256], T: [1, 8192], D: [4, 8192], H: [1, 64], F: [4, 32768], V: [8, 131072], L: [1, 96] };
  const valuesOf = (letter) => {
    const [low, high] = RANGES[letter], extra = Object.values(MODELS).map((model) => model[letter]);
    return [...new Set([...NICE, ...extra])].filter((v) => v >= low && v <= high).sort((a, b) => a - b);
  };
  const START = "bert8";
  let state = { name: START, ...MODELS[START], every: false, square: true, tokens: STORY[0].tokens, ...LAPTOP };

  const total = (parts) => Object.values(parts).reduce((sum, v) => sum + v, 0);
  const halfToEven = (v) => (Math.abs(v % 1) === 0.5 ? 2 * Math.round(v / 2) : Math.round(v));
  const rowsRead = ({ B, T, tables, share, every }) => (tables && !every ? Math.max(1, halfToEven(share * B * T)) : B * T);

  // The attentions of a layer of each stack, with their queries and keys; the lengths of the stacks.
  const attentions = ({ S, T }) => (S ? [{ q: S, k: S }, { q: T, k: T }, { q: T, k: S, cross: true }] : [{ q: T, k: T }]);
  const lengths = ({ S, T }) => (S ? [S, T] : [T]);

  // The products of a forward pass: how many, and their three sizes.
  const products = (model) => {
    const { B, D, H, F, V, L, tables } = model, K = D / H;
    return {
      projections: attentions(model).flatMap(({ q, k, cross }) => (cross
        ? [[L, B * q, D, D], [L, B * k, D, 2 * D], [L, B * q, D, D]] : [[L, B * q, D, 3 * D], [L, B * q, D, D]])),
      attention: attentions(model).flatMap(({ q, k }) => [[L * B * H, q, K, k], [L * B * H, q, k, K]]),
      "feed-forward": lengths(model).flatMap((t) => [[L, B * t, D, F], [L, B * t, F, D]]),
      "output layer, loss": [[1, rowsRead(model), D, tables ? V : D]],
    };
  };

  const count = (model) => {
    const { B, S, T, D, H, F, V, L, tables, sources, tied, segments = 0, embeddingNorm, finalNorm, biased, gelu, rate,
      bandwidth } = model;
    const n = B * T, M = rowsRead(model), outputs = tables ? V : D;
    const pairs = attentions(model), stacks = lengths(model);
    const norms = S ? [2 * L + 1, 3 * L + 1] : [2 * L + Number(Boolean(embeddingNorm)) + Number(Boolean(finalNorm))];
    const over = (list, f) => list.reduce((sum, item, at) => sum + f(item, at), 0);
    const rows = S ? M * D : n * D + M * D;  // what is read out, and where the rows were taken from
    const parameters = {
      embeddings: !tables ? 0 : S ? (sources + V) * D : (V + T + segments) * D,
      projections: pairs.length * L * (4 * D * D + (biased ? 4 * D : 0)),
      "feed-forward": stacks.length * L * (2 * D * F + F + D),
      "norms, sums": total(norms) * 2 * D,
      "output layer, loss": (tied ? 0 : D * outputs) + outputs,
    };
    const kept = {
      embeddings: !tables ? 0 : S ? 8 * B * (S + T) : 8 * (n * (segments ? 2 : 1) + T),
      projections: over(pairs, ({ q }) => 4 * L * 2 * B * q * D) + (S ? 4 * B * S * D : 0),
      attention: over(pairs, ({ q, k }) => 4 * L * ((q + 2 * k) * B * D + B * H * q * k)),
      "feed-forward": over(stacks, (t) => L * B * t * (4 * (D + F) + F * (gelu ? 8 : 1))),
      "norms, sums": over(stacks, (t, at) => 4 * norms[at] * B * t * (D + 1)),
      "output layer, loss": tables ? 4 * (rows + M * V + M) + (S ? 8 : 16) * M : 8 * n * D,
    };
    const all = total(parameters), logits = 4 * M * outputs;
    const operations = {}, time = {}, intensity = {};
    for (const [part, list] of Object.entries(products(model))) {
      operations[part] = 3 * list.reduce((sum, [many, a, b, c]) => sum + many * 2 * a * b * c, 0);
      const moved = 3 * list.reduce((sum, [many, a, b, c]) => sum + many * 4 * (a * b + b * c + a * c), 0);
      intensity[part] = operations[part] / moved;
      time[part] = Math.max(operations[part] / rate, moved / bandwidth);
    }
    time.update = (32 * all) / bandwidth;
    return { parameters, kept, operations, time, intensity, masked: M,
      peak: { "parameters, moments": 12 * all, kept: total(kept), last: Math.max(logits, 4 * all - logits) } };
  };

  // How large numbers are written.
  const scaled = (v, units) => {
    const [size, unit] = units.find(([limit]) => v >= limit) ?? units[units.length - 1];
    return `${number(v / size, v / size >= 100 ? 0 : v / size >= 10 ? 1 : 2)} ${unit}`;
  };
  const exact = (v) => v.toLocaleString("en");
  const operationsText = (v) => (v < 1e7 ? exact(v)
    : v < 1e15 ? scaled(v, [[1e12, "trillion"], [1e9, "billion"], [1e6, "million"]]) : power(v, 2));
  const bytes = (v) => scaled(v, [[1e15, "PB"], [1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "bytes"]]);
  const seconds = (v) => scaled(v, [[31557600, "years"], [86400, "days"], [3600, "h"], [60, "min"], [1, "s"], [1e-3, "ms"], [1e-6, "µs"]]);
  const times = (v) => (v < 1000 ? number(v) : power(v, 2));
  const ROWS = {
    parameters: ["parameters", exact], operations: ["operations of a step", operationsText],
    kept: ["bytes kept for the backward pass", bytes], peak: ["bytes at the peak", bytes],
    time: ["time of a step, at least", seconds],
  };
  const PEAK = { "parameters, moments": "soft", kept: "sky", last: "orange" };

  const width = Math.max(270, Math.min(stage.clientWidth, 640)), ROW = 52, BAR = 17;
  const left = 46, right = width - 14, top = 5 * ROW + 34, bottom = top + 170;
  const X = [-1.5, 3.5], Y = [8, 15];  // powers of ten
  const across = (v) => left + ((Math.log10(v) - X[0]) / (X[1] - X[0])) * (right - left);
  const down = (v) => bottom - ((Math.log10(v) - Y[0]) / (Y[1] - Y[0])) * (bottom - top);
  const drawing = explore.canvas(stage, width, bottom + 40,
    "Bars for parameters, operations, bytes and time, each by parts; under them the two roofs, whose corner can be dragged");
  for (let n = Math.ceil(X[0]); n <= X[1]; n += 1)
    draw(drawing, "text", { x: across(10 ** n), y: bottom + 16, "text-anchor": "middle", class: "soft" }, n < 0 ? "0.1" : exact(10 ** n));
  for (let n = Y[0] + 1; n <= Y[1]; n += 3)
    draw(drawing, "text", { x: left - 6, y: down(10 ** n) + 4, "text-anchor": "end", class: "soft" }, ["10⁹", "10¹²", "10¹⁵"][(n - 9) / 3]);
  draw(drawing, "text", { x: right, y: bottom + 34, "text-anchor": "end", class: "soft" }, "operations a byte");
  draw(drawing, "text", { x: left, y: top - 10, class: "soft" }, "operations a second; drag the corner");
  draw(drawing, "path", { d: `M ${left} ${top} V ${bottom} H ${right}`, class: "axis" });
  const picture = draw(drawing, "g");
  const tenth = (v) => 10 ** (Math.round(Math.log10(v) * 20) / 20);
  const within = (v, [low, high]) => Math.min(high, Math.max(low, v));
  const RATE = [9, 14.5], BANDWIDTH = [9, 13];
  const corner = explore.handle(drawing, { label: "corner of the two roofs", name: "corner", axes: "xy", radius: 11,
    step: (right - left) / (X[1] - X[0]) / 10 }, (x, y) => {
    const rate = tenth(10 ** within(Y[0] + ((bottom - y) / (bottom - top)) * (Y[1] - Y[0]), RATE));
    const balance = 10 ** within(X[0] + ((x - left) / (right - left)) * (X[1] - X[0]), X);
    Object.assign(state, { rate, bandwidth: tenth(10 ** within(Math.log10(rate / balance), BANDWIDTH)) });
    update();
  });

  const drawRow = (key, n, parts, before) => {
    const [label, written] = ROWS[key], y = n * ROW + 16, sum = total(parts), growth = sum / total(before);
    draw(picture, "text", { x: 0, y, class: "soft" }, label);
    explore.show(draw(picture, "text", { x: width, y, "text-anchor": "end" }), sum, `${written(sum)}${Math.abs(growth - 1) < 1e-9 ? "" : ` (× ${times(growth)})`}`, key);
    let x = 0;
    for (const [part, value] of Object.entries(parts)) {
      const colour = key === "peak" ? PEAK[part] : PARTS[part];
      const bar = draw(picture, "rect", { x, y: y + 8, width: (value / sum) * width, height: BAR, fill: `var(--${colour})`,
        "data-name": `${key} ${part}`, "data-value": value });
      draw(bar, "title", {}, `${part}: ${written(value)}, ${number((100 * value) / sum, 0)} %`);
      x += (value / sum) * width;
    }
  };

  const drawRoofs = ({ intensity }) => {
    const { rate, bandwidth } = state, balance = rate / bandwidth;
    const floor = 10 ** X[0], points = [[floor, floor * bandwidth], [balance, rate], [10 ** X[1], rate]]
      .filter(([i]) => i >= floor && i <= 10 ** X[1]);
    draw(picture, "path", { d: points.map(([i, r], n) => `${n ? "L" : "M"} ${across(i)} ${down(Math.max(r, 10 ** Y[0]))}`).join(" "),
      fill: "none", stroke: "var(--ink)", "stroke-width": 2 });
    for (const [part, i] of Object.entries(intensity)) {
      const reached = Math.min(rate, i * bandwidth);
      const dot = draw(picture, "circle", { cx: across(within(i, [floor, 10 ** X[1]])), cy: down(reached), r: 6, fill: `var(--${PARTS[part]})`,
        stroke: "var(--paper)", "stroke-width": 1.5, "data-name": `intensity ${part}`, "data-value": i });
      draw(dot, "title", {}, `${part}: ${number(i, 1)} operations a byte`);
    }
    corner.place(across(balance), down(rate), `${operationsText(rate)} operations a second, ${bytes(bandwidth)} a second`);
  };

  const update = (move = "") => {
    const now = count(state), before = count({ ...state, ...MODELS[state.name], every: false });
    choice.value = Object.keys(LETTERS).every((letter) => state[letter] === (MODELS[state.name][letter] ?? state[letter])) ? state.name : "";
    picture.replaceChildren();
    Object.keys(ROWS).forEach((key, n) => drawRow(key, n, now[key], before[key]));
    drawRoofs(now);
    const { D, F, H, T } = state;
    const limited = Object.entries(now.intensity).filter(([, i]) => i < state.rate / state.bandwidth).map(([part]) => part);
    write.masked(now.masked, exact(now.masked));
    write.rate(state.rate, operationsText(state.rate));
    write.bandwidth(state.bandwidth, `${bytes(state.bandwidth)}/s`);
    const whole = (total(now.time) * state.tokens) / (state.B * state.T);
    write.whole(whole, `${operationsText(state.tokens)} tokens take ${seconds(whole)}`);
    steps.forEach((step, n) => step.setAttribute("aria-pressed", STORY[n].name === choice.value && STORY[n].tokens === state.tokens
      && STORY[n].rate === state.rate && STORY[n].bandwidth === state.bandwidth));
    say((D % H ? `${H} heads do not divide the width ${D}: there is no such model. ` : "") + move
      + (T > 2 * D + F ? " The products with T² take more operations than the rest of a layer."
        : T > 2 * D ? " The products with T² take more operations than the projections." : ` T² would lead from T = ${exact(2 * D + F)} on.`)
      + (limited.length ? ` Memory is the limit of: ${limited.join(", ")}.` : " Memory is the limit of the update alone."));
  };

  const legend = (colours, ...title) => make("p", { className: "numbers" }, ...title, ...Object.entries(colours).map(([part, colour]) =>
    make("span", {}, make("span", { style: `color: var(--${colour})` }, "■"), ` ${part === "last" ? "logits or gradients" : part}`)));
  stage.append(legend(PARTS), legend(PEAK, "at the peak:"));
  const write = explore.readouts(stage, { masked: "rows read out, M =", rate: "operations a second", bandwidth: "memory",
    whole: "the training, at least:" });
  const story = controls.appendChild(make("div", { className: "story" }));
  const steps = STORY.map(({ label, name, tokens, rate, bandwidth }) => explore.button(story, label, () => {
    Object.assign(state, { tokens, rate, bandwidth });
    choose(name);
  }));

  const choice = explore.choice(controls, { name: "model", label: "model", value: START,
    options: Object.fromEntries(Object.entries(MODELS).map(([name, { text }]) => [name, text])) }, (name) => choose(name));
  choice.append(make("option", { value: "", hidden: true }, "other sizes"));
  const sizes = make("div", { className: "controls" });
  controls.append(make("details", {}, make("summary", {}, "Change the sizes"), sizes));
  const sliders = Object.fromEntries(Object.keys(LETTERS).map((letter) => {
    const values = valuesOf(letter);
    const slider = explore.slider(sizes, { name: letter, label: LETTERS[letter], min: 0, max: values.length - 1, step: 1,
      value: values.indexOf(state[letter]), format: (n) => exact(values[n]) }, (n) => {
      state[letter] = values[n];
      if (letter === "D" && state.square) move("F", 4 * values[n]);
      update(`${letter} = ${exact(values[n])}.`);
    });
    return [letter, { slider, values }];
  }));
  const move = (letter, value) => {
    const { slider, values } = sliders[letter];
    state[letter] = value;
    slider.value = values.indexOf(value);
  };
  const choose = (name) => {
    const { every: all, square, tokens, rate, bandwidth } = state;
    state = { ...MODELS[name], name, every: all, square, tokens, rate, bandwidth };
    for (const letter of Object.keys(LETTERS)) move(letter, state[letter]);
    for (const field of [sliders.V.slider.field, every]) field.disabled = !state.tables;
    const { peak: needed, time } = count(state);
    update(`${MODELS[name].text[0].toUpperCase()}${MODELS[name].text.slice(1)}: ${bytes(total(needed))} at the peak, ${seconds(total(time))} a step.`);
  };
  explore.toggle(sizes, { name: "square", label: "F = 4D", checked: true }, (checked) => {
    state.square = checked;
    if (checked) move("F", 4 * state.D);
    update();
  });
  const every = explore.toggle(sizes, { name: "every", label: "read out every position" }, (checked) => {
    state.every = checked;
    update();
  });
  update();
});
