// Two distributions to move: how often a draft is kept, and what is written after a rejection.
"use strict";
explore("speculative", ({ stage, controls, say }) => {
  const { cell, choice, draw, handle, number, readouts, show, table } = explore;
  const WORDS = ["mice", "birds", "balls", "trains"], EACH = [0, 1, 2, 3], MOST = 0.97;
  const over25 = (weights) => weights.map((w) => w / 25);
  const P = over25([16, 4, 4, 1]), DRAFTERS = { page: over25([8, 13, 2, 2]), uniform: EACH.map(() => 0.25), same: P, greedy: [1, 0, 0, 0] };
  const state = { p: [...P], q: [...DRAFTERS.page] };
  const sum = (values) => values.reduce((total, v) => total + v, 0);

  // What is written after the draft of each word, by the formulas, and its mean over the drafts.
  const judge = ({ p, q }) => {
    const accept = EACH.map((v) => (q[v] ? Math.min(1, p[v] / q[v]) : 1));
    const more = EACH.map((u) => Math.max(p[u] - q[u], 0)), total = sum(more);
    const residual = more.map((v, u) => (total ? v / total : p[u]));
    const kept = EACH.map((v) => q[v] * accept[v]);
    const written = EACH.map((u) => sum(EACH.map((v) => q[v] * ((u === v ? accept[v] : 0) + (1 - accept[v]) * residual[u]))));
    return { p, q, accept, kept, residual, written };
  };

  const width = Math.max(270, Math.min(stage.clientWidth, 560)), HIGH = 180, TOP = 16, FLOOR = TOP + HIGH;
  const group = width / 4, bar = Math.min(34, group * 0.34);
  const left = (v, which) => group * (v + 0.5) + (which === "p" ? -bar - 2 : 2);
  const drawing = explore.canvas(stage, width, FLOOR + 44, "For each word two bars to drag: p, of what was kept and what was resampled, and q, of what is kept and what is rejected");
  draw(drawing, "line", { x1: 0, x2: width, y1: FLOOR, y2: FLOOR, stroke: "var(--line)" });
  const rect = (v, which, attributes) => draw(drawing, "rect", { x: left(v, which), width: bar, ...attributes });
  const bars = EACH.map((v) => {
    draw(drawing, "text", { x: group * (v + 0.5), y: FLOOR + 36, "text-anchor": "middle" }, WORDS[v]);
    for (const which of ["p", "q"])
      draw(drawing, "text", { x: left(v, which) + bar / 2, y: FLOOR + 17, "text-anchor": "middle", class: "soft" }, which);
    return { keptP: rect(v, "p", { fill: "var(--blue)" }), resampled: rect(v, "p", { fill: "var(--orange)" }),
      keptQ: rect(v, "q", { fill: "var(--blue)" }), rejected: rect(v, "q", { fill: "none", stroke: "var(--soft)", "stroke-dasharray": "4 3" }) };
  });
  const span = (part, from, to) => explore.set(part, { y: FLOOR - HIGH * to, height: HIGH * Math.max(0, to - from) });
  const grips = Object.fromEntries(["p", "q"].map((which) => [which, EACH.map((v) =>
    handle(drawing, { label: `${which} of ${WORDS[v]}`, axes: "y", radius: 7, step: HIGH / 100 },
      (_, y) => set(which, v, (FLOOR - y) / HIGH)))]));

  const COLUMNS = { p: "p", q: "q", accept: "a", kept: "q · a", residual: "r", written: "sum" };
  const cells = Object.fromEntries(Object.keys(COLUMNS).map((name) => [name, EACH.map((v) => cell(`${name}-${v}`))]));
  stage.append(table(["word", ...Object.values(COLUMNS)], WORDS.map((word, v) => [word, ...Object.values(cells).map((column) => column[v])])));
  const write = readouts(stage, { alpha: "α = Σ min(p, q) =", distance: "½ Σ |p − q| =" });

  const update = (move = "") => {
    const found = judge(state), { p, q, kept } = found;
    bars.forEach(({ keptP, resampled, keptQ, rejected }, v) => {
      span(keptP, 0, kept[v]);
      span(resampled, kept[v], p[v]);
      span(keptQ, 0, kept[v]);
      span(rejected, kept[v], q[v]);
      for (const which of ["p", "q"])
        grips[which][v].place(left(v, which) + bar / 2, FLOOR - HIGH * state[which][v], number(state[which][v]));
    });
    for (const [name, column] of Object.entries(cells)) column.forEach((cell, v) => show(cell, found[name][v]));
    const rate = sum(kept);
    write.alpha(rate, number(rate, 3));
    write.distance(sum(EACH.map((v) => Math.abs(p[v] - q[v]))) / 2);
    const missing = EACH.filter((v) => p[v] - q[v] > 1e-12).map((v) => `${WORDS[v]} ${number(found.residual[v])}`);
    say(`${move} A draft is kept with probability ${number(rate)}. ${missing.length ? `After a rejection: ${missing.join(", ")}` : "Nothing is rejected"}.`);
  };
  // The others keep their proportions.
  const set = (which, v, wanted) => {
    const old = state[which], value = Math.max(0, Math.min(MOST, wanted)), rest = 1 - old[v];
    state[which] = old.map((w, u) => (u === v ? value : (rest ? w / rest : 1 / 3) * (1 - value)));
    update(`${which} of ${WORDS[v]} is ${number(value)}.`);
  };
  choice(controls, { name: "drafter", label: "start with the drafter", value: "page",
    options: { page: "of the question", uniform: "uniform", same: "the model itself", greedy: "always mice" } }, (name) => {
    state.q = [...DRAFTERS[name]];
    update();
  });
  update();
});
