// A ring of four ranks: which pieces are summed where, and what an uneven cut costs.
"use strict";
explore("ring", ({ stage, controls, say }) => {
  const { draw, number, handle, readouts, set, slider } = explore;
  const N = 4, S = 24, STEPS = 2 * (N - 1), HUES = ["blue", "orange", "green", "cotangent"];
  let cuts = [6, 12, 18], after = 1;

  const WIDTH = 340, HEIGHT = 330, CELL = 22, LEFT = 20, SCALE = (WIDTH - 2 * LEFT) / S;
  const drawing = explore.canvas(stage, WIDTH, HEIGHT, "Four ranks in a ring with four pieces each, and the array that is cut into these pieces");
  const PLACES = [[126, 20], [226, 110], [126, 200], [26, 110]]; // of the ranks’ first cells
  const ARROWS = [["M220 32Q258 42 266 92", 264, 56, "start"], ["M266 142Q258 196 220 212", 264, 192, "start"], ["M120 212Q80 196 70 142", 76, 192, "end"], ["M70 92Q80 42 120 32", 76, 56, "end"]];
  const modulo = (n) => ((n % N) + N) % N;

  const cells = PLACES.map(([x, y], r) => {
    draw(drawing, "text", { x: x + 2 * CELL, y: y - 6, "text-anchor": "middle", class: "soft" }, `rank ${r}`);
    return HUES.map((hue, p) => ({
      box: draw(drawing, "rect", { x: x + CELL * p, y, width: CELL, height: CELL, stroke: "var(--ink)", fill: `var(--${hue})` }),
      text: draw(drawing, "text", { x: x + CELL * (p + 0.5), y: y + 16, "text-anchor": "middle" }),
    }));
  });
  const arrows = ARROWS.map(([d, x, y, anchor]) => ({
    line: draw(drawing, "path", { d, fill: "none", stroke: "var(--soft)", "stroke-width": 2 }),
    text: draw(drawing, "text", { x, y, "text-anchor": anchor }),
  }));
  const pieces = HUES.map((hue) => draw(drawing, "rect", { y: 270, height: 26, fill: `var(--${hue})`, opacity: 0.45 }));
  const sizes = HUES.map(() => draw(drawing, "text", { y: 316, "text-anchor": "middle" }));
  const write = readouts(stage, { sent: "most that a rank sends, MB", time: "time, ms" });

  // How many ranks are summed in each piece of each rank, after some steps.
  const summed = (steps) => {
    const counts = cells.map(() => HUES.map(() => 1));
    for (let s = 0; s < steps; s += 1)
      for (let r = 0; r < N; r += 1) counts[modulo(r + 1)][modulo(r - s)] = Math.min(s + 2, N);
    return counts;
  };

  const show = () => {
    const ends = [0, ...cuts, S], size = HUES.map((_, p) => ends[p + 1] - ends[p]);
    summed(after).forEach((counts, r) => counts.forEach((count, p) => {
      cells[r][p].text.textContent = count;
      cells[r][p].box.setAttribute("fill-opacity", count === N ? 0.6 : 0.12 * count);
    }));
    arrows.forEach(({ line, text }, r) => {
      const p = modulo(r - after);
      line.setAttribute("stroke", after < STEPS ? `var(--${HUES[p]})` : "var(--line)");
      text.textContent = after < STEPS ? `${p}: ${size[p]} MB` : "";
    });
    pieces.forEach((piece, p) => {
      set(piece, { x: LEFT + SCALE * ends[p], width: SCALE * size[p] });
      sizes[p].setAttribute("x", LEFT + SCALE * (ends[p] + size[p] / 2));
      sizes[p].textContent = size[p] < 4 ? p : `${p}: ${size[p]} MB`;
    });
    cuts.forEach((cut, n) => grips[n].place(LEFT + SCALE * cut, 283, `at ${cut} MB`));
    const sent = HUES.map((_, r) => S + size[r] + size[modulo(r - 1)]), time = STEPS * Math.max(...size);
    write.sent(Math.max(...sent), String(Math.max(...sent)));
    write.time(time, String(time));
    const state = after < N - 1 ? "pieces are being added" : after < STEPS ? "complete sums are passed on" : "every rank has the sum";
    say(`After ${after} of ${STEPS} steps ${state}. Each step takes as long as its largest piece, ${Math.max(...size)} ms: ${time} ms in all, ${number(time / 36)} times an even cut.`);
  };
  slider(controls, { name: "after", label: "steps", min: 0, max: STEPS, step: 1, value: after, format: String }, (v) => { after = v; show(); });
  const grips = cuts.map((_, n) => handle(drawing, { label: `cut ${n + 1}`, step: SCALE }, (x) => {
    const ends = [0, ...cuts, S];
    cuts[n] = Math.max(ends[n] + 1, Math.min(ends[n + 2] - 1, Math.round((x - LEFT) / SCALE)));
    show();
  }));
  show();
});
