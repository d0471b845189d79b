// The arrays of one sentence: a cell opens into the sum that made it, with the numbers of the cells
// that it names, which light up. In the whole model each step shows its arrays and its box of the map.
document.addEventListener("DOMContentLoaded", () => {
  "use strict";
  const NAMED = /([\p{L}_\d]+)\[(\d)(?:,(\d))?\]/gu;
  const SIGNS = [[/ ?\*\* ?2/g, "²"], [/ ?\* ?/g, " · "], [/-/g, "−"], [/ \/ /g, " / "], [/sqrt/g, "√"], [/log/g, "ln "]];
  const HASH = "#cats-chase-mice";
  const with_ = (cell) => {
    const { unit } = cell.closest("table").dataset;
    return unit && cell.textContent !== "0" ? `${cell.textContent} ${unit}`.replace(/^(−?)1 /, "$1") : cell.textContent;
  };
  const shown = (text) => SIGNS.reduce((so, [sign, as]) => so.replace(sign, as), text);

  for (const whole of document.querySelectorAll(".arrays")) {
    const boxes = whole.querySelector(".boxes"), opened = whole.querySelector(".opened");
    const cell = (name, row, column = 0) =>
      boxes.querySelector(`table[data-array="${name}"]`).rows[row].querySelectorAll("td")[column];

    // A number stands in brackets where it has a sign or a unit, or divides and is a fraction.
    const open = (at) => {
      for (const lit of boxes.querySelectorAll(".from, .open")) lit.classList.remove("from", "open");
      at.classList.add("open");
      const table = at.closest("table"), row = at.parentElement, head = row.querySelector("th");
      const place = [head?.textContent ?? (table.rows.length > 1 ? `row ${row.rowIndex + 1}` : ""),
        row.querySelectorAll("td").length > 1 ? `column ${[...row.querySelectorAll("td")].indexOf(at) + 1}` : ""];
      const name = table.querySelector("i").cloneNode(true);
      opened.replaceChildren(name, ` ${place.filter(Boolean).join(", ")}: `);
      if (!at.dataset.sum) {
        opened.append(with_(at), table.dataset.array === "dloss" ? ", where the way back begins." : ", a parameter.");
        return;
      }
      let end = 0;
      const sum = make("span");
      for (const found of at.dataset.sum.matchAll(NAMED)) {
        const source = cell(...found.slice(1).filter(Boolean)), value = with_(source);
        const before = at.dataset.sum.slice(end, found.index), after = at.dataset.sum[found.index + found[0].length];
        source.classList.add("from");
        const bare = before.endsWith("(") && after === ")" || !/^−|ln/.test(value) && !(before.endsWith("/ ") && value.includes("/"));
        sum.append(shown(before), make("b", { className: source.closest("table").className }, bare ? value : `(${value})`));
        end = found.index + found[0].length;
      }
      sum.append(shown(at.dataset.sum.slice(end)));
      opened.append(sum, " = ", make("b", { className: "result" }, with_(at)));
    };

    // One tab stop in each array; the arrow keys go on from there.
    for (const table of boxes.querySelectorAll("table")) {
      table.setAttribute("role", "grid");
      for (const td of table.querySelectorAll("td")) td.tabIndex = -1;
      table.querySelector("td").tabIndex = 0;
    }
    const choose = (at) => {
      at.closest("table").querySelector("td[tabindex='0']").tabIndex = -1;
      at.tabIndex = 0;
      open(at);
    };
    boxes.addEventListener("click", ({ target }) => {
      if (target.closest("td")) choose(target.closest("td"));
    });
    boxes.addEventListener("keydown", (event) => {
      const at = event.target.closest("td");
      const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Enter: [0, 0], " ": [0, 0] }[event.key];
      if (!at || !by || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      event.stopPropagation();
      const row = at.parentElement, column = [...row.querySelectorAll("td")].indexOf(at);
      const to = at.closest("table").rows[row.rowIndex + by[0]]?.querySelectorAll("td")[column + by[1]];
      if (!to) return;
      choose(to);
      to.focus();
    });

    const map = whole.querySelector(".architecture");
    if (!map) continue;
    for (const box of map.querySelectorAll("[data-box]")) box.setAttribute("href", box.getAttribute("href") + HASH);
    const step = () => {
      const news = [...boxes.querySelectorAll("table.new")];
      const parts = new Set(news.map((table) => table.closest(".part")));
      for (const part of boxes.children) part.classList.toggle("here", parts.has(part));
      const on = new Set([...parts].map((part) => part.dataset.box));
      for (const box of map.querySelectorAll("[data-box]")) box.classList.toggle("on", on.has(box.dataset.box));
      const [first] = parts;
      if (first) boxes.scrollTo({ top: first.offsetTop - boxes.offsetTop - 8 });
    };
    whole.addEventListener("step", step);
    step();
  }

  const arrive = () => {
    const strip = location.hash === HASH && document.querySelector(HASH)?.closest("details");
    if (!strip) return;
    strip.open = true;
    document.querySelector(HASH).scrollIntoView();
  };
  addEventListener("hashchange", arrive);
  arrive();
});
