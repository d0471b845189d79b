// What the explorables share: drawing, controls that a keyboard moves too, and numbers.
//
// explore("layer_norm", ({ stage, controls, say }) => { ... }) starts the figure
// #explorable-layer_norm. stage: where to draw; controls: where sliders and buttons go;
// say(text): what a screen reader is told, and everyone reads, after each move.
const explore = (() => {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";

  const start = (name, script) => {
    const figure = document.getElementById(`explorable-${name}`);
    if (!figure) return;
    const stage = figure.querySelector(".stage");
    stage.replaceChildren();
    const controls = make("div", { className: "controls" });
    const said = make("p", { className: "said" });
    said.setAttribute("role", "status");
    stage.after(controls, said);
    const say = (text) => { said.textContent = text; };
    script({ figure, stage, controls, say });
    figure.classList.add("alive");
  };

  // An HTML element with properties, and its children.
  const make = (tag, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };

  // An SVG element with attributes, appended to its parent.
  const draw = (parent, tag, attributes = {}, text) => {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    return parent.appendChild(element);
  };

  // A drawing of its own width and height, described by label.
  const canvas = (stage, width, height, label) => {
    const drawing = draw(stage, "svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
    drawing.setAttribute("aria-label", label);
    drawing.style.maxWidth = `${width}px`;
    return drawing;
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

  // Write a number, and keep all its digits for whoever wants them.
  const show = (element, value, written = number(value)) => {
    element.textContent = written;
    element.dataset.value = value;
  };

  // A named number in a line of numbers. Returns write(value, written).
  const readout = (numbers, name, label) => {
    const output = make("output", { name, ariaLive: "off" });
    numbers.append(make("span", {}, `${label} `, output));
    return (value, written) => show(output, value, written);
  };

  // The gradient of a function of an array, by central differences as in the package.
  const differences = (f, x, h = 1e-5) => Array.from(x, (original, i) => {
    const at = (value) => f(Array.from(x, (other, j) => (i === j ? value : other)));
    const [right, left] = [original + h, original - h];
    return (at(right) - at(left)) / (right - left);
  });

  // A labelled slider. Returns { value } to read and to set; input(value) hears every move.
  const slider = (controls, { name, label, min, max, step, value, format = number }, input) => {
    const field = make("input", { type: "range", min, max, step, value, name });
    const output = make("output", { ariaLive: "off" }); // the said line is what is announced
    field.setAttribute("aria-label", label);  // the label would name its first part, the output
    const write = () => {
      show(output, Number(field.value), format(Number(field.value)));
      field.setAttribute("aria-valuetext", output.textContent);
    };
    field.addEventListener("input", () => { write(); input(Number(field.value)); });
    controls.append(make("label", {}, make("span", {}, label, " ", output), field));
    write();
    return {
      field,
      get value() { return Number(field.value); },
      set value(v) { field.value = v; write(); },
    };
  };

  const toggle = (controls, { name, label, checked = false }, input) => {
    const field = make("input", { type: "checkbox", checked, name });
    field.addEventListener("change", () => input(field.checked));
    controls.append(make("label", { className: "toggle-label" }, field, ` ${label}`));
    return field;
  };

  // One of several: { value: label, ... }.
  const choice = (controls, { name, label, options, value }, input) => {
    const field = make("select", { name }, ...Object.entries(options).map(([key, text]) =>
      make("option", { value: key, selected: key === value }, text)));
    field.addEventListener("change", () => input(field.value));
    controls.append(make("label", {}, make("span", {}, label), field));
    return field;
  };

  const button = (controls, label, press) => {
    const made = make("button", { type: "button", textContent: label });
    made.addEventListener("click", press);
    controls.append(made);
    return made;
  };

  // The handles of each drawing. A finger that comes down near some of them moves the nearest.
  const handles = new WeakMap();

  // A point of a drawing that mouse, finger and arrow keys move, in the drawing's units.
  // move(x, y) is told where it is wanted; place(x, y) puts it there.
  const handle = (drawing, { label, x, y, radius = 9, step = 5, className = "" }, move) => {
    drawing.setAttribute("role", "group"); // an image would hide its handles
    const halo = draw(drawing, "circle", { r: 24, class: "halo" }); // what a finger may miss by
    const point = draw(drawing, "circle", { r: radius, class: `handle ${className}`, tabindex: 0,
      role: "slider", "aria-label": label, "aria-valuenow": 0 });
    let at = { x, y };
    const place = (newX, newY, text = "") => {
      at = { x: newX, y: newY };
      for (const part of [halo, point]) {
        part.setAttribute("cx", newX);
        part.setAttribute("cy", newY);
      }
      point.setAttribute("aria-valuetext", text);
    };
    const locate = (event) => {
      const { x: left, y: top } = new DOMPoint(event.clientX, event.clientY)
        .matrixTransform(drawing.getScreenCTM().inverse());
      move(left, top);
    };
    const distance = (event) => {
      const { x: left, y: top, width, height } = point.getBoundingClientRect();
      return width ? Math.hypot(left + width / 2 - event.clientX, top + height / 2 - event.clientY) : Infinity;
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
    point.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (!by) return;
      event.preventDefault();
      move(at.x + by[0] * step, at.y + by[1] * step);
    });
    place(x, y);
    return { point, place };
  };

  // Whether the reader has asked for stillness.
  const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

  return Object.assign(start, {
    make, draw, canvas, number, fraction, power, show, readout, differences, slider, toggle, choice, button, handle, still,
  });
})();
