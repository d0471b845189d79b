// The theme looks for a mode that a first-time reader has not chosen yet.
document.documentElement.dataset.mode ||= "auto";
document.documentElement.dataset.theme ||= matchMedia("(prefers-color-scheme: dark)").matches
  ? "dark"
  : "light";

// A displayed formula that is too wide for its place is set again: its reasons go under their
// lines and what stands side by side goes below each other; then it breaks at relations, then at
// sums. What is still too wide scrolls.
(() => {
  // The parts of a formula between marks that stand outside of all braces and environments.
  function split(tex, marks) {
    const parts = [""];
    const found = [];
    let depth = 0;
    for (const [token] of tex.matchAll(/\\[A-Za-z]+|\\.|[^\\]/gs)) {
      if (token === "\\begin" || token === "\\left" || /[{([]/.test(token) && token.length === 1) depth++;
      if (token === "\\end" || token === "\\right" || /[})\]]/.test(token) && token.length === 1) depth--;
      if (depth === 0 && marks.test(token)) {
        parts.push("");
        found.push(token);
      } else parts[parts.length - 1] += token;
    }
    return [parts, found];
  }

  const inside = (tex, name) =>
    tex.trim().match(new RegExp(`^\\\\begin\\{${name}\\}([\\s\\S]*)\\\\end\\{${name}\\}\\s*([.,;:]?)$`));

  // Its rows, each as what it says and the reason for it.
  function rowsOf(tex) {
    const outer = inside(tex, "split");
    if (outer) return rowsOf(outer[1]);
    const aligned = inside(tex, "aligned") || inside(tex, "gathered");
    return split(aligned ? aligned[1] + aligned[2] : tex, /^\\\\$/)[0]
      .filter((row) => row.trim())
      .map((row) => {
        const cells = split(row.replace(/^\s*\[[^\]]*\]/, ""), /^&$/)[0].map((cell) => cell.trim());
        const reason = cells.length > 3 && !cells[2] ? cells.slice(3).join(" ") : "";
        return { cells: reason ? cells.slice(0, 2) : cells, reason };
      });
  }

  const under = (reason) => (reason ? [`\\qquad {\\small ${reason}}`] : []);
  const column = (lines) =>
    `\\begin{array}{l}${lines.filter((line) => line.trim()).join("\\\\[0.3em]")}\\end{array}`;

  function apart(tex) {
    return split(tex, /^\\q?quad$/)[0];
  }

  function stacked(tex) {
    return column(
      rowsOf(tex).flatMap(({ cells, reason }) => [...apart(cells.join(" ")), ...under(reason)]),
    );
  }

  const RELATION = /^(=|<|>|:|\\(approx|le|ge|leq|geq|ne|equiv|propto|to|mapsto|sim|iff|implies))$/;

  function broken(tex, marks) {
    const lines = [];
    for (const { cells, reason } of rowsOf(tex)) {
      for (const one of apart(cells.join(" "))) {
        const [parts, found] = split(one, marks);
        lines.push(parts[0]);
        parts.slice(1).forEach((part, i) => lines.push(`\\quad ${found[i]} ${part}`));
      }
      lines.push(...under(reason));
    }
    return column(lines);
  }

  const ways = [
    stacked,
    (tex) => broken(tex, RELATION),
    (tex) => broken(tex, new RegExp(`${RELATION.source}|^[+-]$|^\\\\(odot|cdot|times)$`)),
  ];

  const tooWide = ({ typesetRoot: box }) =>
    box.clientWidth > 0 && box.querySelector("mjx-math").offsetWidth > box.clientWidth + 1;

  function typeset(item, tex) {
    item.math = tex;
    item.rerender(MathJax.startup.document, MathJax._.core.MathItem.STATE.COMPILED);
  }

  let fitted = 0;

  function fit() {
    const document_ = MathJax.startup.document;
    const width = document.querySelector("article")?.clientWidth;
    if (!width || width === fitted) return;
    const formulas = [...document_.math].filter((item) => item.display && item.typesetRoot?.isConnected);
    for (const item of formulas)
      if (item.source && width > fitted) {
        typeset(item, item.source);
        delete item.source;
      }
    fitted = width;
    for (const item of formulas) item.typesetRoot.parentElement.classList.remove("number-below");
    for (const { typesetRoot: box } of formulas.filter(tooWide))
      if (box.parentElement.querySelector(".eqno")) box.parentElement.classList.add("number-below");
    for (const way of ways)
      for (const item of formulas.filter(tooWide)) {
        item.source ??= item.math;
        typeset(item, way(item.source));
      }
  }

  // What scrolls sideways can be reached by keyboard, and shows at which end there is more.
  function scrollers() {
    const boxes = document.querySelectorAll(
      "article :is(div.math > mjx-container, span.math, pre, .pst-scrollable-table-container, .cell_output .output, .notebook-figure)",
    );
    for (const box of boxes) {
      const content = box.querySelector(":scope:is(mjx-container, .math) mjx-math")?.offsetWidth ?? box.scrollWidth;
      const scrolls = box.clientWidth > 0 && content > box.clientWidth + 1;
      box.classList.toggle("scrolls", scrolls);
      if (!scrolls) {
        box.removeAttribute("tabindex");
        continue;
      }
      box.tabIndex = 0;
      const seen = () => {
        box.classList.toggle("more-before", box.scrollLeft > 2);
        box.classList.toggle("more-after", box.scrollLeft < box.scrollWidth - box.clientWidth - 2);
      };
      box.onscroll = seen;
      seen();
    }
  }

  // A fold whose title is a formula or a mark has a name that is read aloud.
  function named() {
    for (const summary of document.querySelectorAll("summary")) {
      const formula = summary.querySelector("mjx-assistive-mml")?.textContent.trim();
      const plain = summary.cloneNode(true);
      plain.querySelectorAll("mjx-container, svg").forEach((part) => part.remove());
      if (!plain.textContent.trim()) summary.setAttribute("aria-label", formula || "Open and close");
    }
  }

  // No line begins with the mark that follows a formula.
  function joined() {
    for (const formula of document.querySelectorAll("article span.math")) {
      const next = formula.nextSibling;
      const [marks] = (next instanceof Text && next.data.match(/^[.,;:?!)]+/)) || [];
      if (!marks) continue;
      const both = document.createElement("span");
      both.className = "joined";
      formula.before(both);
      next.splitText(marks.length);
      both.append(formula, next);
    }
  }

  function whenWide() {
    if (window.MathJax?.startup?.document) fit();
    scrollers();
  }

  if (window.MathJax)
    MathJax.startup = {
      pageReady: () => MathJax.startup.defaultPageReady().then(() => {
        fit();
        scrollers();
        named();
      }),
    };
  addEventListener("load", () => {
    joined();
    named();
    scrollers();
    let waiting;
    new ResizeObserver(() => {
      cancelAnimationFrame(waiting);
      waiting = requestAnimationFrame(whenWide);
    }).observe(document.querySelector("article"));
    document.addEventListener("toggle", whenWide, true);
    addEventListener("beforeprint", () => {
      for (const fold of document.querySelectorAll("article details:not(.hide, .live)")) fold.open = true;
    });
  });
})();
