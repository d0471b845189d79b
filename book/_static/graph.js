// Steps through the computation graphs: by button, or by arrow keys where the graph has the focus.
// Each part of a drawing says in data-step when it appears, each edge in data-forward and data-back
// when it is lit. After "all", and without scripts, everything is there. A graph that belongs to a
// derivation is pinned beside it, and shows the step whose text is being read.
document.addEventListener("DOMContentLoaded", () => {
  "use strict";
  const make = (tag, properties, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };

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
    const button = (text, press) => {
      const made = make("button", { type: "button", textContent: text });
      made.addEventListener("click", () => {
        said.ariaLive = "polite";
        press();
      });
      return made;
    };

    graph.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      said.ariaLive = "polite";
      go(Math.max(0, at + by));
    });
    drawings.tabIndex = 0;
    drawings.setAttribute("role", "group");
    drawings.setAttribute("aria-label", "Computation graph: the arrow keys step through it");
    drawings.after(make("div", { className: "controls" },
      button("◀ back", () => go(Math.max(0, at - 1))), button("step ▶", () => go(at + 1)), button("all", () => go(-1)), count), said);
    go(0);

    const derivation = graph.closest(".derivation");
    if (!derivation) continue;
    const beside = matchMedia("screen and (min-width: 900px)");
    const reading = new IntersectionObserver((texts) => {
      for (const { isIntersecting, target } of texts) {
        target.classList.toggle("read", isIntersecting && beside.matches);
        if (!isIntersecting || !beside.matches) continue;
        said.ariaLive = "off"; // a reader who scrolls has not asked
        go(Number(target.className.match(/step-(\d+)/)[1]));
      }
    }, { rootMargin: "-45% 0px -54% 0px" });
    for (const text of derivation.querySelectorAll(".step")) reading.observe(text);
    derivation.classList.add("beside");
  }
});
