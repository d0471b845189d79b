// Two heads of the chapter in the plane of the first two entries of the output: two averages, and their sum.
"use strict";
explore("heads", ({ stage, controls, say }) => {
  const { cell, draw, make, number, fraction, handle, readouts, set, show } = explore;
  const WORDS = ["cats", "chase", "mice"], RATE = 0.1, STEPS = 100, LEAST = 0.002;
  // The values of each head after its rows of W_O, and the weights that it begins with.
  const HEADS = [
    { hue: "blue", values: [[1, 5], [-2, 4], [-1, 2]], weights: [4 / 7, 1 / 7, 2 / 7] },
    { hue: "red", values: [[4, -2], [2, 0], [0, 6]], weights: [1 / 4, 1 / 2, 1 / 4] },
  ];
  const state = { scores: HEADS.map(({ weights }) => weights.map(Math.log)), target: [2, 8], both: true };

  const compute = () => {
    const heads = HEADS.map(({ values }, h) => {
      const [{ data: weights }, cache] = core.softmax(core.from([state.scores[h]]));
      const output = [0, 1].map((k) => values.reduce((sum, value, s) => sum + weights[s] * value[k], 0));
      return { weights, cache, output };
    });
    const y = [0, 1].map((k) => heads[0].output[k] + (state.both ? heads[1].output[k] : 0));
    const dy = y.map((v, k) => v - state.target[k]);
    const loss = (dy[0] ** 2 + dy[1] ** 2) / 2;
    const dscores = heads.map(({ cache }, h) => {
      if (h && !state.both) return [0, 0, 0];
      const dweights = HEADS[h].values.map((value) => value[0] * dy[0] + value[1] * dy[1]);
      return [...core.softmaxBackward(core.from([dweights]), cache).dx.data];
    });
    return { heads, y, loss, dscores };
  };

  const SCALE = 26, X = (x) => 110 + SCALE * x, Y = (y) => 312 - SCALE * y, at = ([x, y]) => `${X(x)} ${Y(y)}`;
  const drawing = explore.canvas(stage, 340, 376, "Two triangles, in each the output of a head; a parallelogram leads to their sum");
  for (const line of [{ x1: 0, x2: 340, y1: Y(0), y2: Y(0) }, { x1: X(0), x2: X(0), y1: 0, y2: 376 }])
    draw(drawing, "line", { ...line, stroke: "var(--line)" });
  // What two averages can add up to: the convex hull of all sums of two values.
  const sums = HEADS[0].values.flatMap((a) => HEADS[1].values.map((b) => [a[0] + b[0], a[1] + b[1]]));
  const turn = (o, a, b) => (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0]);
  const half = (points) => points.reduce((chain, p) => {
    while (chain.length > 1 && turn(chain.at(-2), chain.at(-1), p) <= 0) chain.pop();
    return [...chain, p];
  }, []).slice(0, -1);
  const sorted = sums.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const hull = [...half(sorted), ...half([...sorted].reverse())];
  const reach = draw(drawing, "path", { d: `M${hull.map(at).join("L")}Z`, fill: "var(--face)", stroke: "var(--line)", "stroke-dasharray": "4 3" });
  const triangles = HEADS.map(({ hue, values }) => {
    const group = draw(drawing, "g");
    draw(group, "path", { d: `M${values.map(at).join("L")}Z`, fill: `var(--${hue})`, "fill-opacity": 0.12, stroke: `var(--${hue})` });
    values.forEach(([x, y], s) => draw(group, "text", { x: X(x) + (x < 0 ? -5 : 5), y: Y(y) + (y < 0 ? 15 : -5),
      "text-anchor": x < 0 ? "end" : "start", style: `fill: var(--${hue})` }, WORDS[s]));
    return group;
  });
  const parallelogram = draw(drawing, "path", { fill: "none", stroke: "var(--ink)" });
  const miss = draw(drawing, "line", { stroke: "var(--cotangent)", "stroke-width": 2, "stroke-dasharray": "5 4" });
  const sum = draw(drawing, "circle", { r: 5, fill: "var(--ink)" });
  const name = draw(drawing, "text", { class: "letter" }, "y");

  // The weights by which a head gives a point: of a point outside its triangle, of one near it.
  const weigh = (values, [x, y]) => {
    const [a, b, c] = values, whole = turn(a, b, c), p = [x, y];
    const parts = [turn(p, b, c), turn(a, p, c), turn(a, b, p)].map((part) => Math.max(LEAST, part / whole));
    return parts.map((part) => part / (parts[0] + parts[1] + parts[2]));
  };
  const grips = HEADS.map(({ hue, values }, h) =>
    handle(drawing, { label: `output of head ${h}`, axes: "xy", hue, step: SCALE / 5 }, (x, y) => {
      state.scores[h] = weigh(values, [(x - 110) / SCALE, (312 - y) / SCALE]).map(Math.log);
      update();
    }));
  const goal = handle(drawing, { label: "target", axes: "xy", hue: "cotangent", radius: 7, step: SCALE / 5, className: "target" }, (x, y) => {
    state.target = [Math.max(-4, Math.min(8, (x - 110) / SCALE)), Math.max(-2, Math.min(11.5, (312 - y) / SCALE))];
    update();
  });

  const cells = HEADS.map((_, h) => WORDS.map((__, s) => ["weight", "dscore"].map((what) => cell(`${what}-${h}-${s}`))));
  const headings = HEADS.map(({ hue }, h) => make("th", { colSpan: 2, scope: "colgroup", style: `color: var(--${hue})` }, `head ${h}`));
  const table = explore.table(["", "A", "S̄", "A", "S̄"], WORDS.map((word, s) => [word, ...cells.flatMap((head) => head[s])]));
  table.tHead.prepend(make("tr", {}, make("td"), ...headings));
  stage.append(table);
  const write = readouts(stage, { "y-0": "y₀ =", "y-1": "y₁ =", loss: "half the squared distance" });

  const update = (first = "") => {
    const { heads, y, loss, dscores } = compute();
    heads.forEach(({ weights, output }, h) => {
      grips[h].place(X(output[0]), Y(output[1]), output.map((v) => number(v)).join(", "));
      grips[h].point.dataset.value = output;
      [...weights].forEach((v, s) => show(cells[h][s][0], v, fraction(v)));
      dscores[h].forEach((v, s) => show(cells[h][s][1], v));
    });
    const [one, other] = heads.map(({ output }) => output), zero = [0, 0];
    parallelogram.setAttribute("d", state.both ? `M${[zero, one, y, other, zero].map(at).join("L")}` : `M${[zero, one].map(at).join("L")}`);
    for (const part of [triangles[1], grips[1].point, reach]) part.setAttribute("opacity", state.both ? 1 : 0.25);
    set(sum, { cx: X(y[0]), cy: Y(y[1]) });
    set(name, { x: X(y[0]) + 9, y: Y(y[1]) + 5 });
    set(miss, { x1: X(y[0]), y1: Y(y[1]), x2: X(state.target[0]), y2: Y(state.target[1]) });
    goal.place(X(state.target[0]), Y(state.target[1]), state.target.map((v) => number(v, 1)).join(", "));
    goal.point.dataset.value = state.target;
    y.forEach((v, k) => write[`y-${k}`](v, fraction(v)));
    write.loss(loss);
    say(`${first} ${state.both ? "The outputs of two heads add up: y may lie anywhere in the dashed region"
      : "One head gives an average of its three values: y stays in its triangle"}. It is ${number(Math.sqrt(2 * loss))} from the target.`);
  };
  const step = () => {
    const { dscores } = compute();
    state.scores = state.scores.map((scores, h) => scores.map((score, s) => score - RATE * dscores[h][s]));
  };
  explore.button(controls, "One step", () => { step(); update(); });
  explore.button(controls, `Descend ${STEPS} steps`, () => {
    let taken = 0;
    update("Step 0.");
    explore.play(stage, 2, STEPS, (n) => {
      for (; taken < n; taken += 1) step();
      update(`Step ${n}.`);
    });
  });
  explore.toggle(controls, { name: "both", label: "the second head, too", checked: true }, (checked) => {
    state.both = checked;
    update();
  });
  update();
});
