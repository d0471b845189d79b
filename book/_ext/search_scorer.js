// How Sphinx's search orders what it finds: a function or an equation of this very name, chapters whose
// title, or another name of their subject, is the query or has its words, their sections and notebooks,
// terms of the glossary, then what has the words in its text, in the order of the book.
const stemsOf = (text) => {
  const stemmer = new Stemmer(), words = text.toLowerCase().trim().replace(/^(an?|the) |_/g, " ");
  return splitQuery(words).map((word) => stemmer.stemWord(word));
};
const otherNames = (page) => {
  const { docnames, indexentries } = Search._index;
  const isOf = ([file, anchor]) => !anchor && docnames[file] === page;
  return Object.keys(indexentries).filter((name) => indexentries[name].some(isOf));
};
var Scorer = {
  score: ([page, title, anchor, kind, score]) => {
    const query = (new URLSearchParams(location.search).get("q") ?? "").toLowerCase().trim();
    const name = title.replace(/<.*?>[\d. ]*/g, "").toLowerCase(), stems = stemsOf(query);
    const names = [name, ...(anchor ? [] : otherNames(page))].map(stemsOf);
    const isNamed = names.some((each) => each.join() === stems.join());
    const shares = names.map((each) =>
      stems.filter((stem) => each.some((other) => other.startsWith(stem))).length / stems.length);
    const share = Math.max(...shares);
    const [, folder, number] = page.match(/^(book|notebooks)\/(\d{3})_/) ?? [];
    const exact = /[_:]/.test(query) && [name, name.split(".").pop()].includes(query);
    const place = kind ? (exact ? 500 : 150)
      : folder === "book" ? (anchor ? 300 : 400) : folder ? 200 : 100;
    const [, item] = title.match(/(?:^|> )(\d+)\./) ?? []; // 10 comes after 9
    return (share > 1 / 2 ? share * place : 0) + (isNamed ? 50 : 0)
      + (kind ? score : Math.min(score, Scorer.title)) - (number ?? 999) / 1e4 - (item ?? 0) / 1e7;
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
