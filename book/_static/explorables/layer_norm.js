// The three terms of LayerNorm's gradient at numbers that the reader moves.
"use strict";
explore("layer_norm", ({ stage, controls, say }) => {
  const { draw, make, number, fraction, power } = explore;
  const CATS = { x: [4, 2, 2, -4], gamma: [2, 1, 3, 1], dy: [3, 3, 1, 0] };
  const ROWS = {
    x: { letter: "x", low: -6, high: 6, height: 110 },
    gamma: { letter: "γ", low: -1, high: 4, height: 70 },
    dy: { letter: "ȳ", low: -4, high: 4, height: 70 },
  };
  const TERMS = { scale: "scale term", mean: "mean term", variance: "variance term" };
  const INDEX = "₀₁₂₃", COLUMNS = [0, 1, 2, 3], NO_EPS = -9, LEFT = 34, GAP = 30, BARS = 170;
  const mean = (values) => values.reduce((sum, v) => sum + v, 0) / values.length;
  const inner = (a, b) => a.reduce((sum, v, i) => sum + v * b[i], 0);
  const norm = (a) => Math.hypot(...a);
  const written = (v) => fraction(Math.abs(v) < 1e-12 ? 0 : v);

  const state = { ...structuredClone(CATS), exponent: NO_EPS, outside: false, terms: 3 };
  const width = Math.max(280, Math.min(stage.clientWidth, 640));
  const column = (width - LEFT) / 4;
  const centre = (i) => LEFT + (i + 0.5) * column;
  let top = 14;
  for (const row of Object.values(ROWS)) {
    row.top = top;
    row.y = (v) => row.top + ((row.high - v) / (row.high - row.low)) * row.height;
    row.value = (y) => {
      const v = row.high - ((y - row.top) / row.height) * (row.high - row.low);
      return Math.min(row.high, Math.max(row.low, Math.round(v * 10) / 10));
    };
    top += row.height + GAP;
  }
  const drawing = explore.canvas(stage, width, top + BARS + 58,
    "Four entries of x, γ and ȳ to drag, and under them the three terms of the gradient of each x");
  const picture = draw(drawing, "g");
  const handles = {};
  for (const [key, row] of Object.entries(ROWS)) {
    handles[key] = COLUMNS.map((i) => explore.handle(drawing, {
      label: `${row.letter}${INDEX[i]}`, name: `${key}${i}`, axes: "y", radius: 11,
      step: row.height / (row.high - row.low) / 10,
    }, (_, y) => {
      state[key][i] = row.value(y);
      update(`${row.letter}${INDEX[i]} = ${number(state[key][i], 1)}.`);
    }));
  }

  const compute = () => {
    const { x, gamma, dy } = state, zeros = [0, 0, 0, 0], ones = [1, 1, 1, 1];
    const eps = state.exponent === NO_EPS ? 0 : 10 ** state.exponent;
    const run = (row, scale = gamma) =>
      core.layerNorm(core.from([row]), core.from(scale), core.from(zeros), eps);
    const [, cache] = run(x), cotangent = core.from([dy]);
    const [xHat, plain] = run(x, ones);
    const terms = core.layerNormTerms(cotangent, cache);
    const shown = Object.keys(TERMS).slice(0, state.terms);
    const unscaled = core.layerNormBackward(cotangent, plain).dx;
    return {
      mu: mean(x), s: 1 / cache.invStd.data[0], xHat: [...xHat.data],
      dx: [...core.layerNormBackward(cotangent, cache).dx.data],
      shown, partial: COLUMNS.map((i) => shown.reduce((sum, key) => sum + terms[key].data[i], 0)),
      scale: terms.scale.data, mean: terms.mean.data, variance: terms.variance.data,
      outside: Array.from(unscaled.data, (v, i) => v * gamma[i]),
      measured: explore.differences((row) => inner(run(row)[0].data, dy), x),
    };
  };

  const drawRows = ({ mu, s }) => {
    for (const [key, row] of Object.entries(ROWS)) {
      draw(picture, "text", { x: 2, y: row.y(0) + 5, class: "letter" }, row.letter);
      draw(picture, "line", { x1: LEFT, x2: width, y1: row.y(0), y2: row.y(0), class: "axis" });
      state[key].forEach((v, i) => {
        draw(picture, "line", { x1: centre(i), x2: centre(i), y1: row.y(0), y2: row.y(v),
          stroke: key === "dy" ? "var(--cotangent)" : "var(--ink)", "stroke-width": 3 });
        draw(picture, "text", { x: centre(i) + 16, y: row.y(v) + 4 }, number(v, Number.isInteger(v) ? 0 : 1));
        handles[key][i].place(centre(i), row.y(v), number(v, 1));
        handles[key][i].point.dataset.value = v;
      });
    }
    const { y } = ROWS.x;
    picture.prepend(draw(picture, "rect", { x: LEFT, width: width - LEFT, y: y(mu + s), height: y(mu - s) - y(mu + s),
      fill: "var(--face)" }));
    draw(picture, "line", { x1: LEFT, x2: width, y1: y(mu), y2: y(mu), stroke: "var(--mean-term)",
      "stroke-dasharray": "5 4" });
    draw(picture, "text", { x: LEFT, y: ROWS.x.top + ROWS.x.height + 14, class: "soft" },
      `mean ${number(mu)}, and s = ${number(s)} to each side`);
  };

  const drawBars = (now) => {
    const most = state.outside ? [...now.dx, ...now.outside] : now.dx;
    const ends = COLUMNS.flatMap((i) => [1, -1].map((sign) =>
      Object.keys(TERMS).reduce((sum, key) => sum + Math.max(0, sign * now[key][i]), 0)));
    const limit = 1.08 * Math.max(0.2, ...ends, ...most.map(Math.abs));
    const y = (v) => top + BARS / 2 - (v / limit) * (BARS / 2);
    draw(picture, "text", { x: 2, y: y(0) + 5, class: "letter" }, "x̄");
    draw(picture, "line", { x1: LEFT, x2: width, y1: y(0), y2: y(0), class: "axis" });
    const thick = Math.min(34, column * 0.36);
    COLUMNS.forEach((i) => {
      const x = centre(i) - thick;
      let up = 0, down = 0;
      for (const key of now.shown) {
        const value = now[key][i], from = value > 0 ? up : down;
        if (value > 0) up += value; else down += value;
        const bar = draw(picture, "rect", { x, width: thick, y: Math.min(y(from), y(from + value)),
          height: Math.abs(y(value) - y(0)), fill: `var(--${key}-term)` });
        explore.show(bar, value, "", `${key}${i}`);
        draw(bar, "title", {}, `${TERMS[key]} ${written(value)}`);
      }
      const at = y(now.partial[i]), wide = x + thick + 14;
      draw(picture, "line", { x1: x - 4, x2: wide, y1: at, y2: at, stroke: "var(--ink)" });
      draw(picture, "path", { d: `M ${x + thick / 2} ${at - 8} l 8 8 l -8 8 l -8 -8 z`, fill: "var(--ink)",
        stroke: "var(--paper)", "stroke-width": 1.5 });
      draw(picture, "circle", { cx: wide, cy: y(now.measured[i]), r: 6, fill: "none",
        stroke: "var(--cotangent)", "stroke-width": 2.5 });
      if (state.outside) {
        const wrong = y(now.outside[i]);
        draw(picture, "rect", { x: wide + 10, width: Math.min(18, thick), y: Math.min(at, wrong), height: Math.abs(at - wrong),
          fill: "none", stroke: "var(--wrong)", "stroke-width": 2, "stroke-dasharray": "4 3", class: "ghost" });
      }
      const label = (y, value, name, style = "") => explore.show(
        draw(picture, "text", { x: centre(i), y, "text-anchor": "middle", style }), value, written(value), name);
      label(top + BARS + 22, now.partial[i], `dx${i}`);
      if (state.outside) label(top + BARS + 42, now.outside[i], `outside${i}`, "fill: var(--wrong)");
    });
  };

  const update = (move = "") => {
    const now = compute();
    picture.replaceChildren();
    drawRows(now);
    if (!now.dx.every(Number.isFinite)) {
      say(`${move} All x are equal and ε = 0: the row is divided by 0. Raise ε.`.trim());
      return;
    }
    drawBars(now);
    const apart = now.dx.map((v, i) => v - now.measured[i]);
    const scale = Math.max(norm(now.dx), norm(now.measured), 1e-12);
    const gradient = state.outside ? now.outside : now.partial;
    const sum = gradient.reduce((total, v) => total + v, 0), along = inner(gradient, now.xHat);
    const small = (v) => (Math.abs(v) < 1e-12 ? "0" : Math.abs(v) < 0.005 ? power(v) : number(v));
    write.error(norm(apart) / scale, power(norm(apart) / scale, 0));
    write.sum(sum, small(sum));
    write.along(along, small(along));
    const gap = norm(now.outside.map((v, i) => v - now.dx[i]));
    const verdict = !state.outside ? ""
      : gap < 1e-12 * Math.max(1, norm(now.dx)) ? " γ outside the means gives the same: the mistake does not show here."
        : ` γ outside the means is wrong by ${number(gap / Math.max(norm(now.dx), norm(now.outside)))} of the norm.`;
    const what = ["The scale term alone", "Scale and mean term", "The gradient"][state.terms - 1];
    say(`${move} ${what}: (${now.partial.map(written).join(", ")}).${verdict}`.trim());
  };

  // Bars grow from where they were, or from where they stand.
  const updateGrowing = (move) => {
    const bars = () => [...picture.querySelectorAll("rect[data-name]")];
    const shape = (bar) => ({ y: `${bar.getAttribute("y")}px`, height: `${bar.getAttribute("height")}px` });
    const before = Object.fromEntries(bars().map((bar) => [bar.dataset.name, shape(bar)]));
    update(move);
    if (explore.still()) return;
    for (const bar of bars()) {
      const { y, height } = shape(bar);
      const foot = { y: bar.dataset.value > 0 ? `${parseFloat(y) + parseFloat(height)}px` : y, height: "0px" };
      bar.animate([before[bar.dataset.name] ?? foot, { y, height }], { duration: 600, easing: "ease-out" });
    }
  };

  const terms = Object.entries(TERMS).map(([key, name]) => make("span", { style: `color: var(--${key}-term)` }, "■ ", name));
  stage.append(make("p", { className: "numbers" }, ...terms, make("span", {}, "◆ sum"), make("span", {}, "○ measured")));
  const write = explore.readouts(stage, { sum: "sum of the gradient", along: "product with x̂", error: "measured within" });

  explore.toggle(controls, { name: "outside", label: "γ outside the means, a mistake" }, (checked) => {
    state.outside = checked;
    update();
  });
  explore.radios(controls, { name: "terms", label: "terms", value: "3",
    options: { 1: "scale alone", 2: "+ mean", 3: "+ variance" } }, (count) => {
    state.terms = Number(count);
    updateGrowing();
  });
  explore.slider(controls, { name: "eps", label: "ε", min: NO_EPS, max: 1, step: 0.5, value: NO_EPS,
    format: (v) => (v === NO_EPS ? "0" : power(10 ** v)) }, (v) => {
    state.exponent = v;
    update(v === NO_EPS ? "ε = 0." : `ε = ${power(10 ** v)}.`);
  });
  explore.button(controls, "All γ equal", () => {
    state.gamma = [2, 2, 2, 2];
    updateGrowing("All γ are 2.");
  });
  explore.button(controls, "Random point", () => {
    for (const [key, { low, high }] of Object.entries(ROWS))
      state[key] = COLUMNS.map(() => Math.round((low + Math.random() * (high - low)) * 10) / 10);
    updateGrowing("A random point.");
  });
  update();
});
