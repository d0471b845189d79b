// A schedule that the reader draws, and the expected loss of a noisy quadratic under it.
"use strict";
explore("schedule", ({ stage, controls, say }) => {
  const { draw, level, number, power, handle, readouts, choice } = explore;
  const STEPS = 300, KNOTS = 7, HIGHEST = 2, CURVATURES = [1, 0.3, 0.1, 0.03], NOISE = 0.02;
  const at = (rates, t) => {
    const place = (t / STEPS) * (KNOTS - 1), k = Math.min(Math.floor(place), KNOTS - 2);
    return rates[k] + (place - k) * (rates[k + 1] - rates[k]);
  };

  // x ← x − η (a x + noise): the mean of x² becomes (1 − ηa)² of itself and η² times the noise.
  const losses = (rates) => {
    let squares = CURVATURES.map((a) => 1 / a);
    const loss = () => squares.reduce((sum, square, i) => sum + 0.5 * CURVATURES[i] * square, 0);
    const curve = [loss()];
    for (let t = 0; t < STEPS; t += 1) {
      const rate = at(rates, t + 0.5);
      squares = squares.map((square, i) => (1 - rate * CURVATURES[i]) ** 2 * square + rate ** 2 * NOISE);
      curve.push(loss());
    }
    return curve;
  };
  const constant = (rate) => Array(KNOTS).fill(rate);
  const decayed = (rate) => Array.from({ length: KNOTS }, (_, k) => rate * (1 - k / (KNOTS - 1)));
  const best = (shape) => {
    const rates = Array.from({ length: 95 }, (_, n) => 0.02 * (n + 1));
    return shape(rates.reduce((a, b) => (losses(shape(a)).at(-1) <= losses(shape(b)).at(-1) ? a : b)));
  };
  const PRESETS = { constant: best(constant), linear: best(decayed), rising: decayed(1).reverse() };
  const opponent = losses(PRESETS.linear).at(-1);

  const WIDTH = stage.clientWidth < 500 ? 340 : 640, LEFT = 44, RIGHT = WIDTH - 18, TOP = 16, MIDDLE = 140, BOTTOM = 290;
  const drawing = explore.canvas(stage, WIDTH, 316, "Above, the learning rate against the step, with seven handles. Below, the expected loss.");
  const X = (t) => LEFT + ((RIGHT - LEFT) * t) / STEPS, Y = (rate) => MIDDLE - ((MIDDLE - TOP) * rate) / HIGHEST;
  const LOW = -2.5, HIGH = 1, Z = (loss) => BOTTOM - ((BOTTOM - MIDDLE - 24) * (Math.min(HIGH, Math.max(LOW, Math.log10(loss))) - LOW)) / (HIGH - LOW);
  for (const rate of [0, 1, 2]) level(drawing, LEFT, RIGHT, Y(rate), rate);
  for (const loss of [0.01, 0.1, 1]) level(drawing, LEFT, RIGHT, Z(loss), loss);
  draw(drawing, "text", { x: LEFT + 6, y: TOP + 12, class: "soft" }, "learning rate");
  draw(drawing, "text", { x: RIGHT, y: MIDDLE + 20, "text-anchor": "end", class: "soft" }, "expected loss; dashed, the line to beat");
  draw(drawing, "text", { x: RIGHT, y: BOTTOM + 20, "text-anchor": "end", class: "soft" }, `step ${STEPS}`);
  const path = (hue, extra) => draw(drawing, "path", { fill: "none", "stroke-width": 2.5, stroke: `var(--${hue})`, ...extra });
  const rateLine = path("orange"), lossLine = path("blue"), line = path("soft", { "stroke-dasharray": "5 4" });
  const through = (curve, f) => curve.map((v, t) => `${t ? "L" : "M"}${X((t * STEPS) / (curve.length - 1)).toFixed(1)} ${f(v).toFixed(1)}`).join("");
  line.setAttribute("d", through(losses(PRESETS.linear), Z));
  const write = readouts(stage, { end: "loss at the end", linear: "to beat" });
  write.linear(opponent, number(opponent, 4));

  let rates;
  const show = () => {
    const curve = losses(rates), end = curve.at(-1);
    rateLine.setAttribute("d", through(rates, Y));
    lossLine.setAttribute("d", through(curve, Z));
    rates.forEach((rate, k) => grips[k].place(X((k * STEPS) / (KNOTS - 1)), Y(rate), number(rate)));
    write.end(end, end < 100 ? number(end, 4) : power(end));
    say(`${end < opponent ? "Lower" : "No lower"} than the best straight line to zero: ${end < 100 ? number(end, 4) : power(end)} against ${number(opponent, 4)}.`);
  };
  const from = choice(controls, { name: "from", label: "start from", value: "constant",
    options: { constant: "the best constant rate", linear: "the best straight line to zero", rising: "a rising rate" } }, (name) => { rates = [...PRESETS[name]]; show(); });
  const grips = Array.from({ length: KNOTS }, (_, k) =>
    handle(drawing, { label: `rate at step ${(k * STEPS) / (KNOTS - 1)}`, axes: "y", radius: 7, step: (MIDDLE - TOP) / 40 }, (_x, y) => {
      rates[k] = Math.max(0, Math.min(HIGHEST, ((MIDDLE - y) / (MIDDLE - TOP)) * HIGHEST));
      show();
    }));
  rates = [...PRESETS[from.value]];
  show();
});
