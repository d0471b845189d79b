// Four optimisers in a narrow valley, and what an outlier does to each.
explore("optimizers", ({ stage, controls, say }) => {
  const { button, canvas, choice, draw, handle, make, number, output, play, power, set, show, slider, table } = explore;
  const STEPS = 60, FLAT = 1, STEEP = 25, CENTRE = [2, 1];
  const state = { start: [10, 3], rate: -1.5, adaptive: -0.5, decay: 0.1, turned: false, at: 30, size: -60, now: STEPS };
  const KINDS = {
    sgd: { text: "SGD", hue: "blue", wide: 4, make: (theta) => core.sgd(theta, 10 ** state.rate) },
    momentum: { text: "momentum", hue: "orange", make: (theta) => core.sgd(theta, 10 ** state.rate, 0.9) },
    adam: { text: "Adam", hue: "green", wide: 4, make: (theta) => core.adam(theta, 10 ** state.adaptive) },
    adamw: { text: "AdamW", hue: "purple", make: (theta) => core.adamW(theta, 10 ** state.adaptive, { weightDecay: state.decay }) },
  };

  // The loss ½ (FLAT a² + STEEP b²), with a and b measured along and across the valley.
  const angle = () => (state.turned ? Math.PI / 6 : 0);
  const gradient = ([x, y]) => {
    const c = Math.cos(angle()), s = Math.sin(angle());
    const a = c * (x - CENTRE[0]) + s * (y - CENTRE[1]), b = c * (y - CENTRE[1]) - s * (x - CENTRE[0]);
    return [FLAT * a * c - STEEP * b * s, FLAT * a * s + STEEP * b * c];
  };
  const distance = ([x, y]) => Math.hypot(x - CENTRE[0], y - CENTRE[1]);

  const descend = (kind, outlier) => {
    const theta = core.from(state.start), optimizer = kind.make({ theta }), path = [[...theta.data]], lengths = [], roots = [];
    for (let step = 1; step <= STEPS; step += 1) {
      const grad = gradient(theta.data);
      if (step === state.at) grad.forEach((_, i) => { grad[i] += outlier; });
      optimizer.step({ theta: core.from(grad) });
      path.push([...theta.data]);
      roots.push(Math.sqrt((optimizer.secondMoment?.theta.data[0] ?? 0) / (1 - 0.999 ** step)));
      lengths.push(Math.hypot(...theta.data.map((v, i) => v - path[step - 1][i])));
    }
    return { path, lengths, roots };
  };

  const panels = stage.appendChild(make("div", { className: "panels" }));

  // The valley from above: 20 to the unit.
  const map = canvas(panels, 320, 240, "The valley from above, with the way of each optimiser");
  const at = ([x, y]) => [80 + 20 * x, 140 - 20 * y].map((v) => Math.max(-1e4, Math.min(1e4, v)));
  const clip = draw(draw(map, "clipPath", { id: "optimizers-map" }), "rect", { width: 320, height: 240 });
  const land = draw(map, "g", { "clip-path": `url(#${clip.parentNode.id})` });
  draw(land, "rect", { width: 320, height: 240, fill: "var(--face)" });
  const contours = [2, 8, 32, 128, 512].map((level) => draw(land, "ellipse", { cx: at(CENTRE)[0], cy: at(CENTRE)[1],
    rx: 20 * Math.sqrt((2 * level) / FLAT), ry: 20 * Math.sqrt((2 * level) / STEEP), fill: "none", stroke: "var(--line)" }));
  const cross = ([x, y], text) => {
    draw(land, "path", { d: `M ${x - 5} ${y} h 10 M ${x} ${y - 5} v 10`, stroke: "var(--ink)" });
    draw(land, "text", { x: x + 6, y: y + 16, stroke: "var(--face)", "stroke-width": 4, "paint-order": "stroke" }, text);
  };
  const ofEach = (part) => Object.fromEntries(Object.entries(KINDS).map(([name, { hue, wide = 2 }]) => [name, part(`var(--${hue})`, wide)]));
  const curves = (parent) => ofEach((stroke, wide) =>
    draw(parent, "path", { fill: "none", stroke, "stroke-width": wide, "stroke-linejoin": "round" }));
  const ways = curves(land);
  const runners = ofEach((fill) => draw(land, "circle", { r: 5, fill, stroke: "var(--face)", "stroke-width": 1.5 }));
  cross(at(CENTRE), "minimum");
  cross(at([0, 0]), "0");
  const grip = handle(map, { label: "start", axes: "xy", radius: 11, step: 10 }, (x, y) => {
    state.start = [Math.max(-3, Math.min(11.5, (x - 80) / 20)), Math.max(-4.5, Math.min(6.5, (140 - y) / 20))];
    paint();
    tell(`Start at (${state.start.map((v) => number(v, 1)).join(", ")}).`);
  });

  // How long each step was.
  const chart = canvas(panels, 320, 240, "Length of every step of each optimiser, on a logarithmic scale");
  const across = (step) => 38 + (280 * step) / STEPS;
  const up = (v) => 96 - 36 * Math.max(-3.2, Math.min(2, Math.log10(v)));
  draw(chart, "text", { x: 38, y: 12 }, "length of each step; thin: without the outlier");
  for (const [decade, text] of [[1, "10"], [0, "1"], [-1, "0.1"], [-2, "0.01"], [-3, "0.001"]]) {
    draw(chart, "line", { x1: 38, x2: 318, y1: up(10 ** decade), y2: up(10 ** decade), stroke: "var(--line)" });
    draw(chart, "text", { x: 34, y: up(10 ** decade) + 4, "text-anchor": "end" }, text);
  }
  const beyond = draw(chart, "g"); // steps too long for the chart
  const when = draw(chart, "line", { y1: 20, y2: 212, stroke: "var(--ink)", "stroke-dasharray": "4 3" });
  const lines = curves(chart);
  const thin = ofEach((stroke, wide) => draw(chart, "path", { fill: "none", stroke, "stroke-width": wide / 2, opacity: 0.6 }));
  const head = draw(chart, "line", { y1: 20, y2: 212, stroke: "var(--ink)" });
  const throwAt = handle(chart, { label: "step of the outlier", radius: 11, step: 280 / STEPS },
    (x) => {
      state.at = Math.max(2, Math.min(STEPS, Math.round(((x - 38) * STEPS) / 280)));
      paint();
      tell(`The outlier comes in step ${state.at}.`);
    });
  const note = draw(chart, "text", { y: 227 });

  const cells = Object.fromEntries(Object.keys(KINDS).map((name) => [name, ["at", "distance", "without"].map((what) =>
    output(`${name}-${what}`))]));
  stage.append(table(["", "outlier’s step", "distance now", "without it"], Object.entries(KINDS).map(([name, { text, hue }]) =>
    [make("th", { scope: "row", style: `color: var(--${hue})` }, text), ...cells[name].map((cell) => make("td", {}, cell))])));

  const divisors = ["before", "after", "end"].map((name) => output(`divisor-${name}`));
  stage.append(make("p", {}, "Adam divides the first entry by √v̂ = ", divisors[0], " in the step before, ", divisors[1],
    " in this step, and ", divisors[2], " in the last."));

  // A slider of the state, and what is said of its new value.
  const setting = (place, name, words, settings) => slider(place, { name, value: state[name], ...settings }, (value) => {
    state[name] = value;
    paint();
    tell(words(value));
  });
  const rate = (name, label, min, max) => setting(controls, name, (v) => `Rate ${(10 ** v).toPrecision(2)}.`,
    { label, min, max, step: 0.05, format: (v) => (10 ** v).toPrecision(2) });
  rate("rate", "rate of SGD and momentum", -3, -1);
  rate("adaptive", "rate of Adam and AdamW", -2, 0);
  const more = make("div", { className: "controls" });
  setting(more, "decay", () => "Decay pulls AdamW towards 0.", { label: "weight decay λ", min: 0, max: 0.5, step: 0.05 });
  choice(controls, { name: "turned", label: "the valley lies", value: "", options: { "": "along an axis", turned: "across both axes" } }, (value) => {
    state.turned = value === "turned";
    paint();
    tell(state.turned ? "Both entries have steep gradients now: one rate each does not help Adam." : "Each entry has a curvature of its own.");
  });
  setting(more, "size", (v) => (v ? `The outlier adds ${number(v, 0)} to both gradients.` : "No outlier."),
    { label: "outlier, added to both gradients", min: -200, max: 200, step: 10, format: (v) => number(v, 0) });
  const clock = setting(controls, "now", () => "", { label: "step now", min: 0, max: STEPS, step: 1, format: String });
  const runTo = (step) => {
    clock.value = state.now = step;
    paint();
    tell("");
  };
  button(controls, "Race", () => {
    runTo(0);
    play(stage, 5, STEPS, runTo);
  });
  controls.append(make("details", {}, make("summary", {}, "Weight decay and outlier"), more));

  const tell = (first) => {
    const order = Object.keys(KINDS).sort((a, b) => cells[a][1].dataset.value - cells[b][1].dataset.value);
    say(`${first} After ${state.now} steps: ${order.map((name) =>
      `${KINDS[name].text} ${cells[name][1].textContent}`).join(", ")} from the minimum.`);
  };
  const size = (v) => (v >= 0.01 && v < 1000 ? number(v) : power(v));

  const paint = () => {
    const degrees = (-angle() * 180) / Math.PI, [x, y] = at(CENTRE);
    contours.forEach((contour) => contour.setAttribute("transform", `rotate(${degrees} ${x} ${y})`));
    beyond.replaceChildren();
    for (const [name, kind] of Object.entries(KINDS)) {
      const { path, lengths, roots } = descend(kind, state.size), calm = descend(kind, 0);
      const [x, y] = at(path[state.now]);
      set(runners[name], { cx: x, cy: y });
      ways[name].setAttribute("d", path.slice(0, state.now + 1).map((theta, n) => `${n ? "L" : "M"} ${at(theta).join(" ")}`).join(" "));
      const before = state.at - 1;
      for (const [line, first, values] of [[lines, 0, lengths.slice(0, state.now)], [thin, before, calm.lengths.slice(before)]])
        line[name].setAttribute("d", values.map((length, n) => `${n ? "L" : "M"} ${across(first + n + 1)} ${up(length)}`).join(" "));
      [lengths[before], distance(path[state.now]), distance(calm.path[state.now])].forEach((value, n) => show(cells[name][n], value, size(value)));
      const longest = Math.max(...lengths);
      if (longest > 100)
        draw(beyond, "text", { x: 318, y: 36 + 14 * beyond.children.length, "text-anchor": "end", style: `fill: var(--${kind.hue})` },
          `▲ ${kind.text}: up to ${power(longest)}`);
      if (name === "adam") divisors.forEach((output, n) => show(output, roots[[state.at - 2, state.at - 1, STEPS - 1][n]]));
    }
    grip.place(...at(state.start), state.start.map((v) => number(v, 1)).join(", "));
    grip.point.dataset.value = state.start;
    throwAt.place(across(state.at), 222, `step ${state.at}`);
    set(when, { x1: across(state.at), x2: across(state.at), opacity: state.size ? 1 : 0.25 });
    set(head, { x1: across(state.now), x2: across(state.now) });
    set(note, { x: across(state.at) + (state.at > 30 ? -16 : 16), "text-anchor": state.at > 30 ? "end" : "start" });
    note.textContent = state.size ? `outlier in step ${state.at}` : `step ${state.at}`;
  };

  paint();
  say("Let them race, then throw the outlier earlier and later, larger and smaller: momentum goes on with it, and Adam hardly moves, but divides by it for long.");
});
