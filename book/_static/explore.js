// What the explorables share: drawing, controls that a keyboard moves too, and numbers.
//
// explore("layer_norm", ({ stage, controls, say }) => { ... }) starts the figure
// #explorable-layer_norm. stage: where to draw; controls: where sliders and buttons go;
// say(text): what everyone reads after each move, and a screen reader tells when the moves have ended.
// A figure that is no model has a button that starts it anew.
const explore = (() => {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";

  const SILENCE = 300; // milliseconds after the last move, before it is read out

  const start = (name, script) => {
    const figure = document.getElementById(`explorable-${name}`);
    if (!figure) return;
    const stage = figure.querySelector(".stage");
    const controls = make("div", { className: "controls" });
    const said = make("p", { className: "said", ariaHidden: true }); // the same words
    const announced = make("p", { className: "announced", role: "status" });
    stage.after(controls, said, announced);
    let later, latest, drawn, touched;
    const begin = () => {
      drawn = stage.clientWidth;
      touched = untilTouched(stage).signal;
      const say = latest = (text) => {
        if (say !== latest) return; // a training that a reset has left behind
        said.textContent = text.trim();
        clearTimeout(later);
        later = setTimeout(() => { announced.textContent = said.textContent; }, SILENCE);
      };
      stage.replaceChildren();
      controls.replaceChildren();
      script({ figure, stage, controls, say });
      if (!figure.classList.contains("model"))
        button(controls, "Reset", () => begin().focus());
      return controls.lastElementChild;
    };
    begin();
    figure.classList.add("alive");
    // Drawn anew where the stage becomes wider or narrower, as on a phone that is turned, unless the
    // reader has moved something.
    new ResizeObserver(() => {
      const change = Math.abs(stage.clientWidth / drawn - 1);
      if (change > 0.2 && !touched.aborted && !figure.contains(document.activeElement)) begin();
    }).observe(stage);
  };

  const set = (element, attributes) => {
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  };

  // An SVG element with attributes, appended to its parent.
  const draw = (parent, tag, attributes = {}, text) => {
    const element = document.createElementNS(SVG, tag);
    set(element, attributes);
    if (text !== undefined) element.textContent = text;
    return parent.appendChild(element);
  };

  // A drawing of its own width and height, described by label.
  const canvas = (stage, width, height, label) => draw(stage, "svg",
    { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, style: `max-width: ${width}px;` });

  // A line across a chart, and what it stands for before it.
  const level = (drawing, left, right, y, text) => {
    draw(drawing, "line", { x1: left, x2: right, y1: y, y2: y, stroke: "var(--line)" });
    draw(drawing, "text", { x: left - 6, y: y + 4, "text-anchor": "end", class: "soft" }, text);
  };

  const number = (value, digits = 2) => value.toFixed(digits).replace(/^-(0\.?0*)$/, "$1").replace("-", "−");

  // Halves to twelfths read as they are on paper, other numbers with two decimals.
  const fraction = (value, digits = 2) => {
    for (let over = 1; over <= 12; over += 1) {
      const above = Math.round(value * over);
      if (Math.abs(value * over - above) < 1e-9)
        return `${above}${over === 1 ? "" : `/${over}`}`.replace("-", "−");
    }
    return number(value, digits);
  };

  const power = (value, digits = 1) => {
    if (value === 0) return "0";
    const [front, exponent] = value.toExponential(digits).split("e");
    const raised = [...String(Number(exponent))].map((c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]);
    return `${front}·10${raised.join("")}`.replace("-", "−");
  };

  // Write a number, and keep all its digits for whoever wants them, under a name if it has one.
  const show = (element, value, written = number(value), name = undefined) => {
    element.textContent = written;
    element.dataset.value = value;
    if (name) element.dataset.name = name;
    return element;
  };

  // Places for numbers with a name: in a text, and in a table.
  const output = (name) => make("output", { name, ariaLive: "off" });

  const cell = (name) => {
    const made = make("td");
    made.dataset.name = name;
    return made;
  };

  // A line of numbers: { name: label, ... }. Returns { name: write(value, written), ... }.
  const readouts = (stage, labels) => {
    const numbers = stage.appendChild(make("p", { className: "numbers" }));
    return Object.fromEntries(Object.entries(labels).map(([name, label]) => {
      const place = output(name);
      numbers.append(make("span", {}, `${label} `, place));
      return [name, (value, written) => show(place, value, written)];
    }));
  };

  // A table of rows, each a heading and cells, under the headings of its columns.
  const table = (headings, rows, className = "values") => make("table", { className },
    ...headings.length ? [make("thead", {}, make("tr", {}, ...headings.map((text) =>
      (text ? make("th", { scope: "col" }, text) : make("td")))))] : [],
    make("tbody", {}, ...rows.map(([heading, ...cells]) =>
      make("tr", {}, heading.tagName ? heading : make("th", { scope: "row" }, heading), ...cells))));

  // The gradient of a function of an array, by central differences as in the package.
  const differences = (f, x, h = 1e-5) => Array.from(x, (original, i) => {
    const at = (value) => f(Array.from(x, (other, j) => (i === j ? value : other)));
    const [right, left] = [original + h, original - h];
    return (at(right) - at(left)) / (right - left);
  });

  // A labelled slider. Returns { value } to read and to set; input(value) hears every move.
  const slider = (controls, { name, label, min, max, step, value, format = number }, input) => {
    // The label alone would name its first part, the output.
    const field = make("input", { type: "range", min, max, step, value, name, ariaLabel: label });
    const shown = make("output", { ariaLive: "off" }); // the said line is what is announced
    const write = () => {
      show(shown, Number(field.value), format(Number(field.value)));
      field.ariaValueText = shown.textContent;
    };
    field.addEventListener("input", () => { write(); input(Number(field.value)); });
    controls.append(make("label", {}, make("span", {}, label, " ", shown), field));
    write();
    return {
      field,
      get value() { return Number(field.value); },
      set value(v) { field.value = v; write(); },
    };
  };

  const toggle = (controls, { name, label, checked = false }, input) => {
    const field = make("input", { type: "checkbox", checked, name, onchange: () => input(field.checked) });
    controls.append(make("label", { className: "toggle-label" }, field, ` ${label}`));
    return field;
  };

  // One of several: { value: label, ... }.
  const choice = (controls, { name, label, options, value }, input) => {
    const field = make("select", { name, onchange: () => input(field.value) }, ...Object.entries(options).map(
      ([key, text]) => make("option", { value: key, selected: key === value }, text)));
    controls.append(make("label", {}, make("span", {}, label), field));
    return field;
  };

  // The same, with all of them in sight.
  const radios = (controls, { name, label, options, value }, input) => {
    const labels = Object.entries(options).map(([key, text]) => make("label", { className: "toggle-label" },
      make("input", { type: "radio", name, value: key, checked: key === value, onchange: () => input(key) }), ` ${text}`));
    controls.append(make("fieldset", {}, make("legend", {}, label), ...labels));
  };

  const button = (controls, label, press) =>
    controls.appendChild(make("button", { type: "button", textContent: label, onclick: press }));

  // The handles of each drawing. A finger that comes down near some of them moves the nearest.
  const handles = new WeakMap();

  // A point of a drawing that mouse, finger and keys move, in the drawing's units.
  // move(x, y) is told where it is wanted; place(x, y) puts it there. Along each of its axes, "x",
  // "y" or both, it is a slider from one end of the drawing to the other.
  const handle = (drawing, { label, name, hue, x = 0, y = 0, axes = "x", radius = 9, step = 5, className = "" }, move) => {
    drawing.setAttribute("role", "group"); // an image would hide its handles
    const { width, height } = drawing.viewBox.baseVal, ends = { x: [0, width], y: [height, 0] };
    const halo = draw(drawing, "circle", { r: 24, class: "halo" }); // what a finger may miss by
    new ResizeObserver(([{ contentRect: { width: shown } }]) => { // 44 pixels in a small drawing too
      if (shown) halo.setAttribute("r", Math.max(24, 22 * width / shown));
    }).observe(drawing);
    const dot = (axis, more) => draw(drawing, "circle", { r: radius, role: "slider", tabindex: 0,
      "aria-orientation": axis === "x" ? "horizontal" : "vertical", "aria-valuemin": 0,
      "aria-valuemax": Math.round(ends[axis][axis === "x" ? 1 : 0]), ...more });
    const [first, second] = axes;
    const upright = second && dot(second, { class: "halo", "aria-label": `${label}, up and down` });
    const point = dot(first, { class: `handle ${className}`, "aria-label": label });
    if (name) point.dataset.name = name;
    if (hue) point.style.stroke = `var(--${hue})`;
    const sliders = Object.fromEntries([[first, point], [second, upright]].slice(0, axes.length));
    const parts = [halo, point, upright ?? point];
    let at = { x, y };
    const place = (newX, newY, text = "") => {
      at = { x: newX, y: newY };
      for (const part of parts) set(part, { cx: newX, cy: newY });
      for (const [axis, slider] of Object.entries(sliders))
        set(slider, { "aria-valuenow": Math.round(axis === "x" ? newX : height - newY), "aria-valuetext": text });
    };
    const locate = (event) => {
      const { x: left, y: top } = new DOMPoint(event.clientX, event.clientY)
        .matrixTransform(drawing.getScreenCTM().inverse());
      move(left, top);
    };
    const distance = (event) => {
      const { x: left, y: top, width: wide, height: high } = point.getBoundingClientRect();
      return wide ? Math.hypot(left + wide / 2 - event.clientX, top + high / 2 - event.clientY) : Infinity;
    };
    handles.set(drawing, [...handles.get(drawing) ?? [], { point, distance }]);
    const grab = (event) => {
      const [nearest] = [...handles.get(drawing)]
        .sort((a, b) => a.distance(event) - b.distance(event));
      nearest.point.setPointerCapture(event.pointerId);
      event.preventDefault();
      nearest.point.focus();
    };
    for (const part of [halo, point]) part.addEventListener("pointerdown", grab);
    point.addEventListener("pointermove", (event) => {
      if (point.hasPointerCapture(event.pointerId)) locate(event);
    });
    for (const [axis, slider] of Object.entries(sliders))
      slider.addEventListener("keydown", (event) => {
        const far = event.shiftKey || event.key.startsWith("Page") ? 10 * step : step;
        const up = { x: far, y: -far }[axis], to = { ...at };
        const moves = {
          ArrowLeft: () => { to.x -= far; }, ArrowRight: () => { to.x += far; },
          ArrowUp: () => { to.y -= far; }, ArrowDown: () => { to.y += far; },
          PageUp: () => { to[axis] += up; }, PageDown: () => { to[axis] -= up; },
          Home: () => { [to[axis]] = ends[axis]; }, End: () => { [, to[axis]] = ends[axis]; },
        };
        if (!moves[event.key]) return;
        event.preventDefault();
        moves[event.key]();
        move(to.x, to.y);
      });
    place(x, y);
    return { point, place, parts };
  };

  // Cells in rows and columns are one stop of the tabulator, from which the arrows go on.
  const grid = (cells) => cells.forEach((row, t) => row.forEach((cell, s) => {
    cell.tabIndex = t + s ? -1 : 0;
    cell.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      const next = by && cells[t + by[0]]?.[s + by[1]];
      if (!next) return;
      event.preventDefault();
      cell.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
  }));

  // Whether the reader has asked for stillness.
  const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

  // What the reader ends who does anything in the figure.
  const untilTouched = (stage) => {
    const ender = new AbortController();
    for (const event of ["pointerdown", "keydown", "input"])
      stage.parentElement.addEventListener(event, () => ender.abort(), { capture: true, signal: ender.signal });
    return ender;
  };

  // Act once, when the reader first scrolls to the drawing, unless stillness is asked for.
  const whenSeen = (stage, act) => {
    if (still() || stage.parentElement.classList.contains("alive")) return;
    const ender = untilTouched(stage), { signal } = ender;
    const watcher = new IntersectionObserver(([{ isIntersecting }]) => {
      if (!isIntersecting) return;
      ender.abort();
      act();
    }, { threshold: 0.6 });
    signal.addEventListener("abort", () => watcher.disconnect());
    addEventListener("scroll", () => watcher.observe(stage.firstElementChild), { once: true, signal });
  };

  // Show the frames 1 to last within so many seconds, until the reader does something else. Where
  // stillness is asked for, only the last.
  const play = (stage, seconds, last, frame) => {
    if (still()) return frame(last);
    const ender = untilTouched(stage), { signal } = ender, began = performance.now();
    let shown = 0;
    const go = (now) => {
      if (signal.aborted) return;
      const due = Math.min(last, Math.floor((last * (now - began)) / (1000 * seconds)));
      if (due > shown) frame(shown = due);
      if (shown < last) requestAnimationFrame(go);
      else ender.abort();
    };
    requestAnimationFrame(go);
  };

  return Object.assign(start, {
    make, set, draw, canvas, level, number, fraction, power, show, output, cell, readouts, table, differences, slider, toggle, choice, radios,
    button, handle, grid, still, whenSeen, play,
  });
})();
