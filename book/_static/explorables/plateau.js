// The model with two parameters on its plateau, and what it does to hold its head on the neighbour.
"use strict";
explore("plateau", ({ stage, controls, say }) => {
  const { draw, number, handle, readouts, choice, set, slider } = explore;
  const STEPS = 600, RATES = { adam: 0.01, descent: 0.1 };
  const state = { T: 64, kind: "descent", start: 0, from: 50, to: 150 };

  const weightOf = (u) => Math.exp(u) / (Math.exp(u) + state.T - 1);
  const lossOf = (a, w) => (1 - w * a) ** 2 + (w ** 2 * (1 - a) ** 2) / (state.T - 1);
  // While a mask holds the head, the neighbour has all the weight, and the score no gradient.
  const gradients = (a, u, w) => {
    const rest = (1 - a) / (state.T - 1);
    return { u: core.from([-2 * w * a * (1 - a) * (1 - w * a + w * rest)]),
      w: core.from([-2 * a * (1 - w * a) + 2 * w * (1 - a) * rest]) };
  };
  const descend = () => {
    const theta = { u: core.from([state.start]), w: core.from([0]) }, losses = [], weights = [];
    const optimizer = state.kind === "adam" ? core.adam(theta, RATES.adam) : core.sgd(theta, RATES.descent);
    for (let step = 0; step <= STEPS; step += 1) {
      const [u, w] = [theta.u.data[0], theta.w.data[0]];
      const a = step >= state.from && (step < state.to || state.to === STEPS) && state.to > state.from ? 1 : weightOf(u);
      losses.push(lossOf(a, w));
      weights.push(a);
      optimizer.step(gradients(a, u, w));
    }
    return { losses, weights };
  };

  const WIDTH = stage.clientWidth < 500 ? 340 : 640, LEFT = 40, RIGHT = WIDTH - 14, TOP = 16, BOTTOM = 210;
  const drawing = explore.canvas(stage, WIDTH, 262, "The loss and the neighbour’s weight against the step, and the steps in which a mask holds the head");
  const X = (step) => LEFT + ((RIGHT - LEFT) * step) / STEPS, Y = (v) => BOTTOM - (BOTTOM - TOP) * Math.min(1.1, v);
  const band = draw(drawing, "rect", { y: TOP, height: BOTTOM - TOP, fill: "var(--lit)" });
  for (const v of [0, 0.5, 1]) explore.level(drawing, LEFT, RIGHT, Y(v), v);
  const path = (hue, extra) => draw(drawing, "path", { fill: "none", "stroke-width": 2.5, stroke: `var(--${hue})`, ...extra });
  const free = path("soft", { "stroke-dasharray": "5 4", "stroke-width": 1.5 }), weight = path("orange"), loss = path("blue");
  const label = (x, text, hue) => draw(drawing, "text", { x, y: 256, style: `fill: var(--${hue})` }, text);
  label(LEFT, "loss", "blue");
  label(LEFT + 42, "weight of the neighbour", "orange");
  draw(drawing, "text", { x: RIGHT, y: 256, "text-anchor": "end", class: "soft" }, WIDTH > 500 ? `dashed: the loss of a head that nobody holds; step ${STEPS}` : `step ${STEPS}`);
  const line = (values) => values.map((v, step) => `${step ? "L" : "M"}${X(step).toFixed(1)} ${Y(v).toFixed(1)}`).join("");

  const write = readouts(stage, { half: "below one half for good from step", end: "loss at the end",
    weight: "weight of the neighbour at the end" });

  const halfGone = (losses) => losses.findIndex((v, step) => v < 0.5 && losses.slice(step).every((later) => later < 0.5));
  const update = (first = "") => {
    const { losses, weights } = descend(), { from, to } = state, half = halfGone(losses);
    Object.assign(state, { from: 0, to: 0 });
    const alone = descend().losses;
    Object.assign(state, { from, to });
    loss.setAttribute("d", line(losses));
    weight.setAttribute("d", line(weights));
    free.setAttribute("d", line(alone));
    set(band, { x: X(from), width: Math.max(0, X(to) - X(from)) });
    ends.from.place(X(from), 228, `step ${from}`);
    ends.to.place(X(to), 228, `step ${to}`);
    write.half(half, half < 0 ? "–" : half);
    write.end(losses[STEPS], number(losses[STEPS], 3));
    write.weight(weights[STEPS], number(weights[STEPS], 3));
    const lone = halfGone(alone), alike = `A head that nobody holds ${lone < 0 ? `is still on the plateau at step ${STEPS}` : `leaves the plateau at step ${lone}`}.`;
    say(`${first} ${to <= from ? "" : to === STEPS ? "While it is held, the loss falls as fast as w can grow, and the score learns nothing. "
      : losses[to] > losses[to - 1] + 0.1
        ? `Let go, it averages again: only w has learnt meanwhile. It leaves the plateau ${half < 0 ? "after the last step shown" : `at step ${half}`}. ` : ""}${alike}`);
  };
  const within = (x) => Math.max(0, Math.min(STEPS, Math.round(((x - LEFT) * STEPS) / (RIGHT - LEFT) / 10) * 10));
  const grip = (label, move) => handle(drawing, { label, step: (10 * (RIGHT - LEFT)) / STEPS }, (x) => {
    move(within(x));
    update();
  });
  const ends = {
    from: grip("the mask begins", (step) => { state.from = step; state.to = Math.max(step, state.to); }),
    to: grip("the mask ends", (step) => { state.to = step; state.from = Math.min(step, state.from); }),
  };
  const hold = (from, to) => { Object.assign(state, { from, to }); update(); };
  explore.button(controls, "Hold the head", () => hold(0, STEPS));
  explore.button(controls, "Let go at step 100", () => hold(0, 100));
  choice(controls, { name: "kind", label: "optimiser", value: state.kind, options: { descent: "gradient descent, rate 0.1", adam: "Adam, rate 0.01" } },
    (kind) => { state.kind = kind; update(); });
  choice(controls, { name: "T", label: "positions T", value: "64", options: { 16: "16", 64: "64", 256: "256" } },
    (T) => { state.T = Number(T); update(); });
  slider(controls, { name: "start", label: "initial score u of the neighbour", min: -1, max: 6.5, step: 0.5, value: 0, format: (v) => number(v, 1) },
    (u) => { state.start = u; update(`The neighbour’s weight begins at ${number(weightOf(u))}.`); });
  update();
});
