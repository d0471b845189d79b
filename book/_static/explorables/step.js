// Three quotients for a slope, their errors against the step, and the digits that agree.
"use strict";
explore("step", ({ stage, controls, say }) => {
  const { draw, make, number, power } = explore;
  const LOW = -18, HIGH = 0, BOTTOM = -17.5, TOP = 1.5, START = { name: "cube", exponent: -2 };

  // A function of a complex number [real part, imaginary part], every result rounded by r; its
  // point, its slope there, and its second and third derivative.
  const product = ([a, b], [c, d], r) => [r(r(a * c) - r(b * d)), r(r(a * d) + r(b * c))];
  const FUNCTIONS = {
    cube: { text: "x³ at 2", x: 2, slope: 12, second: 12, third: 6, f: (z, r) => product(product(z, z, r), z, r) },
    reciprocal: { text: "1/x at 3", x: 3, slope: -1 / 9, second: 2 / 27, third: -6 / 81, f: ([a, b], r) => {
      const ratio = r(b / a), below = r(a + r(b * ratio));
      return [r(1 / below), r(-ratio / below)];
    } },
    exponential: { text: "eˣ at 1", x: 1, slope: Math.E, second: Math.E, third: Math.E, f: ([a, b], r) => {
      const e = r(Math.exp(a));
      return [r(e * r(Math.cos(b))), r(e * r(Math.sin(b)))];
    } },
    sine: { text: "sin x at 1", x: 1, slope: Math.cos(1), second: -Math.sin(1), third: -Math.cos(1), f: ([a, b], r) =>
      [r(r(Math.sin(a)) * r(Math.cosh(b))), r(r(Math.cos(a)) * r(Math.sinh(b)))] },
  };
  const quotient = (f, right, left, distance, r) => r(r(f([right, 0], r)[0] - f([left, 0], r)[0]) / distance);
  const WAYS = {
    forward: { text: "forward", colour: "var(--orange)", reads: (f, x, h, r) => quotient(f, r(x + h), x, h, r) },
    central: { text: "central", colour: "var(--blue)", reads: (f, x, h, r) => quotient(f, r(x + h), r(x - h), r(2 * h), r) },
    complex: { text: "complex", colour: "var(--green)", reads: (f, x, h, r) => r(f([x, h], r)[1] / h) },
  };
  const WIDE = { central: 7 }; // shows on both sides of the others, which are drawn later
  const DRAWN = Object.entries(WAYS).sort(([one], [other]) => (WIDE[other] ?? 0) - (WIDE[one] ?? 0));
  const state = { ...START, single: false };
  const round = () => (state.single ? Math.fround : (v) => v);
  const measure = (way, h) => {
    const { f, x, slope } = FUNCTIONS[state.name], r = round();
    const value = WAYS[way].reads(f, x, r(h), r);
    return { value, error: Math.abs(value - slope) / Math.abs(slope) };
  };

  const width = Math.max(270, Math.min(stage.clientWidth, 640)), height = Math.min(330, width * 0.75);
  const left = 44, right = width - 12, top = 22, bottom = height - 40;
  const across = (exponent) => left + ((exponent - LOW) / (HIGH - LOW)) * (right - left);
  const down = (exponent) => top + ((TOP - exponent) / (TOP - BOTTOM)) * (bottom - top);
  const exponentOf = (error) => Math.max(BOTTOM, Math.min(TOP, Math.log10(error)));
  const drawing = explore.canvas(stage, width, height,
    "The relative error of three quotients against the step h, both in powers of ten; a step to drag");
  const ticks = (low, high, by) => Array.from({ length: Math.floor((high - low) / by) + 1 }, (_, n) => low + n * by);
  for (const n of ticks(-18, 0, width < 400 ? 6 : 3)) {
    draw(drawing, "line", { x1: across(n), x2: across(n), y1: top, y2: bottom, stroke: "var(--line)", "stroke-width": 0.5 });
    draw(drawing, "text", { x: across(n), y: bottom + 18, "text-anchor": "middle", class: "soft" }, power(10 ** n, 0).replace("1·", ""));
  }
  for (const n of ticks(-15, 0, 5)) {
    draw(drawing, "line", { x1: left, x2: right, y1: down(n), y2: down(n), stroke: "var(--line)", "stroke-width": 0.5 });
    draw(drawing, "text", { x: left - 6, y: down(n) + 4, "text-anchor": "end", class: "soft" }, power(10 ** n, 0).replace("1·", ""));
  }
  draw(drawing, "text", { x: left - 6, y: bottom + 4, "text-anchor": "end", class: "soft" }, "0");
  draw(drawing, "text", { x: right, y: bottom + 34, "text-anchor": "end", class: "soft" }, "step h");
  draw(drawing, "text", { x: left + 4, y: top - 8, class: "soft" }, "relative error");
  draw(drawing, "path", { d: `M ${left} ${top} V ${bottom} H ${right}`, class: "axis" });
  const picture = draw(drawing, "g");
  const handle = explore.handle(drawing, { label: "the step h", name: "step", radius: 11,
    step: (right - left) / (HIGH - LOW) / 4 }, (x) => {
    const wanted = LOW + ((x - left) / (right - left)) * (HIGH - LOW);
    setStep(Math.min(HIGH, Math.max(LOW, Math.round(wanted * 4) / 4)));
  });

  // Both differences fall along their truncation error and rise along their rounding error.
  const drawCurves = () => {
    const { f, x, slope, second, third } = FUNCTIONS[state.name];
    const spacing = state.single ? 2 ** -23 : 2 ** -52;
    const lines = [
      [(h) => (h / 2) * Math.abs(second / slope), "var(--orange)", "∝ h", -6],
      [(h) => ((h * h) / 6) * Math.abs(third / slope), "var(--blue)", "∝ h²", -8],
      [(h) => (spacing / 2 / h) * Math.abs(f([x, 0], round())[0] / slope), "var(--soft)", "∝ 1/h", -1.5],
    ];
    const path = (values) => values.map(([n, e], k) => `${k ? "L" : "M"} ${across(n).toFixed(1)} ${down(e).toFixed(1)}`).join(" ");
    for (const [line, colour, text, level] of lines) {
      const inside = ticks(LOW, HIGH, 0.125).map((n) => [n, Math.log10(line(10 ** n))]).filter(([, e]) => e > BOTTOM && e < TOP);
      draw(picture, "path", { d: path(inside), fill: "none", stroke: colour, "stroke-width": 1.2, "stroke-dasharray": "5 4" });
      const [n, e] = inside.find(([, size]) => (text === "∝ 1/h" ? size < level : size > level));
      draw(picture, "text", { x: across(n) + 10, y: down(e) + (text === "∝ 1/h" ? -4 : 12), style: `fill: ${colour}` }, text);
    }
    for (const [way, { colour }] of DRAWN)
      draw(picture, "path", { fill: "none", stroke: colour, "stroke-width": WIDE[way] ?? 2, opacity: WIDE[way] ? 0.5 : 1, "stroke-linejoin": "round",
        d: path(ticks(LOW, HIGH, 0.125).map((n) => [n, exponentOf(measure(way, 10 ** n).error)])) });
  };

  // A quotient with its right digits apart from the others.
  const lost = (text) => make("span", { style: "color: var(--soft)" }, text);
  const rightDigits = (error) => (error ? Math.max(0, Math.floor(-Math.log10(error))) : 17);
  const split = (text, count) => {
    if (count === 0) return ["", text];
    let end = 0;
    for (let seen = 0; end < text.length; end += 1) {
      if (/[1-9]/.test(text[end]) || (seen && text[end] === "0")) seen += 1;
      if (seen > count) break;
    }
    return [text.slice(0, end), text.slice(end)];
  };
  const digits = (value) => {
    const precision = state.single ? 8 : 16, size = FUNCTIONS[state.name].slope;
    return value.toFixed(precision - Math.ceil(Math.log10(Math.abs(size)))).replace("-", "−");
  };

  // A quotient with its numbers, as the formulas of the page are set.
  const formula = (way, h) => {
    const at = (...sum) => `<mi>f</mi><mo>(</mo>${sum.join("")}<mo>)</mo>`;
    const x = `<mn>${FUNCTIONS[state.name].x}</mn>`, step = `<mn>${power(h).replace("1.0·", "")}</mn>`;
    const plus = at(x, "<mo>+</mo>", step), minus = at(x, "<mo>−</mo>", step);
    const [above, below] = {
      forward: [`${plus}<mo>−</mo>${at(x)}`, step],
      central: [`${plus}<mo>−</mo>${minus}`, `<mn>2</mn><mo>·</mo>${step}`],
      complex: [`<mi>Im</mi>${at(x, "<mo>+</mo><mi>i</mi><mo>·</mo>", step)}`, step],
    }[way];
    return `<math displaystyle="true"><mfrac><mrow>${above}</mrow><mrow>${below}</mrow></mfrac></math>`;
  };

  const update = () => {
    const { slope } = FUNCTIONS[state.name], h = 10 ** state.exponent;
    picture.replaceChildren();
    drawCurves();
    draw(picture, "line", { x1: across(state.exponent), x2: across(state.exponent), y1: top, y2: bottom, stroke: "var(--ink)" });
    const found = {};
    for (const [way, { colour }] of DRAWN) {
      const { value, error } = measure(way, h), parts = split(digits(value), rightDigits(error));
      found[way] = error ? rightDigits(error) : "all";
      draw(picture, "circle", { cx: across(state.exponent), cy: down(exponentOf(error)), r: WIDE[way] ?? 4, fill: colour, stroke: "var(--paper)" });
      const [shown, size] = cells[way];
      explore.show(shown, value, "");
      shown.append("= ", make("b", {}, parts[0]), lost(parts[1]));
      formulas[way].innerHTML = formula(way, h);
      explore.show(size, error, error ? power(error) : "0");
    }
    cells.slope.textContent = digits(slope);
    writeValues(h);
    handle.place(across(state.exponent), bottom, `h = ${power(h)}`);
    say(`h = ${power(h)}: right digits of the slope: forward ${found.forward}, central ${found.central}, `
      + `complex step ${found.complex}.`
      + (measure("forward", h).value === 0 && measure("central", h).value === 0 ? " Both differences subtract equal numbers." : ""));
  };

  const leftCell = (name) => Object.assign(explore.cell(name), { style: "text-align: left" });
  const cells = {}, formulas = {};
  const table = explore.table(["", "right digits in bold", "error"], Object.entries(WAYS).map(([way, { text, colour }]) => {
    formulas[way] = make("td", { colSpan: 2, style: `text-align: left; font-size: ${Math.min(1, width / 330)}em` });
    cells[way] = [leftCell(`quotient-${way}`), explore.cell(`error-${way}`)];
    return [make("th", { scope: "row", textContent: text, rowSpan: 2, style: `color: ${colour}` }), formulas[way]];
  }), "");
  for (const way of Object.keys(WAYS)) formulas[way].parentNode.after(make("tr", {}, ...cells[way]));
  cells.slope = make("td", { style: "text-align: left" });
  table.tBodies[0].append(make("tr", {}, make("th", { scope: "row" }, "slope"), cells.slope, make("td")));

  // What is subtracted: the digits that two values share are lost.
  const VALUES = { right: ["f(x + h)", 1, 0], middle: ["f(x)", 0, 0], left: ["f(x − h)", -1, 0], imaginary: ["Im f(x + ih)", 0, 1] };
  const written = Object.fromEntries(Object.keys(VALUES).map((name) => [name, leftCell(`value-${name}`)]));
  stage.append(table, explore.table(["", "in bold: what a subtraction leaves"],
    Object.entries(VALUES).map(([name, [text]]) => [text, written[name]])));
  const writeValues = (h) => {
    const { f, x } = FUNCTIONS[state.name], r = round(), precision = state.single ? 7 : 15, found = {};
    for (const [name, [, real, imaginary]] of Object.entries(VALUES))
      found[name] = f([r(x + real * r(h)), imaginary * r(h)], r)[imaginary];
    const texts = Object.fromEntries(Object.entries(found).map(([name, v]) =>
      [name, name === "imaginary" ? power(v, precision) : number(v, precision)]));
    // A difference as large as 10ᵏ leaves the digits from this place on.
    const difference = Math.max(Math.abs(found.right - found.middle), Math.abs(found.middle - found.left));
    const kept = difference ? Math.max(0, precision + Math.floor(Math.log10(difference)) + 1) : 0;
    for (const [name, text] of Object.entries(texts)) {
      const end = name === "imaginary" || kept > precision ? 0 : text.length - kept;
      explore.show(written[name], found[name], "");
      written[name].append(lost(text.slice(0, end)), make("b", {}, text.slice(end)));
    }
  };

  const setStep = (exponent) => {
    state.exponent = exponent;
    slider.value = exponent;
    update();
  };
  const slider = explore.slider(controls, { name: "step", label: "step h", min: LOW, max: HIGH, step: 0.25,
    value: START.exponent, format: (v) => power(10 ** v) }, setStep);
  explore.choice(controls, { name: "function", label: "function", value: START.name,
    options: Object.fromEntries(Object.entries(FUNCTIONS).map(([name, { text }]) => [name, text])) }, (name) => {
    state.name = name;
    update();
  });
  explore.toggle(controls, { name: "single", label: "in float32" }, (checked) => {
    state.single = checked;
    update();
  });
  const shrink = () => {
    setStep(HIGH);
    explore.play(stage, 4.5, 4 * (HIGH - LOW), (n) => setStep(HIGH - n / 4));
  };
  explore.button(controls, "Let h shrink", shrink);
  update();
  explore.whenSeen(stage, shrink);
});
