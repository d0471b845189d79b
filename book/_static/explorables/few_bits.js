// A number, and its neighbours in four formats: the formula of the package's round_to.
"use strict";
explore("few_bits", ({ stage, controls, say }) => {
  const { canvas, cell, draw, handle, number, power, set, show, slider, table } = explore;
  const FORMATS = { // significant bits, least exponent, largest number, what stands for larger ones
    float16: [11, -14, 65504, Infinity], bfloat16: [8, -126, (2 - 2 ** -7) * 2 ** 127, Infinity],
    float8_e5m2: [3, -14, 57344, Infinity], float8_e4m3fn: [4, -6, 448, NaN],
  };
  const state = { place: 1.125, zoom: 0 };
  const MOST = 2, STEP = 1 / 512;

  const rint = (v) => { // of two whole numbers equally near, the even one
    const low = Math.floor(v), rest = v - low;
    return rest < 0.5 || (rest === 0.5 && low % 2 === 0) ? low : low + 1;
  };
  const spacing = (x, [p, least]) => 2 ** (Math.max(x > 0 ? Math.floor(Math.log2(x)) : least, least) - p + 1);
  const neighbours = (x, format) => {
    const s = spacing(x, format), [, , largest, beyond] = format;
    const all = { below: Math.floor(x / s) * s, above: Math.ceil(x / s) * s, rounded: rint(x / s) * s };
    return Object.fromEntries(Object.entries(all).map(([name, y]) =>
      [name, y > largest ? (name === "below" ? largest : beyond) : y]));
  };
  const written = (v) => {
    if (Number.isNaN(v)) return "NaN";
    if (v === Infinity) return "∞";
    return v === 0 || v >= 0.01 ? String(Number(v.toPrecision(5))) : power(v, 2);
  };

  const width = Math.max(270, Math.min(stage.clientWidth, 640)), LEFT = 14, RIGHT = width - 14, ROW = 46, TOP = 44;
  const drawing = canvas(stage, width, TOP + 4 * ROW + 22, "The numbers of four formats on the same line, and which of them a number becomes");
  const across = (place) => LEFT + ((RIGHT - LEFT) * place) / MOST;
  const through = draw(drawing, "line", { y1: 22, y2: TOP + 4 * ROW - 8, stroke: "var(--soft)", "stroke-dasharray": "3 4" });
  const rows = Object.entries(FORMATS).map(([name, format], n) => {
    const y = TOP + n * ROW + 26;
    draw(drawing, "text", { x: LEFT, y: y - 12, class: "soft" }, name);
    return { name, format, y, ticks: draw(drawing, "g"),
      dot: draw(drawing, "circle", { r: 5, cy: y, fill: "var(--orange)" }) };
  });
  const ends = [0, 1, 2].map((place) => draw(drawing, "text", { x: across(place), y: TOP + 4 * ROW + 16, class: "soft",
    "text-anchor": ["start", "middle", "end"][place] }));
  const grip = handle(drawing, { label: "the number", step: (4 * (RIGHT - LEFT) * STEP) / MOST },
    (x) => move({ place: Math.round(((x - LEFT) * MOST) / (RIGHT - LEFT) / STEP) * STEP }));

  // All numbers of a format up to 2^(zoom + 1): strokes, or a band where they are too close.
  const rule = ({ format, y, ticks }) => {
    const [p, least, largest] = format, scale = 2 ** state.zoom;
    ticks.replaceChildren();
    const part = (from, to, s) => {
      const end = Math.min(to, largest);
      if (end < from) return;
      if ((s / scale) * (RIGHT - LEFT) / MOST < 3) {
        draw(ticks, "rect", { x: across(from / scale), width: across(end / scale) - across(from / scale), y: y - 5, height: 10, fill: "var(--line)" });
        return;
      }
      for (let x = from; x <= end; x += s)
        draw(ticks, "line", { x1: across(x / scale), x2: across(x / scale), y1: y - 6, y2: y + 6, stroke: "var(--blue)", "stroke-width": 1.5 });
    };
    let e = state.zoom;
    for (; e >= least && e > state.zoom - 6; e -= 1) part(2 ** e, 2 ** (e + 1), 2 ** (e - p + 1));
    part(0, 2 ** (e + 1), 2 ** (Math.max(e, least) - p + 1));
  };

  const cells = Object.fromEntries(rows.map(({ name }) => [name, ["below", "above", "error"].map((what) => cell(`${what}-${name}`))]));
  stage.append(table(["format", "below", "above", "error"], Object.entries(cells).map(([name, row]) => [name, ...row])));

  const update = () => {
    const x = state.place * 2 ** state.zoom, found = [];
    set(through, { x1: across(state.place), x2: across(state.place) });
    grip.place(across(state.place), 18, written(x));
    ends.forEach((end, place) => { end.textContent = written(place * 2 ** state.zoom); });
    for (const row of rows) {
      rule(row);
      const { below, above, rounded } = neighbours(x, row.format), [first, second, error] = cells[row.name];
      const shown = Number.isFinite(rounded) ? rounded / 2 ** state.zoom : MOST;
      row.dot.setAttribute("cx", across(Math.min(shown, MOST)));
      show(first, below, written(below)).style.fontWeight = rounded === below ? "bold" : "";
      show(second, above, written(above)).style.fontWeight = rounded === below ? "" : "bold";
      const relative = rounded === x ? 0 : (rounded - x) / x;
      show(error, relative, Number.isFinite(relative) ? `${number(100 * relative, 2)} %` : "–");
      found.push(`${written(rounded)} in ${row.name}`);
    }
    say(`${written(x)} becomes ${found.join(", ")}.`);
  };

  const move = (wanted) => {
    Object.assign(state, wanted);
    place.value = state.place = Math.min(MOST, Math.max(0, state.place));
    update();
  };
  const place = slider(controls, { name: "place", label: "the number", min: 0, max: MOST, step: STEP, value: state.place,
    format: (v) => written(v * 2 ** state.zoom) }, (value) => move({ place: value }));
  slider(controls, { name: "zoom", label: "the middle of the line", min: -18, max: 9, step: 1, value: state.zoom,
    format: (v) => written(2 ** v) }, (value) => move({ zoom: value }));
  update();
});
