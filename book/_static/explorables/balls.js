// A gradient of two numbers, and the step of length 1 that lowers the loss most, in three norms.
"use strict";
explore("balls", ({ stage, controls, say }) => {
  const { draw, set, number, handle, readouts, slider } = explore;
  const SIZE = 340, MIDDLE = SIZE / 2, UNIT = 88, START = [2, 0.8];
  const X = (x) => MIDDLE + UNIT * x, Y = (y) => MIDDLE - UNIT * y;
  const NORMS = {
    euclidean: { label: "Euclidean", hue: "blue", dual: ([a, b]) => Math.hypot(a, b),
      direction: ([a, b]) => [a, b].map((v) => v / Math.hypot(a, b)) },
    max: { label: "max", hue: "orange", dual: ([a, b]) => Math.abs(a) + Math.abs(b),
      direction: (g) => g.map(Math.sign) },
    sum: { label: "sum", hue: "green", dual: ([a, b]) => Math.max(Math.abs(a), Math.abs(b)),
      direction: ([a, b]) => (Math.abs(a) >= Math.abs(b) ? [Math.sign(a), 0] : [0, Math.sign(b)]) },
  };

  const drawing = explore.canvas(stage, SIZE, SIZE, "A circle, a square and a diamond around the origin, the gradient, and the steepest direction in each");
  const line = (hue, attributes = {}) => draw(drawing, "line", { stroke: `var(--${hue})`, ...attributes });
  line("line", { x1: 0, x2: SIZE, y1: MIDDLE, y2: MIDDLE });
  line("line", { x1: MIDDLE, x2: MIDDLE, y1: 0, y2: SIZE });
  const ball = { fill: "none", "stroke-width": 2 };
  draw(drawing, "circle", { cx: MIDDLE, cy: MIDDLE, r: UNIT, stroke: "var(--blue)", ...ball });
  draw(drawing, "rect", { x: X(-1), y: Y(1), width: 2 * UNIT, height: 2 * UNIT, stroke: "var(--orange)", ...ball });
  draw(drawing, "path", { d: `M${X(1)} ${Y(0)}L${X(0)} ${Y(1)}L${X(-1)} ${Y(0)}L${X(0)} ${Y(-1)}Z`, stroke: "var(--green)", ...ball });
  const along = line("ink", { "stroke-dasharray": "2 4" });
  const write = readouts(stage, Object.fromEntries(Object.entries(NORMS).map(([name, { label }]) =>
    [name, `${label} norm: the loss falls by`])));
  const touches = {}, tips = {};
  Object.entries(NORMS).forEach(([name, { hue }], n) => {
    touches[name] = line(hue, { "stroke-dasharray": "6 4" });
    tips[name] = draw(drawing, "circle", { r: 5, fill: `var(--${hue})` });
    stage.lastElementChild.children[n].style.color = `var(--${hue})`;
  });
  const place = (part, from, to) => set(part, { x1: X(from[0]), y1: Y(from[1]), x2: X(to[0]), y2: Y(to[1]) });

  const SHOWN = 0.6; // length of the drawn gradient, in its own units
  const show = (g) => {
    place(along, [0, 0], g.map((v) => SHOWN * v));
    for (const [name, { dual, direction }] of Object.entries(NORMS)) {
      const d = direction(g), length = Math.hypot(...g);
      const across = [-g[1] / length, g[0] / length];
      place(touches[name], d.map((v, n) => v - 0.8 * across[n]), d.map((v, n) => v + 0.8 * across[n]));
      set(tips[name], { cx: X(d[0]), cy: Y(d[1]) });
      write[name](dual(g));
    }
    const text = g.map((v) => number(v, 1)).join(", ");
    grip.place(X(SHOWN * g[0]), Y(SHOWN * g[1]), text);
    angle.value = (Math.atan2(g[1], g[0]) * 180) / Math.PI;
    const steps = Object.values(NORMS).map(({ label, direction }) => `${label} (${direction(g).map((v) => number(v)).join(", ")})`);
    say(`The gradient is (${text}). Steepest directions: ${steps.join(", ")}.`);
  };
  const turn = (degrees) => show([Math.cos, Math.sin].map((f) => Math.hypot(...START) * f((degrees * Math.PI) / 180)));
  const angle = slider(controls, { name: "angle", label: "direction of the gradient", min: -180, max: 180, step: 1, value: 0, format: (v) => `${Math.round(v)}°`.replace("-", "−") }, turn);
  const grip = handle(drawing, { label: "the gradient", axes: "xy", className: "gradient" }, (x, y) => {
    const bounded = [(x - MIDDLE) / UNIT, (MIDDLE - y) / UNIT].map((v) => Math.max(-1.8, Math.min(1.8, v)) / SHOWN);
    if (Math.hypot(...bounded) > 0.2) show(bounded);
  });
  show(START);
});
