// How Sphinx's search orders what it finds: a function or an equation of this very name, chapters whose
// title has all words, their sections and notebooks, terms of the glossary, then what has the words in
// its text, in the order of the book.
var Scorer = {
  score: ([page, title, anchor, kind, score]) => {
    const query = (new URLSearchParams(location.search).get("q") ?? "").toLowerCase().trim();
    const words = query.split(/[\s-]+/), name = title.toLowerCase();
    const named = words.every((word) => name.includes(word));
    const [, folder, number] = page.match(/^(book|notebooks)\/(\d{3})_/) ?? [];
    const exact = /[_:]/.test(query) && [name, name.split(".").pop()].includes(query);
    const place = kind ? (exact ? 500 : 150)
      : folder === "book" ? (anchor ? 300 : 400) : folder ? 200 : 100;
    const [, item] = title.match(/(?:^|> )(\d+)\./) ?? []; // 10 comes after 9
    return (named ? place : 0) + score - (number ?? 999) / 1e4 - (item ?? 0) / 1e7;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
