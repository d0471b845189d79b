// Mean squares of stream and gradient through 24 random branches of one gain, with and without skips.
"use strict";
explore("gain", ({ stage, controls, say }) => {
  const { draw, number, power, slider, toggle, button, readouts, fraction } = explore;
  const LAYERS = 24, D = 32, F = 64, ROWS = 8;
  const state = { exponent: -4.25, skip: false, seed: 1 };

  // Branches ReLU(x W₁) W₂ of gain 1, an input and a cotangent.
  const weights = (seed) => {
    const { normals } = core.generator(seed);
    return {
      x: normals([ROWS, D]), dy: normals([ROWS, D]),
      branches: Array.from({ length: LAYERS }, () =>
        [normals([D, F], 1 / Math.sqrt(D)), normals([F, D], Math.sqrt(2 / F))]),
    };
  };
  const meanSquare = ({ data }) => data.reduce((sum, v) => sum + v * v, 0) / data.length;

  const run = ({ x, dy, branches }, gain) => {
    const root = Math.sqrt(gain), scaled = (a) => core.map(a, (v) => root * v), caches = [];
    const streams = [meanSquare(x)], gradients = [meanSquare(dy)];
    let stream = x, grad = dy;
    for (const [first, second] of branches) {
      const [hidden, one] = core.linear(stream, first), [active, two] = core.relu(hidden);
      const [y, three] = core.linear(active, second);
      caches.push([one, two, three]);
      stream = state.skip ? core.add(stream, scaled(y)) : scaled(y);
      streams.push(meanSquare(stream));
    }
    for (const [one, two, three] of caches.reverse()) {
      const { dx } = core.linearBackward(core.reluBackward(core.linearBackward(scaled(grad), three).dx, two).dx, one);
      grad = state.skip ? core.add(grad, dx) : dx;
      gradients.unshift(meanSquare(grad));
    }
    return { streams, gradients };
  };

  const WIDTH = stage.clientWidth < 500 ? 340 : 640, HEIGHT = 260, LEFT = 46, BOTTOM = 222;
  const drawing = explore.canvas(stage, WIDTH, HEIGHT, "Mean square of the stream and of its gradient after each of 24 layers");
  const X = (k) => LEFT + ((WIDTH - LEFT - 12) * k) / LAYERS;
  const grid = draw(drawing, "g");
  const line = (hue, wide, dashes) => draw(drawing, "path",
    { fill: "none", stroke: `var(--${hue})`, "stroke-width": wide, "stroke-dasharray": dashes });
  const lines = { law: line("soft", 1.5, "5 4"), stream: line("blue", 6, ""), gradient: line("cotangent", 2.5, "") };
  for (const k of [0, 8, 16, LAYERS])
    draw(drawing, "text", { x: X(k), y: BOTTOM + 20, "text-anchor": k === LAYERS ? "end" : "middle", class: "soft" }, k === LAYERS ? "layer 24" : k || "input");
  const write = readouts(stage, { stream: "stream at the end", gradient: "gradient at the input", law: "expected" });
  const [ofStream, ofGradient] = stage.lastElementChild.children;
  ofStream.style.color = "var(--blue)";
  ofGradient.style.color = "var(--cotangent)";

  const size = (v) => (v >= 0.01 && v < 1000 ? number(v) : power(v));
  const gainText = (exponent) => fraction(2 ** exponent, 3);
  let drawn = weights(state.seed);
  const paint = () => {
    const gain = 2 ** state.exponent, { streams, gradients } = run(drawn, gain);
    const law = Array.from(streams, (_, k) => (state.skip ? 1 + gain : gain) ** k);
    const all = [...streams, ...gradients, ...law].map(Math.log10);
    const low = Math.min(-1, Math.floor(Math.min(...all))), high = Math.max(1, Math.ceil(Math.max(...all)));
    const up = (v) => BOTTOM - ((BOTTOM - 14) * (Math.log10(v) - low)) / (high - low);
    grid.replaceChildren();
    for (let decade = high; decade >= low; decade -= Math.ceil((high - low) / 5))
      explore.level(grid, LEFT, X(LAYERS), up(10 ** decade), power(10 ** decade, 0).replace("1·", ""));
    for (const [name, values] of Object.entries({ law, stream: streams, gradient: gradients }))
      lines[name].setAttribute("d", values.map((v, k) => `${k ? "L" : "M"}${X(k)} ${up(v).toFixed(1)}`).join(""));
    write.stream(streams[LAYERS], size(streams[LAYERS]));
    write.gradient(gradients[0], size(gradients[0]));
    write.law(law[LAYERS], size(law[LAYERS]));
    say(`Gain ${gainText(state.exponent)}, ${state.skip ? "with" : "without"} skips: the stream ends at ${
      size(streams[LAYERS])}, and ${size(gradients[0])} of the gradient arrives. The law: ${size(law[LAYERS])}.`);
  };

  slider(controls, { name: "gain", label: "gain ρ of each branch", min: -5, max: 2, step: 0.25, value: state.exponent, format: gainText },
    (exponent) => { state.exponent = exponent; paint(); });
  toggle(controls, { name: "skip", label: "with skips" }, (on) => { state.skip = on; paint(); });
  button(controls, "Other weights", () => { state.seed += 1; drawn = weights(state.seed); paint(); });
  paint();
});
