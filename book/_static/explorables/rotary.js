// Rotary positions: every pair of entries is an arrow, turned by its frequency times the position.
explore("rotary", ({ stage, controls, say }) => {
  const { canvas, choice, draw, handle, make, number, readouts, set, show, slider } = explore;
  const QUERY = [1.2, 0.4, -0.8, 1, 0.6, -1, 0.9, 0.3], KEY = [0.8, -0.5, 1, 0.7, -0.6, -0.9, 0.4, 1.1];
  const PAIRS = QUERY.length / 2, LONGEST = 48, RADIUS = 31, LENGTH = 20;
  const frequencies = Array.from({ length: PAIRS }, (_, i) => 100 ** ((-2 * i) / QUERY.length));
  const state = { s: 3, distance: 4, layout: "pairs" };

  const pair = (row, i) => state.layout === "pairs" ? [row[2 * i], row[2 * i + 1]] : [row[i], row[i + PAIRS]];
  const turned = (row, i, position) => {
    const [a, b] = pair(row, i), cosine = Math.cos(position * frequencies[i]), sine = Math.sin(position * frequencies[i]);
    return [a * cosine - b * sine, a * sine + b * cosine];
  };
  const terms = (t, s) => frequencies.map((_, i) => {
    const [u, w] = [turned(QUERY, i, t), turned(KEY, i, s)];
    return (u[0] * w[0] + u[1] * w[1]) / Math.sqrt(QUERY.length);
  });
  const score = (t, s) => terms(t, s).reduce((sum, v) => sum + v, 0);

  const panels = stage.appendChild(make("div", { className: "panels" }));

  const faces = canvas(panels, 320, 236, "Four pairs, each with the arrows of the query and of the key");
  const heading = draw(faces, "text", { x: 0, y: 12 });
  const circles = frequencies.map((_, i) => {
    const x = 80 + 160 * (i % 2), y = 60 + 106 * Math.floor(i / 2);
    draw(faces, "circle", { cx: x, cy: y, r: RADIUS, fill: "var(--face)", stroke: "var(--line)" });
    const arrows = [["blue", 6], ["orange", 3]].map(([hue, wide]) => draw(faces, "line",
      { x1: x, y1: y, stroke: `var(--${hue})`, "stroke-width": wide, "stroke-linecap": "round" }));
    const term = draw(faces, "text", { x, y: y + 46, name: `term-${i}`, "text-anchor": "middle" });
    return { x, y, arrows, term };
  });

  const chart = canvas(panels, 320, 214, "Score of the query with the key at every distance");
  const across = (distance) => 8 + (304 * distance) / LONGEST, up = (v) => 100 - 56 * v;
  draw(chart, "text", { x: 0, y: 12 }, "Score at every distance t − s");
  draw(chart, "line", { x1: 0, x2: 320, y1: up(0), y2: up(0), stroke: "var(--soft)" });
  const stems = Array.from({ length: LONGEST + 1 }, (_, distance) => draw(chart, "line",
    { x1: across(distance), x2: across(distance), y1: up(0), "stroke-width": 3 }));
  const grip = handle(chart, { label: "distance", radius: 11, step: 304 / LONGEST },
    (x) => move({ distance: Math.round((x - 8) * LONGEST / 304) }));

  const write = readouts(stage, { score: "Score", moved: "with both one position later" });

  const limits = { s: [0, 60], distance: [0, LONGEST] };
  const sliders = Object.fromEntries(Object.entries({ s: "position s of the key", distance: "distance t − s" }).map(
    ([name, label]) => [name, slider(controls,
      { name, label, min: limits[name][0], max: limits[name][1], step: 1, value: state[name], format: String },
      (value) => move({ [name]: value }))]));
  choice(controls, { name: "layout", label: "the same numbers as ", value: state.layout,
    options: { pairs: "pairs, side by side", halves: "halves" } }, (layout) => move({ layout }));

  const move = (wanted) => {
    for (const [name, value] of Object.entries(wanted))
      state[name] = limits[name] ? Math.min(limits[name][1], Math.max(limits[name][0], value)) : value;
    paint();
    say(`Query at ${state.s + state.distance}, key at ${state.s}: at the distance ${state.distance} the score is ${
      number(score(state.distance, 0))}, wherever the two stand.`);
  };

  const paint = () => {
    const { s, distance } = state, t = s + distance, all = terms(t, s);
    heading.textContent = `Query at ${t}, key at ${s}: terms of the score`;
    circles.forEach(({ x, y, arrows, term }, i) => {
      [turned(QUERY, i, t), turned(KEY, i, s)].forEach(([a, b], n) => set(arrows[n], { x2: x + LENGTH * a, y2: y - LENGTH * b }));
      show(term, all[i]);
    });
    stems.forEach((stem, n) => set(stem, { y2: up(score(n, 0)), stroke: n === distance ? "var(--blue)" : "var(--line)" }));
    grip.place(across(distance), 190, `distance ${distance}`);
    write.score(score(t, s));
    write.moved(score(t + 1, s + 1));
    sliders.s.value = s;
    sliders.distance.value = distance;
  };

  paint();
  say("Move the key: both arrows of each pair turn alike, and the score stays. Then move the distance, and change the layout.");
});
