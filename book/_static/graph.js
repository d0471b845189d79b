// Steps through the computation graphs: by button, or by arrow keys where the graph has the focus.
// Each part of a drawing says in data-step when it appears, each edge in data-forward and data-back
// when it is lit. After "all", and without scripts, everything is there. A graph that belongs to a
// derivation is pinned beside it, and shows the step whose text is being read. Pointing at a symbol,
// or a tap, lights it in formulas, code and drawing, with its number and its code; so do the steps.
document.addEventListener("DOMContentLoaded", () => {
  "use strict";
  const make = (tag, properties, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };

  const note = make("div", { className: "symbol-note", hidden: true });
  document.body.append(note);
  const places = "[class*='sym:']";
  const symbolsOf = (place) => // x_n is x0, x1 and x2: "sym:x0,x1,x2"
    [...place.classList].find((name) => name.startsWith("sym:")).slice(4).split(",");
  const light = (symbols) => {
    for (const place of document.querySelectorAll(places))
      place.classList.toggle("lit", symbolsOf(place).some((symbol) => symbols.includes(symbol)));
  };
  const point = (place) => {
    if (!place && note.hidden) return;
    light(place ? symbolsOf(place) : []);
    const codes = [...document.querySelectorAll("pre .lit")].map(({ textContent }) => textContent);
    const given = place?.closest(".explorable") ? [place] : [...document.querySelectorAll(".wide .lit")];
    const numbers = given.map(({ dataset }) => dataset.number);
    note.hidden = !numbers.length || !document.querySelector(":is(math, pre) .lit");
    if (note.hidden) return light([]);
    note.replaceChildren(...numbers.map((textContent) => make("p", { textContent })),
      ...(place.closest("pre") ? [] : codes).map((textContent) => make("code", { textContent })));
    const box = place.getBoundingClientRect();
    const room = document.documentElement.clientWidth - note.offsetWidth - 8;
    const above = box.bottom + note.offsetHeight + 8 > innerHeight;
    note.style.left = `${scrollX + Math.max(8, Math.min(room, box.left))}px`;
    note.style.top = `${scrollY + (above ? box.top - note.offsetHeight - 8 : box.bottom + 8)}px`;
  };
  const pointed = ({ target }) => point(target.closest?.(places));
  document.addEventListener("pointerover", (event) => event.pointerType === "mouse" && pointed(event));
  document.addEventListener("pointerup", pointed);
  document.addEventListener("keydown", ({ key }) => key === "Escape" && point());

  for (const graph of document.querySelectorAll(".graph")) {
    const drawings = graph.querySelector(".drawings");
    const sentences = [...graph.querySelectorAll(".steps li")];
    const parts = [...drawings.querySelectorAll("[data-step]")];
    const said = make("p", { className: "said" });
    const count = make("span", { className: "count" });
    said.setAttribute("role", "status");
    let at;

    const has = (steps) => at >= 0 && steps !== undefined && steps.split(" ").includes(String(at));
    const go = (to) => {
      at = Math.min(sentences.length - 1, to); // -1: everything
      for (const part of parts) {
        part.classList.toggle("hidden", at >= 0 && Number(part.dataset.step) > at);
        part.classList.toggle("new", Number(part.dataset.step) === at);
        part.classList.toggle("forward-on", has(part.dataset.forward));
        part.classList.toggle("back-on", has(part.dataset.back));
      }
      count.textContent = at < 0 ? `${sentences.length} steps` : `${at + 1} of ${sentences.length}`;
      said.replaceChildren(...(at < 0 ? [] : sentences[at].cloneNode(true).childNodes));
      graph.dispatchEvent(new Event("step"));
    };
    const asked = (to) => { // by the reader, who is told, and shown the formula and the code
      said.ariaLive = "polite";
      go(to);
      note.hidden = true;
      light(parts.filter((part) => part.matches(".strip.new")).flatMap(symbolsOf));
    };
    const button = (text, to) => {
      const made = make("button", { type: "button", textContent: text });
      made.addEventListener("click", () => asked(to()));
      return made;
    };

    graph.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      asked(Math.max(0, at + by));
    });
    graph.addEventListener("focusout", () => note.hidden && light([]));
    drawings.tabIndex = 0;
    drawings.setAttribute("role", "group");
    drawings.setAttribute("aria-label", "Computation graph: the arrow keys step through it");
    drawings.after(make("div", { className: "controls" },
      button("◀ back", () => Math.max(0, at - 1)), button("step ▶", () => at + 1), button("all", () => -1), count), said);
    go(0);

    const derivation = graph.closest(".derivation");
    if (!derivation) continue;
    const beside = matchMedia("screen and (min-width: 900px)");
    const reading = new IntersectionObserver((texts) => {
      for (const { isIntersecting, target } of texts) {
        target.classList.toggle("read", isIntersecting && beside.matches);
        if (!isIntersecting || !beside.matches) continue;
        said.ariaLive = "off"; // a reader who scrolls has not asked
        if (note.hidden) light([]);
        go(Number(target.className.match(/step-(\d+)/)[1]));
      }
    }, { rootMargin: "-45% 0px -54% 0px" });
    for (const text of derivation.querySelectorAll(".step")) reading.observe(text);
    derivation.classList.add("beside");
  }
});
