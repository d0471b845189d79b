// The theme looks for a mode that a first-time reader has not chosen yet.
document.documentElement.dataset.mode ||= "auto";
document.documentElement.dataset.theme ||= matchMedia("(prefers-color-scheme: dark)").matches
  ? "dark"
  : "light";

// Faces are made ready before the first text is laid out: text that changes its face jumps.
for (const face of document.fonts) face.load();

(() => {
  // What scrolls sideways can be reached by keyboard, and shows at which end there is more.
  function scrollers() {
    const boxes = document.querySelectorAll(
      "article :is(.formula, span.math, pre, .pst-scrollable-table-container, .cell_output .output, .notebook-figure)",
    );
    // All are measured before any is changed: the page is laid out once for them.
    const measure = (box) => [box.scrollLeft, box.clientWidth && box.scrollWidth - box.clientWidth];
    const measured = Array.from(boxes, measure);
    boxes.forEach((box, n) => {
      const scrolls = measured[n][1] > 1;
      box.classList.toggle("scrolls", scrolls);
      if (!scrolls) return box.removeAttribute("tabindex");
      const cue = ([left, hidden]) => {
        box.classList.toggle("more-before", left > 2);
        box.classList.toggle("more-after", left < hidden - 2);
      };
      box.tabIndex = 0;
      box.onscroll = () => cue(measure(box));
      cue(measured[n]);
    });
  }

  // A fold whose title is a formula or a mark has a name that is read aloud.
  function named() {
    for (const summary of document.querySelectorAll("summary")) {
      const plain = summary.cloneNode(true);
      plain.querySelectorAll("math, svg").forEach((part) => part.remove());
      const formula = summary.querySelector("math")?.textContent;
      if (!plain.textContent.trim()) summary.setAttribute("aria-label", formula || "Open and close");
    }
  }

  // Who copies from inside a formula gets its TeX.
  document.addEventListener("copy", (event) => {
    const place = getSelection().getRangeAt(0).commonAncestorContainer;
    const formula = (place.closest ? place : place.parentElement).closest("[data-tex]");
    if (!formula) return;
    event.clipboardData.setData("text/plain", formula.dataset.tex);
    event.preventDefault();
  });

  // A box of the map lights the way of the sentence from the words up to it.
  function ways() {
    for (const map of document.querySelectorAll(".architecture")) {
      const light = ({ target, type }) => {
        const end = type === "pointerleave" || type === "focusout" ? null : target.closest("[data-box]");
        for (const box of map.querySelectorAll("[data-box]"))
          box.classList.toggle("passed", end !== null && Number(box.dataset.box) <= end.dataset.box);
      };
      for (const type of ["pointerover", "pointerleave", "focusin", "focusout"]) map.addEventListener(type, light);
    }
  }

  addEventListener("load", () => {
    named();
    ways();
    scrollers();
    let waiting;
    new ResizeObserver(() => {
      cancelAnimationFrame(waiting);
      waiting = requestAnimationFrame(scrollers);
    }).observe(document.body);
    document.addEventListener("toggle", scrollers, true);
    addEventListener("beforeprint", () => {
      for (const fold of document.querySelectorAll("article details:not(.hide, .live)")) fold.open = true;
    });
  });
})();
