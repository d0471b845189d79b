// What every object of JavaScript has, such as "constructor", is no word of the index.
const { hasOwnProperty } = Object.prototype, plain = Object.assign(Object.create(null), { hasOwnProperty });
for (const part of Object.values(Search._index))
  if (typeof part === "object" && !Array.isArray(part)) Object.setPrototypeOf(part, plain);

// Under each result of the search, the first words of its place.
new MutationObserver((changes) => {
  for (const { addedNodes } of changes)
    for (const item of addedNodes) {
      const link = item.matches?.("li") && item.querySelector("a[href]");
      if (!link || item.querySelector(".context")) continue;
      const [page, anchor] = link.getAttribute("href").split("#");
      const words = EXCERPTS[page.replace(/\.html$/, "")] ?? {};
      item.append(make("p", { className: "context" }, words[anchor ? `#${anchor}` : ""] ?? ""));
    }
}).observe(document, { childList: true, subtree: true });
