// Steps through the computation graphs: by button, or by arrow keys where the graph has the focus.
// Each part of a drawing says in data-step when it appears, each edge in data-forward and data-back
// when it is lit. After "all", and without scripts, everything is there. A graph that belongs to a
// derivation is pinned beside it, and shows the step whose text is being read. Pointing at a symbol,
// a tap or the focus lights it in formulas, code and drawing, with its number and its code; so do
// the steps. The symbols of a formula or a listing are one stop of the tabulator.
document.addEventListener("DOMContentLoaded", () => {
  "use strict";
  const note = make("div", { className: "symbol-note", id: "symbol-note", role: "tooltip", hidden: true });
  document.body.append(note);
  const places = "[class*='sym:']";
  const symbolsOf = (place) => // x_n is x0, x1 and x2: "sym:x0,x1,x2"
    [...place.classList].find((name) => name.startsWith("sym:")).slice(4).split(",");
  const wholes = [...document.querySelectorAll(`:is(.math, pre):has(${places})`)];
  const stopsIn = (whole) => [...whole.querySelectorAll(places)];
  const named = new Set(wholes.flatMap(stopsIn).flatMap(symbolsOf));
  const light = (symbols) => {
    for (const place of document.querySelectorAll(places))
      place.classList.toggle("lit", symbolsOf(place).some((symbol) => symbols.includes(symbol)));
  };
  let origin; // of what is lit: a symbol, or what a graph has said
  const show = (symbols, place) => {
    origin = place;
    light(symbols);
    const codes = [...document.querySelectorAll("pre .lit")].map(({ textContent }) => textContent);
    const given = place?.closest(".explorable") ? [place] : [...document.querySelectorAll(".wide .lit")];
    const numbers = given.map(({ dataset }) => dataset.number);
    note.hidden = !numbers.length || !symbols.length;
    if (note.hidden) return;
    note.replaceChildren(...numbers.map((textContent) => make("p", { textContent })),
      ...(place.closest("pre") ? [] : codes).map((textContent) => make("code", { textContent })));
    const box = place.getBoundingClientRect();
    const room = document.documentElement.clientWidth - note.offsetWidth - 8;
    const lowest = innerHeight - note.offsetHeight - 8;
    const top = box.bottom > lowest - 8 ? box.top - note.offsetHeight - 8 : box.bottom + 8;
    note.style.left = `${scrollX + Math.max(8, Math.min(room, box.left))}px`;
    note.style.top = `${scrollY + Math.min(lowest, top)}px`;
  };
  const point = (place) =>
    show(place ? symbolsOf(place).filter((symbol) => named.has(symbol)) : [], place);
  let under = null; // the mouse, which may rest there while the page moves
  document.addEventListener("pointermove", ({ pointerType, target }) => {
    const place = target.closest?.(places);
    if (pointerType === "mouse" && place !== under) point(under = place);
  });
  document.addEventListener("pointerup", ({ target }) => point(target.closest?.(places)));
  document.addEventListener("focusout", () => point());
  document.addEventListener("keydown", ({ key, target }) => {
    if (key !== "Escape") return;
    point();
    if (target.matches(places)) target.blur();
  });

  for (const whole of wholes) {
    const stops = stopsIn(whole);
    stops.forEach((stop, at) => {
      stop.tabIndex = at ? -1 : 0;
      stop.setAttribute("aria-describedby", note.id);
    });
    whole.addEventListener("focusin", ({ target }) => {
      if (!target.matches(places)) return;
      for (const stop of stops) stop.tabIndex = stop === target ? 0 : -1;
      point(target);
    });
    whole.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
      const next = event.target.matches(places) && stops[stops.indexOf(event.target) + by];
      if (!next || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      next.focus();
    });
  }

  for (const graph of document.querySelectorAll(".graph")) {
    const drawings = graph.querySelector(".drawings");
    const sentences = [...graph.querySelectorAll(".steps li")];
    const parts = [...drawings.querySelectorAll("[data-step]")];
    const said = make("p", { className: "said", role: "status" });
    const count = make("span", { className: "count" });
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
    const asked = (to, { detail }) => { // by the reader, who is told, and shown the formula and the code
      said.ariaLive = "polite";
      go(to);
      show(parts.filter((part) => part.matches(".strip.new")).flatMap(symbolsOf), said);
      note.hidden ||= detail > 0; // a click by mouse or finger: that can point
    };
    const button = (textContent, to) =>
      make("button", { type: "button", textContent, onclick: (event) => asked(to(), event) });

    graph.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      asked(Math.max(0, at + by), event);
    });
    Object.assign(drawings, { tabIndex: 0, role: "group", ariaLabel: "Computation graph: the arrow keys step through it" });
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
        if (!origin?.matches(places)) point();
        go(Number(target.className.match(/step-(\d+)/)[1]));
      }
    }, { rootMargin: "-45% 0px -54% 0px" });
    for (const text of derivation.querySelectorAll(".step")) reading.observe(text);
    derivation.classList.add("beside");
  }
});
