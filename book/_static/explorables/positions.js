// Sinusoidal positions as clocks: every pair of entries is the hand of one.
explore("positions", ({ stage, controls, say }) => {
  const { button, canvas, draw, handle, make, number, output, play, power, set, show, slider } = explore;
  const T = 64, D = 16, COLUMNS = 4, RADIUS = 31;
  const table = core.nested(core.sinusoidalPositions(T, D));
  const frequencies = Array.from({ length: D / 2 }, (_, i) => 10000 ** ((-2 * i) / D));
  const dot = (a, b) => a.reduce((sum, v, n) => sum + v * b[n], 0);
  const state = { t: 5, k: 4 };

  const panels = stage.appendChild(make("div", { className: "panels" }));

  // The clocks: the first entry of a pair points to three o'clock, the second to noon.
  const faces = canvas(panels, 320, 236, "Eight clocks, each with the hands of two positions");
  const heading = draw(faces, "text", { x: 0, y: 12 });
  const clocks = frequencies.map((frequency, i) => {
    const x = 40 + 80 * (i % COLUMNS), y = 60 + 112 * Math.floor(i / COLUMNS);
    const face = draw(faces, "circle", { cx: x, cy: y, r: RADIUS, fill: "var(--face)" });
    const turn = draw(faces, "path", { fill: "none", stroke: "var(--purple)", "stroke-width": 2 });
    const hands = [["blue", 8], ["orange", 3]].map(([hue, wide]) => draw(faces, "line",
      { x1: x, y1: y, stroke: `var(--${hue})`, "stroke-width": wide, "stroke-linecap": "round" }));
    const angle = draw(faces, "text", { x, y: y + 48, name: `turn-${i}`, "text-anchor": "middle" });
    return { x, y, frequency, face, turn, hands, angle };
  });

  const point = (hand, [sine, cosine], { x, y }) => set(hand, { x2: x + RADIUS * sine, y2: y - RADIUS * cosine });

  // The way from one hand to the other, a spiral where it goes round more than once.
  const spiral = ({ x, y, frequency }) => {
    const all = frequency * state.k, parts = Math.max(2, Math.ceil(all * 8));
    return `M ${Array.from({ length: parts + 1 }, (_, n) => {
      const part = (all * n) / parts, angle = frequency * state.t + part, radius = 10 + (part * 14) / 23;
      return `${x + radius * Math.sin(angle)} ${y - radius * Math.cos(angle)}`;
    }).join(" L ")}`;
  };

  // How alike all positions are to position t.
  const chart = canvas(panels, 320, 236, "Inner product of every position with the first of the two");
  const across = (s) => 6 + (308 * s) / (T - 1), up = (v) => 176 - (146 * v) / (D / 2);
  draw(chart, "text", { x: 0, y: 12 }, "Inner product with position t");
  draw(chart, "line", { x1: 0, x2: 320, y1: up(0), y2: up(0), stroke: "var(--soft)" });
  const stems = table.map((_, s) => draw(chart, "line", { x1: across(s), x2: across(s), y1: up(0), "stroke-width": 3 }));
  const grips = {
    t: handle(chart, { label: "position t", hue: "blue", radius: 11, step: 308 / (T - 1) },
      (x) => move({ t: Math.round((x - 6) * (T - 1) / 308) })),
    k: handle(chart, { label: "position t + k", hue: "orange", radius: 11, step: 308 / (T - 1) },
      (x) => move({ k: Math.round((x - 6) * (T - 1) / 308) - state.t })),
  };
  const marks = ["t", "t + k"].map((text) => draw(chart, "text", {}, text));

  const [inner, cosines, gap] = ["inner", "cosines", "gap"].map(output);
  stage.append(make("p", {}, "⟨P", make("sub", {}, "t"), ", P", make("sub", {}, "t+k"), "⟩ = ", inner,
    ", Σ cos kω = ", cosines, "; from the turned hands to the table: ", gap, "."));

  // Each pair adds cos kω to the inner product; the one that adds least tells the two positions apart.
  const terms = frequencies.map((_, i) => output(`term-${i}`));
  stage.append(make("p", { className: "numbers" }, make("span", {}, "cos kω of each clock:"), ...terms));
  const parts = () => frequencies.map((frequency) => Math.cos(state.k * frequency));
  const decides = () => parts().indexOf(Math.min(...parts()));

  const limits = { t: [0, 40], k: [0, 23] };
  const sliders = Object.fromEntries(Object.entries({ t: "position t", k: "offset k" }).map(([name, label]) =>
    [name, slider(controls, { name, label, min: limits[name][0], max: limits[name][1], step: 1, value: state[name], format: String },
      (value) => move({ [name]: value }))]));

  const move = (wanted) => {
    for (const [name, value] of Object.entries(wanted))
      state[name] = Math.min(limits[name][1], Math.max(limits[name][0], value));
    paint();
    say(`Positions ${state.t} and ${state.t + state.k}: the first hand turns by ${number(state.k)}, the last by ${
      number(state.k * frequencies[D / 2 - 1], 3)}, as from 0 to ${state.k}. Inner product ${inner.textContent}.${
      state.k ? ` Clock ${decides() + 1} tells them apart best.` : ""}`);
  };

  const paint = () => {
    const { t, k } = state, from = table[t], to = table[t + k];
    heading.textContent = `From position ${t} to position ${t + k}: angle kω`;
    const turned = frequencies.flatMap((frequency, i) => {
      const [s, c] = from.slice(2 * i, 2 * i + 2), cosine = Math.cos(k * frequency), sine = Math.sin(k * frequency);
      return [s * cosine + c * sine, c * cosine - s * sine];
    });
    clocks.forEach((clock, i) => {
      const best = k > 0 && i === decides();
      set(clock.face, { stroke: best ? "var(--purple)" : "var(--line)", "stroke-width": best ? 4 : 1 });
      show(terms[i], parts()[i]);
      terms[i].style.fontWeight = best ? 700 : "";
      point(clock.hands[0], from.slice(2 * i, 2 * i + 2), clock);
      point(clock.hands[1], to.slice(2 * i, 2 * i + 2), clock);
      clock.turn.setAttribute("d", spiral(clock));
      show(clock.angle, k * clock.frequency, number(k * clock.frequency, k * clock.frequency < 0.1 ? 3 : 2));
    });
    stems.forEach((stem, s) => set(stem,
      { y2: up(dot(from, table[s])), stroke: s === t ? "var(--blue)" : s === t + k ? "var(--orange)" : "var(--line)" }));
    [t, t + k].forEach((s, n) => {
      grips["tk"[n]].place(across(s), 196 + 26 * n, `position ${s}`);
      set(marks[n], { x: across(s) + 16, y: 201 + 26 * n });
    });
    show(inner, dot(from, to));
    show(cosines, frequencies.reduce((sum, frequency) => sum + Math.cos(k * frequency), 0));
    const apart = Math.max(...turned.map((v, n) => Math.abs(v - to[n])));
    show(gap, apart, power(apart));
    sliders.t.value = t;
    sliders.k.value = k;
  };

  button(controls, "Let time run", () => {
    move({ t: 0 });
    play(stage, 8, limits.t[1], (t) => move({ t }));
  });

  paint();
  say("Move the position: the hands turn, the angles between them and the inner product stay. Then move the offset.");
});
