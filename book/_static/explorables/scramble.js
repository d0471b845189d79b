// Where the inputs of a linear layer stand in memory, and whom they meet when they are scrambled.
"use strict";
explore("scramble", ({ stage, controls, say }) => {
  const { draw, make, number } = explore;
  const START = { B: 2, T: 2, D: 4 }, MOST = { B: 4, T: 3, D: 6 }, OUT = 2;
  const HUES = ["blue", "orange", "green", "purple"].map((name) => `var(--${name})`);
  const state = { ...START, cursor: { m: 0, t: 0, i: 1 } };
  const space = Math.max(270, Math.min(stage.clientWidth, 640)), LEFT = 50;
  const cell = Math.min(34, Math.floor((space - LEFT) / (MOST.B * MOST.T)));
  const HEAD = 40, STRIP = 16;

  const drawing = explore.canvas(stage, space, 400,
    "The inputs of a linear layer, flattened and then transposed; under them the memory after a transpose, and how it is cut");
  const picture = draw(drawing, "g");
  const traveller = draw(drawing, "circle", { r: 7, fill: "var(--ink)", stroke: "var(--paper)", "stroke-width": 2 });
  const ring = explore.handle(drawing, { label: "the input that is followed", name: "ring", axes: "xy", radius: cell / 2 + 2, step: cell },
    (x, y) => {
      const { B, T, D, cursor } = state;
      const within = (v, end) => Math.min(end - 1, Math.max(0, Math.floor(v / cell)));
      const n = within(x - LEFT, B * T), i = within(y - HEAD, D);
      const next = { m: Math.floor(n / T), t: n % T, i };
      if (Object.keys(next).every((key) => next[key] === cursor[key])) return;
      state.cursor = next;
      update();
    });
  ring.point.style.fillOpacity = 0;

  const compute = () => {
    const { B, T, D, cursor } = state, N = B * T;
    // Whole numbers in no order that a mistake could follow.
    const whole = (length, times, range) => Float64Array.from({ length }, (_, n) => ((times * n + 3) % range) - (range - 1) / 2);
    const x = whole(N * D, 7, 11), dy = core.tensor([N, OUT], whole(N * OUT, 5, 7));
    // What stands at each address after x.transpose(0, 2, 1), in its own order.
    const memory = [];
    for (let m = 0; m < B; m += 1)
      for (let i = 0; i < D; i += 1)
        for (let t = 0; t < T; t += 1) memory.push({ m, t, i });
    const gradient = (rows) => {
      const [, cache] = core.linear(core.tensor([N, D], rows), core.tensor([D, OUT]));
      return core.linearBackward(dy, cache).dweight.data;
    };
    // Row i of column n of the scrambled matrix is what stands at the address i N + n.
    const scrambled = Float64Array.from({ length: N * D }, (_, place) => {
      const { m, t, i } = memory[(place % D) * N + Math.floor(place / D)];
      return x[(m * T + t) * D + i];
    });
    const meets = memory.map(({ m, i }, address) => ({
      row: Math.floor(address / N), column: address % N,
      right: i === Math.floor(address / N) && m === Math.floor((address % N) / T),
    }));
    const address = (cursor.m * D + cursor.i) * T + cursor.t;
    return { value: x[(cursor.m * T + cursor.t) * D + cursor.i], memory, meets, address, pairs: meets.filter(({ right }) => right).length / T,
      right: gradient(x), wrong: gradient(scrambled) };
  };

  const drawCell = (x, y, { m, i }, followed, right = true) => {
    draw(picture, "rect", { x: x + 1, y: y + 1, width: cell - 2, height: cell - 2, rx: 3, fill: HUES[m],
      "fill-opacity": right ? 0.5 : 0.16, stroke: followed ? "var(--ink)" : "none", "stroke-width": 2.5 });
    draw(picture, "text", { x: x + cell / 2, y: y + cell / 2 + 5, "text-anchor": "middle" }, i);
  };

  const drawHead = (top, title) => {
    const { B, T, D } = state;
    draw(picture, "text", { x: 0, y: top - 26, class: "soft" }, title);
    draw(picture, "text", { x: LEFT - 8, y: top - 7, "text-anchor": "end", class: "soft" }, "meets ȳ");
    for (let n = 0; n < B * T; n += 1)
      draw(picture, "rect", { x: LEFT + n * cell + 2, y: top - 17, width: cell - 4, height: 11, rx: 5,
        fill: HUES[Math.floor(n / T)] });
    for (let i = 0; i < D; i += 1)
      draw(picture, "text", { x: LEFT - 8, y: top + (i + 0.5) * cell + 5, "text-anchor": "end", class: "soft" }, `row ${i}`);
  };

  const drawAll = ({ memory, meets, address, right, wrong }) => {
    const { B, T, D, cursor } = state, N = B * T;
    const strip = HEAD + D * cell + 34, below = strip + STRIP + 62;
    drawing.setAttribute("viewBox", `0 0 ${space} ${below + D * cell + 8}`);
    drawHead(HEAD, "right: flatten, then transpose");
    drawHead(below, "scrambled: transpose, then reshape");
    const inch = Math.min(cell, (space - LEFT) / memory.length);
    draw(picture, "text", { x: 0, y: strip - 8, class: "soft" }, `memory after the transpose, cut every ${N}`);
    const link = (x1, y1, x2, y2) => draw(picture, "line", { x1, y1, x2, y2, class: "axis", "stroke-dasharray": "3 3" });
    const from = [LEFT + (cursor.m * T + cursor.t + 0.5) * cell, HEAD + (cursor.i + 0.5) * cell];
    const { row, column } = meets[address];
    const through = LEFT + (address + 0.5) * inch;
    link(...from, through, strip);
    const to = [LEFT + (column + 0.5) * cell, below + (row + 0.5) * cell];
    link(through, strip + STRIP, ...to);
    way = [from, [through, strip + STRIP / 2], to];
    memory.forEach((entry, place) => {
      draw(picture, "rect", { x: LEFT + place * inch, y: strip, width: inch, height: STRIP, fill: HUES[entry.m],
        "fill-opacity": place === address ? 1 : 0.4 });
      if (place % N === 0 && place)
        draw(picture, "line", { x1: LEFT + place * inch, x2: LEFT + place * inch, y1: strip - 4, y2: strip + STRIP + 4,
          stroke: "var(--ink)", "stroke-width": 1.5 });
      drawCell(LEFT + (entry.m * T + entry.t) * cell, HEAD + entry.i * cell, entry, false);
      drawCell(LEFT + meets[place].column * cell, below + meets[place].row * cell, entry, place === address, meets[place].right);
    });
    draw(picture, "rect", { x: LEFT + address * inch - 1, y: strip - 2, width: inch + 2, height: STRIP + 4, fill: "none",
      stroke: "var(--ink)", "stroke-width": 2 });
    ring.place(...from, `input ${cursor.i} of sequence ${cursor.m}, position ${cursor.t}`);
    table.tBodies[0].replaceChildren(...Array.from({ length: D }, (_, i) => make("tr", {}, make("th", { scope: "row" }, i),
      ...[["right", right], ["wrong", wrong], ["difference", wrong.map((v, n) => v - right[n])]].flatMap(([name, values]) =>
        [0, 1].map((j) => {
          const value = values[i * OUT + j], style = name === "difference" && value ? "color: var(--wrong)" : "";
          return explore.show(make("td", { style }), value, number(value, 0), `${name}${i}${j}`);
        })))));
  };

  // The followed number on its way: from the ring (0) into memory (1) and to the row where it is used (2).
  let way;
  const travel = (place) => {
    const leg = Math.min(1, Math.floor(place)), part = place - leg;
    ["cx", "cy"].forEach((name, axis) =>
      traveller.setAttribute(name, way[leg][axis] + part * (way[leg + 1][axis] - way[leg][axis])));
    lines.forEach((line, n) => line.classList.toggle("lit", n === [0, 2, 3][Math.floor(place)]));
  };

  const update = () => {
    const now = compute(), { B, T, D, cursor } = state;
    picture.replaceChildren();
    traveller.style.display = "none";
    drawAll(now);
    const { row, column, right } = now.meets[now.address], meant = Math.floor(column / T);
    write.pairs(now.pairs, `${now.pairs} of ${B * D}`);
    write.address(now.address, now.address);
    write.value(now.value, number(now.value, 0));
    const { m, t, i } = cursor, turned = "x.transpose(0, 2, 1)";
    [`x[${m}, ${t}, ${i}]`, `x.reshape(${B * T}, ${D}).T[${i}, ${m * T + t}]`, `${turned}[${m}, ${i}, ${t}]`,
      `${turned}.reshape(${D}, ${B * T})[${row}, ${column}]`].forEach((text, n) => {
      lines[n].textContent = text;
      lines[n].className = "";
    });
    say(`Input ${cursor.i} of sequence ${cursor.m}, position ${cursor.t}, goes to the address `
      + `(${cursor.m} · ${D} + ${cursor.i}) · ${T} + ${cursor.t} = ${now.address}, so to row ${row}, where it meets the `
      + `cotangent of sequence ${meant}: ${right ? "right" : "wrong"}.`
      + (now.pairs === B * D ? " Every pair is right: this check would pass." : ""));
  };

  const table = make("table", {}, make("thead", {}, make("tr", {}, make("td"),
    ...["right W̄", "scrambled", "difference"].map((text) => make("th", { colSpan: 2, scope: "colgroup" }, text)))), make("tbody"));
  const lines = Array.from({ length: 4 }, () => make("span"));
  stage.append(table, make("p", {}, "The followed number in NumPy: where it stands, in the right matrix, transposed, in the scrambled matrix."),
    make("div", { className: "lines" }, ...lines));
  const write = explore.readouts(stage, { pairs: "right pairs of a row and a sequence", address: "address of the followed input",
    value: "its value" });

  const LABELS = { B: "sequences B", T: "positions T", D: "inputs D" };
  for (const [key, label] of Object.entries(LABELS))
    explore.slider(controls,
    { name: key, label, min: 1, max: MOST[key], step: 1, value: START[key], format: (v) => number(v, 0) }, (v) => {
      state[key] = v;
      const { B, T, D, cursor } = state;
      state.cursor = { m: Math.min(cursor.m, B - 1), t: Math.min(cursor.t, T - 1), i: Math.min(cursor.i, D - 1) };
      update();
    });
  explore.button(controls, "Follow it", () => {
    update();
    traveller.style.display = "";
    explore.play(stage, 3, 60, (n) => travel(n / 30));
  });
  update();
});
