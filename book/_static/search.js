// Under each result of the search, the first words of its place.
new MutationObserver((changes) => {
  for (const { addedNodes } of changes)
    for (const item of addedNodes) {
      const link = item.matches?.("li") && item.querySelector("a[href]");
      if (!link || item.querySelector(".context")) continue;
      const [page, anchor] = link.getAttribute("href").split("#");
      const words = EXCERPTS[page.replace(/\.html$/, "")] ?? {};
      const text = document.createElement("p");
      text.className = "context";
      text.textContent = words[anchor ? `#${anchor}` : ""] ?? "";
      item.append(text);
    }
}).observe(document, { childList: true, subtree: true });
