// Dropout: the masks, the mean over them, and the gradient through them.
explore("dropout", ({ stage, controls, say }) => {
  const { button, canvas, differences, draw, fraction, make, number, output, play, set, show, slider, table, toggle } = explore;
  const x = core.from([4, 2, 2, -4]), dy = core.from([1, 2, -1, 1]), N = 4;
  const { uniform } = core.generator(290);
  const state = { p: 0.5, mask: [1, 0, 1, 1], backward: null, inverted: true, fresh: false, count: 0 };
  const sums = new Float64Array(N), squares = new Float64Array(N), WATCHED = 1000, EVERY = 10;
  let trail = []; // of the masks that are watched: the part of them so far, and their mean

  // The package's dropout with a mask that is given: it keeps where the random number reaches p.
  const drop = (array, mask) => {
    const coins = mask.values();
    const [y, cache] = core.dropout(array, state.p, () => (coins.next().value ? 1 : -1));
    const scale = state.inverted ? 1 : 1 - state.p;
    return [core.map(y, (v) => scale * v), (cotangent) =>
      core.map(core.dropoutBackward(cotangent, cache).dx, (v) => scale * v)];
  };
  const drawn = () => Array.from({ length: N }, () => (uniform() >= state.p ? 1 : 0));

  const panels = stage.appendChild(make("div", { className: "panels" }));
  const across = (i) => 40 + 80 * i;

  // One row of bars for what goes in, what comes out, and a mark for each.
  const bars = (title, label, scale, hue, names) => {
    const panel = panels.appendChild(make("div")), drawing = canvas(panel, 320, 236, label), middle = 122;
    const up = (v) => middle - Math.max(-92, Math.min(92, scale * v));
    draw(drawing, "text", { x: 0, y: 12 }, title);
    draw(drawing, "line", { x1: 0, x2: 320, y1: middle, y2: middle, stroke: "var(--soft)" });
    const parts = Array.from({ length: N }, (_, i) => ({
      out: draw(drawing, "rect", { x: across(i) - 16, width: 32, fill: `var(--${hue})` }),
      outline: draw(drawing, "rect", { x: across(i) - 22, width: 44, fill: "none", stroke: "var(--ink)", "stroke-dasharray": "4 3" }),
      mark: draw(drawing, "path", { fill: "none", stroke: "var(--ink)", "stroke-width": 2.5 }),
      cloud: draw(drawing, "path", { stroke: "var(--orange)", "stroke-width": 3, style: "stroke-linecap: round" }),
      bounds: draw(drawing, "path", { fill: "none", stroke: "var(--ink)" }),
      text: draw(drawing, "text", { x: across(i), y: 231, "text-anchor": "middle", name: `${names}-${i}` }),
    }));
    const bar = (rect, v) => set(rect, { y: Math.min(middle, up(v)), height: Math.abs(up(v) - middle) });
    return { panel, set: (i, given, out, mark) => {
      const part = parts[i];
      bar(part.outline, given);
      bar(part.out, out);
      part.mark.setAttribute("d", mark === null ? "" : `M ${across(i) - 28} ${up(mark)} h 56`);
      show(part.text, out, fraction(out));
    }, trace: (i, dots, bounds) => {
      const at = ([along, v]) => `${across(i) - 28 + 56 * along} ${up(v)}`;
      parts[i].cloud.setAttribute("d", dots.map((dot) => `M ${at(dot)} h 0.01`).join(" "));
      parts[i].bounds.setAttribute("d", bounds.map((line) => `M ${line.map(at).join(" L ")}`).join(" "));
    } };
  };
  const forward = bars("y (bars), x (dashed), mean of y (line)", "The output, entry by entry, beside the input", 10, "blue", "y");
  const back = bars("x̄ (bars), ȳ (dashed), measured (line)", "The gradient, entry by entry, beside the cotangent", 20, "purple", "dx");

  // The coins: a row of switches.
  const coins = forward.panel.appendChild(
    make("div", { className: "coins", role: "group", ariaLabel: "the mask: press an entry to drop or keep it" }));
  const coin = Array.from({ length: N }, (_, i) => button(coins, "", () => {
    state.mask[i] = 1 - state.mask[i];
    restart();
    paint();
    say(`Entry ${i} is ${state.mask[i] ? "kept" : "dropped"}: its gradient is ${number(gradient()[i])}.`);
  }));

  // Mean and variance over all masks so far, beside what the theorem says.
  const count = output("count");
  const words = { mean: "mean of y", expected: "expected", variance: "variance of y", spread: "expected", off: "off, in σ/√n" };
  const found = Object.fromEntries(Object.keys(words).map((name) =>
    [name, Array.from({ length: N }, (_, i) => output(`${name}-${i}`))]));
  panels.append(make("div", {}, make("p", {}, "masks drawn: ", count),
    table([], Object.entries(words).map(([name, text]) => [text, ...found[name].map((each) => make("td", {}, each))]))));

  slider(controls, { name: "p", label: "rate p", min: 0.05, max: 0.9, step: 0.05, value: state.p }, (value) => {
    state.p = value;
    restart();
    paint();
    say(`What is kept is multiplied by ${state.inverted ? number(1 / (1 - value)) : 1}.`);
  });
  const press = (label, times) => button(controls, label, () => {
    for (let n = 0; n < times; n += 1) throwCoins();
    paint();
    say(`${state.count} masks: the mean of y is (${mean().map((v) => number(v)).join(", ")}).`);
  });
  press("Draw a mask", 1);
  press("Draw 100", 100);
  button(controls, "Watch 1000", () => {
    restart();
    say("Each dot is the mean of the masks so far; the lines are two standard deviations of it, which fall as 1/√n.");
    play(stage, 4, WATCHED / EVERY, (n) => {
      while (state.count < EVERY * n) {
        throwCoins();
        if (state.count % EVERY === 0) trail.push([state.count / WATCHED, mean()]);
      }
      paint();
    });
  });
  toggle(controls, { name: "inverted", label: "divide by 1 − p", checked: true }, (on) => {
    state.inverted = on;
    restart();
    paint();
    say(on ? "Inverted dropout: the mean over the masks is x." : `Without the scale the mean over the masks is ${number(1 - state.p)} x.`);
  });
  toggle(controls, { name: "fresh", label: "a fresh mask backward (a mistake)" }, (on) => {
    state.fresh = on;
    state.backward = drawn();
    paint();
    say(on ? "The backward pass has drawn its own mask: bars leave the measured lines." : "The mask of the forward pass: every bar reaches its line.");
  });

  const restart = () => { state.count = 0; sums.fill(0); squares.fill(0); trail = []; };
  const throwCoins = (mask = drawn()) => {
    state.mask = mask;
    state.backward = drawn();
    const [y] = drop(x, state.mask);
    y.data.forEach((v, i) => { sums[i] += v; squares[i] += v * v; });
    state.count += 1;
  };
  const mean = () => (state.count ? [...sums].map((v) => v / state.count) : null);
  const gradient = () => drop(x, state.fresh ? state.backward : state.mask)[1](dy).data;

  for (let n = 0; n < 99; n += 1) throwCoins();
  throwCoins([1, 0, 1, 1]);

  const paint = () => {
    const [y] = drop(x, state.mask), dx = gradient(), means = mean();
    const measured = differences((values) => drop(core.from(values), state.mask)[0]
      .data.reduce((sum, v, n) => sum + v * dy.data[n], 0), x.data);
    for (let i = 0; i < N; i += 1) {
      forward.set(i, x.data[i], y.data[i], means && means[i]);
      back.set(i, dy.data[i], dx[i], measured[i]);
      Object.assign(coin[i], { textContent: state.mask[i] ? "kept" : "dropped", ariaLabel: `entry ${i}`, ariaPressed: state.mask[i] === 1 });
    }
    show(count, state.count, String(state.count));
    const scale = state.inverted ? 1 : 1 - state.p, none = means ? undefined : "–";
    for (let i = 0; i < N; i += 1) {
      const expected = scale * x.data[i], deviation = scale * Math.sqrt(state.p / (1 - state.p)) * Math.abs(x.data[i]);
      forward.trace(i, trail.map(([along, values]) => [along, values[i]]), trail.length ? [2, -2].map((times) =>
        trail.map(([along]) => [along, expected + (times * deviation) / Math.sqrt(along * WATCHED)])) : []);
      const measuredMean = means ? means[i] : NaN;
      show(found.off[i], (measuredMean - expected) / (deviation / Math.sqrt(state.count)), none);
      show(found.mean[i], measuredMean, none);
      show(found.expected[i], expected);
      show(found.variance[i], squares[i] / state.count - measuredMean ** 2, none);
      show(found.spread[i], deviation ** 2);
    }
  };

  paint();
  say("Turn a coin, or draw masks until the lines stand on the dashed values; then let the backward pass draw its own mask.");
});
