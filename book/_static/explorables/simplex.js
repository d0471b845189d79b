// Three weights as a point of a triangle, with their Jacobian, and a gradient that lies in it.
"use strict";
explore("simplex", ({ stage, controls, say }) => {
  const { draw, make, number, fraction, power, show } = explore;
  const WORDS = ["cats", "chase", "mice"], EACH = [0, 1, 2], INDEX = "₀₁₂", LEAST = 0.002;
  const COLOURS = ["blue", "green", "orange"].map((name) => `var(--${name})`);
  const PAPER = { x: [2 * Math.LN2, 0, Math.LN2], dweights: [7, 0, 0] };
  const sum = (values) => values.reduce((total, v) => total + v, 0);
  const written = (v) => {
    const sevenths = Math.round(v * 49);
    if (Math.abs(v) < 1e-12) return "0";
    return Math.abs(v * 49 - sevenths) < 1e-9 && sevenths % 7 ? `${sevenths}/49`.replace("-", "−") : fraction(v);
  };
  const state = { ...structuredClone(PAPER), uncoupled: false, entry: [0, 1] };

  // The triangle, and beside or under it the matrix and the bars.
  const space = Math.max(270, Math.min(stage.clientWidth, 660)), beside = space >= 520;
  const side = beside ? space * 0.46 : Math.min(space - 60, 300);
  const left = beside ? 24 : (space - side) / 2, top = 40, tall = (side * Math.sqrt(3)) / 2;
  const corners = [[left, top + tall], [left + side, top + tall], [left + side / 2, top]];
  const panel = beside ? { x: left + side + 66, y: 34, width: space - left - side - 66 }
    : { x: 0, y: top + tall + 104, width: space };
  const cell = Math.min(56, panel.width / 4.4), matrix = panel.x + (panel.width - 4 * cell - 6) / 2;
  const ROW = beside ? 44 : 54, bars = panel.y + 3 * ROW + 62; // 44 pixels where a phone shows it smaller, too
  const drawing = explore.canvas(stage, space, Math.max(bars + 128, top + tall + 80),
    "A triangle of weights with a point to drag; the Jacobian of softmax there, and the gradient of the three scores");
  const place = (weights) => [0, 1].map((axis) => sum(weights.map((w, i) => w * corners[i][axis])));
  const weightsAt = (px, py) => {
    const third = (top + tall - py) / tall, second = (px - left - (third * side) / 2) / side;
    const raw = [1 - second - third, second, third].map((w) => Math.max(LEAST, w));
    return raw.map((w) => w / sum(raw));
  };
  draw(drawing, "polygon", { points: corners.map((c) => c.join(",")).join(" "), fill: "var(--face)", class: "axis" });
  WORDS.forEach((word, i) => draw(drawing, "text", { x: corners[i][0], y: corners[i][1] + (i === 2 ? -12 : 22),
    "text-anchor": i === 2 ? "middle" : i ? "end" : "start", style: `fill: ${COLOURS[i]}` }, word));
  const defs = draw(drawing, "defs");
  for (const name of ["cotangent", "wrong"]) {
    const head = draw(defs, "marker", { id: `simplex-${name}`, viewBox: "0 0 8 8", refX: 6, refY: 4,
      markerWidth: 4.5, markerHeight: 4.5, orient: "auto" });
    draw(head, "path", { d: "M 0 0 L 8 4 L 0 8 z", fill: `var(--${name})` });
  }
  const picture = draw(drawing, "g");
  const point = explore.handle(drawing, { label: "the three weights", name: "point", axes: "xy", radius: 11, step: side / 100 },
    (px, py) => {
      const weights = weightsAt(px, py), level = sum(state.x) / 3;
      const logs = weights.map(Math.log), shift = level - sum(logs) / 3;
      state.x = logs.map((v) => v + shift);
      update();
    });

  const compute = () => {
    const row = (values) => core.from([values]);
    const weightsOf = (x) => core.softmax(row(x))[0].data;
    const [a, cache] = core.softmax(row(state.x));
    const weights = [...a.data];
    const pull = (dweights) => (state.uncoupled ? dweights.map((v, i) => v * weights[i])
      : [...core.softmaxBackward(row(dweights), cache).dx.data]);
    return {
      weights,
      dx: pull(state.dweights),
      jacobian: EACH.map((i) => pull(EACH.map((j) => Number(i === j)))),
      measured: EACH.map((i) => explore.differences((x) => weightsOf(x)[i], state.x)),
      slope: explore.differences((x) => sum([...weightsOf(x)].map((v, i) => v * state.dweights[i])), state.x),
    };
  };

  const drawTriangle = ({ weights, dx, slope }) => {
    const [x, y] = place(weights);
    WORDS.forEach((word, i) => {
      const foot = [0, 1].map((axis) => (corners[(i + 1) % 3][axis] + corners[(i + 2) % 3][axis]) / 2);
      const height = [0, 1].map((axis) => corners[i][axis] - foot[axis]);
      draw(picture, "line", { x1: x, y1: y, x2: x - weights[i] * height[0], y2: y - weights[i] * height[1],
        stroke: COLOURS[i], "stroke-width": state.entry.includes(i) ? 6 : 3 });
      const text = draw(picture, "text", { x: corners[i][0] + (i === 2 ? 40 : 0), y: corners[i][1] + (i === 2 ? -12 : 40),
        "text-anchor": i === 2 ? "middle" : i ? "end" : "start", style: `fill: ${COLOURS[i]}` });
      show(text, weights[i], written(weights[i]), `weight${i}`);
    });
    // Downhill. A gradient that does not sum to 0 points out of the plane; its part in the plane is drawn.
    const arrow = (gradient, kind) => {
      const out = sum(gradient) / 3, flat = gradient.map((v) => out - v);
      const scale = 0.6 / Math.max(2, Math.hypot(...flat));
      const end = place(weights.map((w, i) => w + scale * flat[i]));
      if (Math.hypot(end[0] - x, end[1] - y) > 2)
        draw(picture, "line", { x1: x, y1: y, x2: end[0], y2: end[1], stroke: `var(--${kind})`, "stroke-width": 3.5,
          "marker-end": `url(#simplex-${kind})` });
    };
    arrow(slope, "cotangent");
    if (state.uncoupled) arrow(dx, "wrong");
    draw(picture, "text", { x: beside ? left : space / 2, y: top + tall + 66, class: "soft",
      "text-anchor": beside ? "start" : "middle" }, "arrow: −x̄, the scores' way downhill");
    point.place(x, y, WORDS.map((word, i) => `${word} ${number(weights[i])}`).join(", "));
  };

  const drawMatrix = ({ jacobian, measured }) => {
    const wrong = (i, j) => Math.abs(jacobian[i][j] - measured[i][j]) > 1e-6;
    draw(picture, "text", { x: matrix, y: panel.y - 10, class: "soft" }, "J: point at an entry; under it its difference quotient");
    jacobian.forEach((row, i) => {
      row.forEach((v, j) => {
        const x = matrix + j * cell, y = panel.y + i * ROW;
        draw(picture, "rect", { x, y, width: cell, height: ROW, fill: v > 0 ? "var(--blue)" : "var(--orange)",
          "fill-opacity": Math.min(1, Math.abs(v) * 4) * 0.35, stroke: wrong(i, j) ? "var(--wrong)" : "var(--line)",
          "stroke-width": wrong(i, j) ? 2.5 : 1 });
        const middle = { x: x + cell / 2, "text-anchor": "middle" };
        show(draw(picture, "text", { ...middle, y: y + 18 }), v, number(v, 3), `jacobian${i}${j}`);
        show(draw(picture, "text", { ...middle, y: y + 35, class: "soft" }), measured[i][j], number(measured[i][j], 3),
          `measured${i}${j}`);
      });
      const total = sum(row);
      show(draw(picture, "text", { x: matrix + 3 * cell + 8, y: panel.y + i * ROW + 25, class: "soft" }), total,
        `Σ ${Math.abs(total) < 1e-12 ? "0" : number(total)}`, `row${i}`);
    });
    const [i, j] = state.entry;
    draw(picture, "rect", { x: matrix + j * cell + 2, y: panel.y + i * ROW + 2, width: cell - 4, height: ROW - 4, fill: "none",
      stroke: "var(--ink)", "stroke-width": 2 });
  };

  // The entry that is pointed at, by its formula: the weights have the hues of their words.
  const formula = stage.appendChild(make("p", { className: "formula" }));
  const drawFormula = ({ weights, jacobian, measured }) => {
    const [i, j] = state.entry, at = INDEX[i] + INDEX[j];
    const hued = (n, text) => make("b", { style: `color: ${COLOURS[n]}` }, text);
    const entry = show(explore.output("entry"), jacobian[i][j], written(jacobian[i][j]));
    const quotient = show(explore.output("quotient"), measured[i][j], number(measured[i][j], 3));
    const letters = state.uncoupled ? [hued(i, `a${INDEX[i]}`), ` δ${at}`] : [hued(i, `a${INDEX[i]}`), ` (δ${at} − `, hued(j, `a${INDEX[j]}`), ")"];
    const delta = Number(i === j), first = hued(i, written(weights[i]));
    const digits = state.uncoupled ? [first, ` · ${delta}`] : [first, ` (${delta} − `, hued(j, written(weights[j])), ")"];
    formula.replaceChildren(`J${at} = `, ...letters, " = ", ...digits, " = ", entry, "; difference quotient ", quotient);
  };
  const entries = EACH.map((i) => EACH.map((j) => {
    const target = draw(drawing, "rect", { x: matrix + j * cell, y: panel.y + i * ROW, width: cell, height: ROW, class: "entry",
      role: "button", "aria-label": `entry of row ${i} and column ${j}` });
    const light = () => {
      state.entry = [i, j];
      update(i === j ? `A higher score of ${WORDS[i]} raises its own weight.`
        : `A higher score of ${WORDS[j]} lowers the weight of ${WORDS[i]}.`);
    };
    for (const event of ["pointerenter", "focus"]) target.addEventListener(event, light);
    return target;
  }));
  explore.grid(entries);

  const drawBars = ({ dx, slope }) => {
    const limit = Math.max(1, ...dx.map(Math.abs), ...slope.map(Math.abs));
    const y = (v) => bars + 40 - (v / limit) * 38;
    draw(picture, "text", { x: matrix, y: bars - 16, class: "soft" }, "x̄, ring: measured");
    draw(picture, "line", { x1: matrix, x2: matrix + 4 * cell, y1: y(0), y2: y(0), class: "axis" });
    dx.forEach((v, i) => {
      const x = matrix + (i + 0.5) * cell;
      draw(picture, "rect", { x: x - 14, width: 28, y: Math.min(y(0), y(v)), height: Math.abs(y(v) - y(0)),
        fill: COLOURS[i] });
      draw(picture, "circle", { cx: x, cy: y(slope[i]), r: 6, fill: "none", stroke: "var(--cotangent)", "stroke-width": 2.5 });
      show(draw(picture, "text", { x, y: bars + 98, "text-anchor": "middle" }), v, written(v), `dx${i}`);
      draw(picture, "text", { x, y: bars + 116, "text-anchor": "middle", class: "soft" }, WORDS[i]);
    });
    const total = sum(dx), off = Math.abs(total) > 1e-9;
    show(draw(picture, "text", { x: matrix + 3 * cell + 8, y: bars + 98, style: off ? "fill: var(--wrong)" : "" }), total, `Σ ${off ? number(total) : "0"}`, "sum");
  };

  const update = (move = "") => {
    const now = compute();
    picture.replaceChildren();
    drawTriangle(now);
    drawMatrix(now);
    drawFormula(now);
    drawBars(now);
    EACH.forEach((i) => { scores[i].value = state.x[i]; });
    const largest = Math.max(...now.measured.map((row, i) => row[i])), off = sum(now.dx);
    say(`${move} Weights ${now.weights.map(written).join(", ")}; gradient ${now.dx.map(written).join(", ")}`
      + `, sum ${Math.abs(off) < 1e-9 ? "0" : `${number(off)}: it points out of the triangle's plane`}.`
      + (largest < 0.02 ? ` The largest entry of J is ${power(largest)}: hardly anything moves the weights here.` : ""));
  };

  const scores = EACH.map((i) => explore.slider(controls, { name: `x${i}`, label: `x${INDEX[i]}, ${WORDS[i]}`,
    min: -8, max: 8, step: "any", value: state.x[i], format: (v) => number(v) }, (v) => {
    state.x[i] = v;
    update();
  }));
  EACH.forEach((i) => explore.slider(controls, { name: `dweights${i}`, label: `ā${INDEX[i]}`,
    min: -8, max: 8, step: 1, value: state.dweights[i], format: (v) => number(v, 0) }, (v) => {
    state.dweights[i] = v;
    const [first] = state.dweights;
    update(first && state.dweights.every((w) => w === first) ? "All ā are equal: J sends them to 0." : "");
  }));
  explore.toggle(controls, { name: "uncoupled", label: "forget the coupling, a mistake" }, (checked) => {
    state.uncoupled = checked;
    update();
  });
  update();
});
