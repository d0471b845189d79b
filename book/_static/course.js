// The theme looks for a mode that a first-time reader has not chosen yet.
document.documentElement.dataset.mode ||= "auto";
document.documentElement.dataset.theme ||= matchMedia("(prefers-color-scheme: dark)").matches
  ? "dark"
  : "light";

// Faces are made ready before the first text is laid out: text that changes its face jumps.
for (const face of document.fonts) face.load();

// An HTML element with properties, and its children.
const make = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};

// What is kept under a name, by a browser that stores anything.
const storage = {
  read: (name, otherwise) => {
    try {
      return JSON.parse(localStorage.getItem(name)) ?? otherwise;
    } catch {
      return otherwise;
    }
  },
  write: (name, value) => {
    try {
      localStorage.setItem(name, JSON.stringify(value));
    } catch { /* it stays until the page is left */ }
  },
};

(() => {
  // A page that is read from its top is soon there: its sections below the window are laid out one
  // after another, in pauses (course.css).
  const layOut = (section) => section.classList.add("laid-out");
  addEventListener("DOMContentLoaded", () => {
    const later = [...document.querySelectorAll(".bd-article > section > section")];
    const next = () => {
      if (!later.length) return;
      layOut(later.shift());
      requestAnimationFrame(() => (window.requestIdleCallback ?? setTimeout)(next));
    };
    const [{ type }] = performance.getEntriesByType("navigation");
    if (location.hash || type !== "navigate") later.forEach(layOut);
    else addEventListener("load", next);
  });

  // What scrolls sideways can be reached by keyboard, and shows at which end there is more.
  const SCROLLERS =
    "article :is(.formula, span.math, pre, .pst-scrollable-table-container, .cell_output .output, .notebook-figure)";
  function measure(boxes) {
    // All are measured before any is changed: the page is laid out once for them.
    const measured = boxes.map((box) => [box.scrollLeft, box.clientWidth && box.scrollWidth - box.clientWidth]);
    boxes.forEach((box, n) => {
      const [left, hidden] = measured[n], scrolls = hidden > 1;
      box.classList.toggle("scrolls", scrolls);
      box.classList.toggle("more-before", scrolls && left > 2);
      box.classList.toggle("more-after", scrolls && left < hidden - 2);
      if (!scrolls) return box.removeAttribute("tabindex");
      box.tabIndex = 0;
      box.onscroll = () => measure([box]);
    });
  }
  const resized = new Set();
  const observer = new ResizeObserver((entries) => {
    if (!resized.size) requestAnimationFrame(() => {
      measure([...resized]);
      resized.clear();
    });
    for (const { target } of entries) resized.add(target);
  });

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
    new ResizeObserver(() => {
      for (const box of document.querySelectorAll(SCROLLERS)) observer.observe(box);
    }).observe(document.body);
    addEventListener("beforeprint", () => {
      for (const fold of document.querySelectorAll("article details:not(.hide, .live)")) fold.open = true;
    });
  });
})();
