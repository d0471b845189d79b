// Steps through the computation graphs: by button, or by arrow keys where the graph has the focus.
// Each part of a drawing says in data-step when it appears, each edge in data-forward and data-back
// when it is lit. Before the first step, and after "all", everything is there.
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
    let at = -1; // everything

    const has = (steps) => at >= 0 && steps !== undefined && steps.split(" ").includes(String(at));
    const go = (to) => {
      at = Math.max(-1, Math.min(sentences.length - 1, to));
      for (const part of parts) {
        part.classList.toggle("hidden", at >= 0 && Number(part.dataset.step) > at);
        part.classList.toggle("new", Number(part.dataset.step) === at);
        part.classList.toggle("forward-on", has(part.dataset.forward));
        part.classList.toggle("back-on", has(part.dataset.back));
      }
      count.textContent = at < 0 ? `${sentences.length} steps` : `${at + 1} of ${sentences.length}`;
      said.replaceChildren(...(at < 0 ? [] : sentences[at].cloneNode(true).childNodes));
    };
    const button = (text, press) => {
      const made = make("button", { type: "button", textContent: text });
      made.addEventListener("click", press);
      return made;
    };

    graph.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      go(at + by);
    });
    drawings.tabIndex = 0;
    drawings.setAttribute("role", "group");
    drawings.setAttribute("aria-label", "Computation graph: the arrow keys step through it");
    drawings.after(make("div", { className: "controls" },
      button("◀ back", () => go(at - 1)), button("step ▶", () => go(at + 1)), button("all", () => go(-1)), count), said);
    go(-1);
  }
});
