// How Sphinx's search orders what it finds: chapters whose title has all words, their sections and
// notebooks, terms of the glossary, then what has the words in its text, in the order of the book.
var Scorer = {
  score: ([page, title, anchor, , score]) => {
    const query = new URLSearchParams(location.search).get("q") ?? "";
    const words = query.toLowerCase().split(/[\s-]+/);
    const named = words.every((word) => title.toLowerCase().includes(word));
    const [, folder, number] = page.match(/^(book|notebooks)\/(\d{3})_/) ?? [];
    const place = folder === "book" ? (anchor ? 300 : 400) : folder ? 200 : 100;
    return (named ? place : 0) + score - (number ?? 999) / 1e4;
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
