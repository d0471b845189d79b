// ReLU and GELU: value and slope, and a layer of each whose units the reader can kill.
"use strict";
explore("activations", ({ stage, controls, say }) => {
  const { draw, make, number, power, cell } = explore;
  const KINDS = {
    relu: { text: "ReLU", colour: "var(--orange)", forward: core.relu, backward: core.reluBackward },
    gelu: { text: "GELU", colour: "var(--blue)", forward: core.gelu, backward: core.geluBackward },
    geluTanh: { text: "tanh form", colour: "var(--purple)", forward: core.geluTanh, backward: core.geluTanhBackward },
  };
  const N = 6, D = 2, F = 6, LAYERS = ["relu", "gelu"];
  const SEED = 387, RATE = 0.05, LONG = 0.3;  // at this start the long step kills; Another start shows others
  const valueAndSlope = (kind, h) => {
    const { forward, backward } = KINDS[kind], [y, cache] = forward(core.from([h]));
    return [y.data[0], backward(core.from([1]), cache).dx.data[0]];
  };

  // The same start for both layers, the same inputs, the same targets.
  const start = (seed = SEED) => {
    const { normals } = core.generator(seed);
    const [x, target] = [normals([N, D]), normals([N, D])];
    const first = { weight1: normals([D, F]), bias1: normals([F], 0.5), weight2: normals([F, D], 0.6), bias2: normals([D], 0.1) };
    const copy = () => Object.fromEntries(Object.entries(first).map(([name, { shape, data }]) =>
      [name, core.tensor(shape, Float64Array.from(data))]));
    return { seed, x, target, layers: Object.fromEntries(LAYERS.map((kind) => [kind, copy()])) };
  };
  let state = { ...start(), h: -1 };

  const run = (kind) => {
    const { forward, backward } = KINDS[kind], { weight1, bias1, weight2, bias2 } = state.layers[kind];
    const [h, hiddenCache] = core.linear(state.x, weight1, bias1);
    const [a, activeCache] = forward(h);
    const [y, outputCache] = core.linear(a, weight2, bias2);
    const [loss, lossCache] = core.meanSquaredError(y, state.target);
    const { dprediction } = core.meanSquaredErrorBackward(1, lossCache);
    const output = core.linearBackward(dprediction, outputCache);
    const hidden = core.linearBackward(backward(output.dx, activeCache).dx, hiddenCache);
    return { h, loss, grads: { weight1: hidden.dweight, bias1: hidden.dbias, weight2: output.dweight, bias2: output.dbias } };
  };
  const train = (steps, rate) => LAYERS.forEach((kind) => {
    const optimizer = core.sgd(state.layers[kind], rate);
    for (let step = 0; step < steps; step += 1) optimizer.step(run(kind).grads);
  });

  // The two curves, and under them two layers of units, a lane for each.
  const width = Math.max(270, Math.min(stage.clientWidth, 640)), left = 46, right = width - 8;
  const CURVES = 150, LANE = 130, RANGE = 4, BAR = 34;
  const across = (h) => left + ((h + RANGE) / (2 * RANGE)) * (right - left);
  const down = (v) => 8 + ((2 - v) / 2.4) * CURVES;
  const tops = { relu: CURVES + 76, gelu: CURVES + 76 + LANE + BAR + 66 };
  const lane = (right - left) / F, middle = (j) => left + (j + 0.5) * lane;
  const level = (kind, h) => tops[kind] + ((RANGE - Math.max(-RANGE, Math.min(RANGE, h))) / (2 * RANGE)) * LANE;
  const drawing = explore.canvas(stage, width, tops.gelu + LANE + BAR + 26,
    "Activations and their slopes, with an input to drag; under them six units with ReLU and six with GELU, with biases to drag");
  const grid = [...Array.from({ length: 81 }, (_, n) => -RANGE + n / 10), 1e-9].sort((a, b) => a - b);
  const curve = (of) => grid.filter((h) => of(h) <= 2.05).map((h, n) =>
    `${n ? "L" : "M"} ${across(h).toFixed(1)} ${down(of(h)).toFixed(1)}`).join(" ");
  draw(drawing, "line", { x1: left, x2: right, y1: down(0), y2: down(0), class: "axis" });
  draw(drawing, "line", { x1: across(0), x2: across(0), y1: down(2), y2: down(-0.4), class: "axis" });
  for (const v of [1, 2]) draw(drawing, "text", { x: across(0) - 6, y: down(v) + (v === 2 ? 12 : 5), "text-anchor": "end", class: "soft" }, v);
  for (const h of [-4, -2, 2, 4]) draw(drawing, "text", { x: across(h), y: down(-0.4) + 14, "text-anchor": h === 4 ? "end" : "middle", class: "soft" },
    String(h).replace("-", "−"));
  draw(drawing, "text", { x: left, y: 20, class: "soft" }, "dashed: slope");
  const defs = draw(drawing, "defs");
  for (const kind of ["relu", "gelu"]) {
    const { colour } = KINDS[kind];
    draw(drawing, "path", { d: curve((h) => valueAndSlope(kind, h)[0]), fill: "none", stroke: colour, "stroke-width": 2.5 });
    draw(drawing, "path", { d: curve((h) => valueAndSlope(kind, h)[1]), fill: "none", stroke: colour, "stroke-width": 1.8,
      "stroke-dasharray": "6 4" });
    // A lane is as dark as the slope is steep.
    const shade = draw(defs, "linearGradient", { id: `activations-${kind}`, x1: 0, x2: 0, y1: 0, y2: 1 });
    for (let n = 0; n <= 32; n += 1) {
      const slope = valueAndSlope(kind, RANGE - (n / 32) * 2 * RANGE)[1];
      if (kind === "relu" && n === 16) draw(shade, "stop", { offset: 0.5, "stop-color": colour, "stop-opacity": 0.4 }); // the kink
      draw(shade, "stop", { offset: n / 32, "stop-color": slope < 0 ? "var(--wrong)" : colour,
        "stop-opacity": Math.min(0.5, 0.4 * Math.abs(slope)) });
    }
  }
  const picture = draw(drawing, "g");
  const probe = explore.handle(drawing, { label: "input h of the activations", name: "h", radius: 11,
    step: (right - left) / (2 * RANGE) / 10 }, (px) => {
    const h = ((px - left) / (right - left)) * 2 * RANGE - RANGE;
    state.h = Math.max(-RANGE, Math.min(RANGE, Math.round(h * 10) / 10));
    update(`At h = ${number(state.h, 1)} ReLU has the slope ${number(valueAndSlope("relu", state.h)[1])}, `
      + `GELU ${number(valueAndSlope("gelu", state.h)[1], 3)}.`);
  });
  const biases = Object.fromEntries(LAYERS.map((kind) => [kind, Array.from({ length: F }, (_, j) =>
    explore.handle(drawing, { label: `bias of ${KINDS[kind].text} unit ${j}`, name: `bias-${kind}${j}`, axes: "y", radius: 10,
      step: LANE / (2 * RANGE) / 10 }, (_, py) => {
      const h = RANGE - ((py - tops[kind]) / LANE) * 2 * RANGE;
      state.layers[kind].bias1.data[j] = Math.max(-RANGE, Math.min(RANGE, Math.round(h * 10) / 10));
      update();
    }))]));

  const drawLayer = (kind, { h, loss, grads }) => {
    const { text, colour } = KINDS[kind], top = tops[kind], floor = top + LANE + BAR + 4;
    let silent = 0;
    draw(picture, "text", { x: 0, y: level(kind, 0) + 5, style: `fill: ${colour}` }, text);
    for (let j = 0; j < F; j += 1) {
      const seen = Array.from({ length: N }, (_, n) => h.data[n * F + j]), quiet = seen.every((v) => v <= 0);
      silent += Number(quiet);
      draw(picture, "rect", { x: middle(j) - lane / 2 + 3, y: top, width: lane - 6, height: LANE, rx: 4,
        fill: `url(#activations-${kind})`, stroke: quiet ? "var(--wrong)" : "var(--line)", "stroke-width": quiet ? 2.5 : 1 });
      draw(picture, "line", { x1: middle(j) - lane / 2 + 3, x2: middle(j) + lane / 2 - 3, y1: level(kind, 0), y2: level(kind, 0), class: "axis" });
      seen.forEach((v, n) => draw(picture, "circle", { cx: middle(j) + (lane * (n - 2.5)) / 9, cy: level(kind, v), r: 3.5, fill: "var(--ink)" }));
      if (quiet) draw(picture, "text", { x: middle(j), y: top - 6, "text-anchor": "middle", style: "fill: var(--wrong)" },
        kind === "relu" ? "dead" : "silent");
      const size = Math.hypot(grads.bias1.data[j], ...Array.from({ length: D }, (_, d) => grads.weight1.data[d * F + j]));
      const high = size ? Math.max(1, ((Math.log10(size) + 8) / 8) * (BAR - 6)) : 0;
      draw(picture, "rect", { x: middle(j) - 8, width: 16, y: floor - high, height: high, fill: "var(--cotangent)" });
      explore.show(draw(picture, "text", { x: middle(j), y: floor + 15, "text-anchor": "middle", class: "soft" }), size, size === 0 ? "0" : size < 0.005 ? power(size, 0) : number(size), `gradient-${kind}${j}`);
      const bias = state.layers[kind].bias1.data[j];
      biases[kind][j].place(middle(j), level(kind, bias), number(bias, 1));
      biases[kind][j].point.dataset.value = bias;
    }
    draw(picture, "text", { x: 0, y: floor - 2, class: "soft" }, "∂ℒ/∂w, b");
    draw(picture, "line", { x1: left, x2: right, y1: floor, y2: floor, class: "axis" });
    write[`loss-${kind}`](loss, loss < 1e-3 ? power(loss) : number(loss, 3));
    write[`silent-${kind}`](silent, `${silent} of ${F}`);
    return silent;
  };

  const update = (move = "") => {
    picture.replaceChildren();
    const runs = LAYERS.map(run);
    if (!runs.every(({ loss }) => Number.isFinite(loss))) {
      say(`${move} The steps were too long: a loss is no longer finite. Reset, and take shorter ones.`);
      return;
    }
    const silent = LAYERS.map((kind, n) => drawLayer(kind, runs[n]));
    draw(picture, "line", { x1: across(state.h), x2: across(state.h), y1: down(2), y2: down(-0.4), stroke: "var(--ink)" });
    for (const [kind, cells] of Object.entries(rows))
      valueAndSlope(kind, state.h).forEach((v, n) => explore.show(cells[n], v, number(v, 4)));
    probe.place(across(state.h), down(0), number(state.h, 1));
    say(`${move} Silent for all six inputs: ${silent[0]} ReLU units, ${silent[1]} GELU units.`);
  };

  const rows = Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, ["value", "slope"].map((what) => cell(`${what}-${kind}`))]));
  stage.append(explore.table(["", "f(h)", "slope"], Object.entries(KINDS).map(([kind, { text, colour }]) =>
    [make("th", { scope: "row", style: `color: ${colour}` }, text), ...rows[kind]]), ""));
  const write = explore.readouts(stage, Object.fromEntries(LAYERS.flatMap((kind) =>
    [[`loss-${kind}`, `${KINDS[kind].text}: loss`], [`silent-${kind}`, "silent"]])));

  const rate = explore.slider(controls, { name: "rate", label: "rate of one step", min: -2, max: 1, step: 0.1, value: LONG,
    format: (v) => number(10 ** v) }, () => {});
  explore.button(controls, "One step", () => {
    train(1, 10 ** rate.value);
    update(`One step at the rate ${number(10 ** rate.value)}.`);
  });
  explore.button(controls, "500 steps", () => {
    let done = 0;
    say(`500 steps at the rate ${RATE}.`);
    explore.play(stage, 2.5, 50, (n) => {
      train(10 * n - done, RATE);
      done = 10 * n;
      update(`${done} steps at the rate ${RATE}.`);
    });
  });
  explore.button(controls, "Another start", () => {
    state = { ...start(state.seed + 1), h: state.h };
    update("Other numbers.");
  });
  update();
});
