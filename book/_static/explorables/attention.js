// One attention head with two entries in queries, keys and values, forward and backward.
explore("attention", ({ stage, controls, say }) => {
  const { button, canvas, choice, differences, draw, fraction, handle, make, number, output, power, set, show, toggle } = explore;
  const WORDS = ["cats", "chase", "mice"], PARTS = ["query", "key", "value"];
  const SYMBOLS = { query: "q'", key: "K'", value: "V'" }; // of the backward pass in formulas and code

  // These queries and keys give the chapter's scores, but for a number that each row has in common.
  const unit = Math.SQRT2 * Math.LN2;
  const fresh = () => ({
    query: [[-unit / 2, unit / 4], [unit, 0], [-unit / 2, (3 * unit) / 4]],
    key: [[1, 1], [-1, 1], [0, -1]],
    value: [[1, 5], [-2, 4], [-1, 2]],
    doutput: [2, 1],
  });
  const state = { ...fresh(), focus: 1, causal: false, scaled: true, gradients: false };

  const forward = ({ query, key, value }) => {
    const stretch = state.scaled ? 1 : Math.SQRT2; // undoes the division by √d_k
    return core.attention(core.map(core.from(query), (v) => stretch * v), core.from(key), core.from(value),
      state.causal ? core.causalKeep(3) : null);
  };

  const cotangent = () => core.from(WORDS.map((_, t) => (t === state.focus ? state.doutput : [0, 0])));

  const backward = (cache) => {
    const { dquery, dkey, dvalue, dscores } = core.attentionBackward(cotangent(), cache);
    const stretch = state.scaled ? 1 : Math.SQRT2;
    return { query: core.nested(core.map(dquery, (v) => stretch * v)), key: core.nested(dkey), value: core.nested(dvalue),
      scores: core.nested(dscores)[state.focus] };
  };

  const loss = (given) => {
    const output = core.nested(forward(given)[0])[state.focus];
    return output[0] * state.doutput[0] + output[1] * state.doutput[1];
  };

  const measure = (what) => differences((flat) =>
    loss({ ...state, [what]: WORDS.map((_, n) => flat.slice(2 * n, 2 * n + 2)) }), state[what].flat());

  // Two planes, each with its own place for (0, 0) and size of 1.
  const panels = stage.appendChild(make("div", { className: "panels" }));
  const plane = (title, label, left, top, scale) => {
    const drawing = canvas(panels, 320, 320, label);
    draw(drawing, "text", { x: 0, y: 12 }, title);
    for (const line of [{ x1: 0, x2: 320, y1: top, y2: top }, { x1: left, x2: left, y1: 22, y2: 320 }])
      draw(drawing, "line", { ...line, stroke: "var(--line)" });
    return {
      drawing,
      at: ([x, y]) => [left + scale * x, top - scale * y],
      from: (x, y) => [(x - left) / scale, (top - y) / scale],
      step: scale / 10,
    };
  };
  const asking = plane("queries and keys (gradients at half length)", "Queries and keys in the plane, with their gradients", 160, 172, 72);
  const answering = plane("values, output (dot) and cotangent", "Values, output and cotangent in the plane, with gradients", 160, 312, 44);

  const arrow = ({ drawing, at }, hue, width, symbol) => {
    const path = draw(drawing, "path", { fill: "none", stroke: `var(--${hue})`, "stroke-width": width,
      "stroke-linecap": "round", "pointer-events": "none" });
    if (symbol) {
      path.classList.add(`sym:${symbol}`);
      path.setAttribute("pointer-events", "stroke");
    }
    return (start, way) => {
      const [x, y] = at(start), [tipX, tipY] = at([start[0] + way[0], start[1] + way[1]]);
      const angle = Math.atan2(tipY - y, tipX - x);
      const barb = (turn) => `M ${tipX} ${tipY} L ${tipX - 7 * Math.cos(angle + turn)} ${tipY - 7 * Math.sin(angle + turn)}`;
      path.setAttribute("d", Math.hypot(tipX - x, tipY - y) < 2 ? "" : `M ${x} ${y} L ${tipX} ${tipY} ${barb(0.5)} ${barb(-0.5)}`);
      return path;
    };
  };

  const clamp = (v, low, high) => Math.min(high, Math.max(low, v));
  const BOUNDS = { query: [[-2, 2], [-2, 2]], key: [[-2, 2], [-2, 2]], value: [[-3, 3], [0, 6]], doutput: [[-3, 3], [-3, 3]] };
  const inside = (what, row) => row.map((v, i) => clamp(v, ...BOUNDS[what][i]));

  const triangle = draw(answering.drawing, "path", { fill: "var(--value)", "fill-opacity": 0.12, stroke: "var(--value)", "stroke-dasharray": "4 3" });
  const discs = ["key", "value"].map((what) => WORDS.map(() => draw((what === "key" ? asking : answering).drawing, "circle",
    { fill: `var(--${what})`, "fill-opacity": 0.3 })));
  const rays = WORDS.map(() => arrow(asking, "query", 2));
  const pulls = Object.fromEntries(Object.entries(SYMBOLS).map(([what, symbol]) =>
    [what, WORDS.map(() => arrow(what === "value" ? answering : asking, "cotangent", 2.5, symbol))]));
  const wish = arrow(answering, "cotangent", 3, "o'");
  const tip = handle(answering.drawing, { label: "cotangent of the output", axes: "xy", hue: "cotangent", step: answering.step }, (x, y) => {
    const output = core.nested(forward(state)[0])[state.focus], [a, b] = answering.from(x, y);
    state.doutput = inside("doutput", [a - output[0], b - output[1]]);
    paint();
    tell(`The cotangent is (${written(state.doutput)}).`);
  });
  const spots = Object.fromEntries(PARTS.map((what) => {
    const where = what === "value" ? answering : asking;
    return [what, WORDS.map((word, n) => {
      const label = draw(where.drawing, "text", { style: `fill: var(--${what})`, "pointer-events": "none" }, word);
      const grip = handle(where.drawing, { label: `${what} of ${word}`, axes: "xy", hue: what, step: where.step },
        (x, y) => { state[what][n] = inside(what, where.from(x, y)); paint(); tell(`The ${what} of ${word} is (${written(state[what][n])}).`); });
      return { ...grip, label };
    })];
  }));
  const dot = draw(answering.drawing, "circle", { r: 5, fill: "var(--ink)" });

  // The weights, and every gradient beside its difference quotient.
  const written = (row) => row.map((v) => number(v)).join(", ");
  const cells = WORDS.map((_, t) => WORDS.map((__, s) => explore.cell(`weight-${t}-${s}`)));
  const weights = explore.table(["", ...WORDS], WORDS.map((word, t) => [word, ...cells[t]]));
  weights.prepend(make("caption", {}, "weights"));
  const outputs = [0, 1].map((c) => output(`output-${c}`)), worst = output("worst");
  const scores = WORDS.map((_, s) => output(`dscore-${s}`));
  const result = make("p", {}, "output of ", make("span", { className: "focus" }), ": (", outputs[0], ", ", outputs[1], "); gradient of its scores: ",
    make("span", { className: "unbroken sym:s'" }, "(", ...scores.flatMap((score, s) => (s ? [", ", score] : [score])), ")"), "; largest gap between a gradient and its quotient: ", worst);
  const pairs = {};
  const gradients = explore.table(["", "gradient", "quotient"], PARTS.flatMap((what) => WORDS.map((word, n) => {
    pairs[`${what}-${n}`] = ["d", "measured-"].map((kind) => [0, 1].map((i) => output(`${kind}${what}-${n}-${i}`)));
    return [make("th", { scope: "row", style: `color: var(--${what})` }, `${what} ${word}`),
      ...pairs[`${what}-${n}`].map(([a, b]) => make("td", {}, a, ", ", b))];
  })));
  Object.keys(pairs).forEach((name, n) => { gradients.tBodies[0].rows[n].className = `sym:${SYMBOLS[name.split("-")[0]]}`; });
  const proof = make("div", {}, gradients);
  panels.append(make("div", {}, weights, result), proof);
  stage.append(make("p", {}, "Softmax ignores what a row of scores has in common, so two entries are enough for the chapter's weights."));

  choice(controls, { name: "focus", label: "the loss reads", value: "1", options: { ...WORDS } }, (value) => {
    state.focus = Number(value);
    paint();
    tell(`The loss reads ${WORDS[state.focus]}: the other two queries have the gradient 0.`);
  });
  const option = (name, label, on, off) => toggle(controls, { name, label, checked: state[name] }, (checked) => {
    state[name] = checked;
    paint();
    tell(checked ? on : off);
  });
  option("causal", "causal mask", "No word attends to a later one.", "Every word attends to all.");
  option("scaled", "divide by √d_k", "Scores are divided by √2.", "Scores are not divided: the weights harden.");
  option("gradients", "gradients", "Each arrow is the gradient of the point where it starts.", "Only what the forward pass sees.");
  button(controls, "One step of descent", () => {
    const before = loss(state), grads = backward(forward(state)[1]);
    for (const what of PARTS)
      state[what] = state[what].map((row, n) => inside(what, row.map((v, i) => v - 0.1 * grads[what][n][i])));
    paint();
    tell(`Rate 0.1: the product of cotangent and output went from ${number(before)} to ${number(loss(state))}.`);
  });

  const tell = (first) => say(`${first} ${WORDS[state.focus]} weighs the words (${cells[state.focus].map((cell) => cell.textContent).join(", ")}).`);

  const paint = () => {
    const [output, cache] = forward(state), grads = backward(cache), all = core.nested(cache.weights);
    const result = core.nested(output)[state.focus];
    WORDS.forEach((word, n) => {
      rays[n]([0, 0], state.query[n]).setAttribute("opacity", n === state.focus ? 1 : 0.35);
      for (const what of PARTS) {
        const where = what === "value" ? answering : asking, [x, y] = where.at(state[what][n]);
        const { label, place, point } = spots[what][n];
        place(x, y, written(state[what][n]));
        point.dataset.value = state[what][n];
        set(label, { "text-anchor": what === "value" ? "end" : "start", x: x + (what === "value" ? -12 : 12), y: y + (what === "query" ? 18 : -8) });
        const pull = pulls[what][n](state[what][n], grads[what][n].map((v) => (what === "value" ? v : v / 2)));
        pull.setAttribute("visibility", state.gradients ? "visible" : "hidden");
        for (const place of [pull, pairs[`${what}-${n}`][0][0].closest("tr")])
          place.dataset.number = `gradient of the ${what} of ${word}: (${written(grads[what][n])})`;
      }
      discs.forEach((row, k) => {
        const [x, y] = (k ? answering : asking).at(state[k ? "value" : "key"][n]);
        set(row[n], { cx: x, cy: y, r: 34 * Math.sqrt(all[state.focus][n]) });
      });
      cells[n].forEach((cell, s) => {
        show(cell, all[n][s], fraction(all[n][s]));
        cell.style.background = `color-mix(in srgb, var(--key) ${Math.round(40 * all[n][s])}%, transparent)`;
        cell.parentNode.style.fontWeight = n === state.focus ? "bold" : "normal";
      });
    });
    triangle.setAttribute("d", `M ${state.value.map((row) => answering.at(row).join(" ")).join(" L ")} Z`);
    const [x, y] = answering.at(result), [tipX, tipY] = answering.at(result.map((v, i) => v + state.doutput[i]));
    set(dot, { cx: x, cy: y });
    const wished = wish(result, state.doutput);
    wished.dataset.number = `cotangent of the output: (${written(state.doutput)})`;
    for (const part of [wished, ...tip.parts]) part.style.display = state.gradients ? "" : "none";
    tip.place(tipX, tipY, written(state.doutput));
    tip.point.dataset.value = state.doutput;
    proof.hidden = !state.gradients;
    let gap = 0;
    for (const what of PARTS)
      measure(what).forEach((measured, place) => {
        const n = Math.floor(place / 2), i = place % 2, [grad, quotient] = pairs[`${what}-${n}`];
        show(grad[i], grads[what][n][i]);
        show(quotient[i], measured);
        gap = Math.max(gap, Math.abs(measured - grads[what][n][i]));
      });
    show(worst, gap, power(gap));
    stage.querySelector(".focus").textContent = WORDS[state.focus];
    scores.forEach((element, s) => show(element, grads.scores[s], fraction(grads.scores[s])));
    scores[0].parentNode.dataset.number = `gradient of the scores of ${WORDS[state.focus]}: (${grads.scores.map((v) => fraction(v)).join(", ")})`;
    outputs.forEach((element, c) => show(element, result[c], fraction(result[c])));
  };

  paint();
  say("Drag the query of chase towards the key of mice: the output walks to the value of mice, and stays in the triangle.");
});
