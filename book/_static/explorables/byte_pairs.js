// Byte pairs on a text of the reader's own: merge by merge, under each rule for ties.
"use strict";
explore("byte_pairs", ({ stage, controls, say }) => {
  const { make, number, button, choice, toggle, readouts } = explore;
  const PIECES = /'(?:[stmd]|re|ve|ll)| ?\p{L}+| ?\p{N}+| ?[^\t-\r\x85\p{Z}\p{L}\p{N}]+|[\t-\r\x85\p{Z}]+(?![^\t-\r\x85\p{Z}])|[\t-\r\x85\p{Z}]+/gu;
  const LONGEST = 2000; // characters
  const state = { text: "chase chase chase chased chased cheese cheese", ties: "ids", blanks: false, merges: 0 };

  // Bytes are numbered as in the package: those that can be seen first.
  const range = (from, to) => Array.from({ length: to - from }, (_, k) => from + k);
  const visible = [...range(33, 127), ...range(161, 173), ...range(174, 256)];
  const BYTES = [...visible, ...range(0, 256).filter((byte) => !visible.includes(byte))];

  const written = (bytes) => {
    try {
      return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(bytes)).replace(/ /g, "␣").replace(/\n/g, "↵");
    } catch {
      return bytes.map((byte) => byte.toString(16).toUpperCase().padStart(2, "0")).join(" ");
    }
  };

  const wordsOf = () => {
    let pieces = state.text.slice(0, LONGEST).match(PIECES) || [];
    if (!state.blanks) pieces = pieces.map((piece) => piece.trim()).filter(Boolean);
    const times = new Map();
    for (const piece of pieces) times.set(piece, (times.get(piece) || 0) + 1);
    return Array.from(times, ([piece, often]) => ({
      often, ids: Array.from(new TextEncoder().encode(piece), (byte) => BYTES.indexOf(byte)),
    }));
  };

  // Of two lists of numbers, whether the first comes before the second.
  const before = (one, other) => {
    for (let k = 0; k < Math.max(one.length, other.length); k += 1)
      if (one[k] !== other[k]) return (one[k] ?? -1) < (other[k] ?? -1);
    return false;
  };

  // The most frequent pairs in the order in which they are met, and the one that is merged.
  const most = (words, tokens) => {
    const counts = new Map();
    for (const { ids, often } of words)
      for (let k = 1; k < ids.length; k += 1) {
        const key = `${ids[k - 1]} ${ids[k]}`;
        counts.set(key, (counts.get(key) || 0) + often);
      }
    const count = Math.max(0, ...counts.values());
    const tied = Array.from(counts).filter(([, n]) => n === count).map(([key]) => key.split(" ").map(Number));
    const greater = (one, other) => {
      const [a, b] = [one, other].map((pair) => pair.map((i) => tokens[i]));
      return before(b[0], a[0]) || (!before(a[0], b[0]) && before(b[1], a[1]));
    };
    const first = { ids: before, first: () => false, bytes: greater }[state.ties];
    return { count, tied, pair: tied.reduce((best, pair) => (first(pair, best) ? pair : best), tied[0]) };
  };

  const merged = (ids, [a, b], made) => {
    const result = [];
    for (const id of ids)
      if (id === b && result[result.length - 1] === a) result[result.length - 1] = made;
      else result.push(id);
    return result;
  };

  // The words after a number of merges, the tokens, what was merged, and what comes next.
  const run = () => {
    let words = wordsOf();
    const tokens = BYTES.map((byte) => [byte]), history = [];
    for (;;) {
      const next = most(words, tokens);
      if (history.length >= state.merges || !next.pair) return { words, tokens, history, next };
      const made = tokens.length, pair = next.pair;
      tokens.push([...tokens[pair[0]], ...tokens[pair[1]]]);
      words = words.map(({ ids, often }) => ({ often, ids: merged(ids, pair, made) }));
      history.push({ ...next, made });
    }
  };

  const field = make("textarea", { name: "text", rows: 2, maxLength: LONGEST, textContent: state.text, spellcheck: false,
    style: "width: 100%; box-sizing: border-box; font: inherit" });
  const shown = make("div", { role: "group", ariaLabel: "The words, cut into tokens", tabIndex: 0,
    style: "display: flex; flex-wrap: wrap; gap: .5em 1em; margin: .8em 0; max-height: 14em; overflow-y: auto" });
  const list = make("p");
  stage.append(make("label", {}, "Your text", field), shown, list);
  const write = readouts(stage, { merges: "merges", tokens: "tokens of the text", size: "bytes per token",
    count: "the next pair occurs", tied: "pairs as frequent" });

  const box = (text, lit) => make("span", { style:
    `border: 1px solid var(--${lit ? "orange" : "line"}); border-radius: 3px; padding: 0 .25em; margin-right: 2px; ${lit ? "background: var(--lit)" : ""}` }, text);
  const paint = () => {
    const { words, tokens, history, next } = run();
    state.merges = history.length; // a shorter text may have fewer
    const name = (id) => written(tokens[id]);
    shown.replaceChildren(...words.map(({ ids, often }) => {
      const lit = new Set();
      for (let k = 1; next.pair && k < ids.length; k += 1)
        if (!lit.has(k - 1) && ids[k - 1] === next.pair[0] && ids[k] === next.pair[1]) lit.add(k - 1).add(k);
      return make("span", {}, ...ids.map((id, k) => box(name(id), lit.has(k))), often > 1 ? `×${often}` : "");
    }));
    list.replaceChildren("Merges: ", ...history.flatMap(({ made, tied }) => [box(name(made), false), tied.length > 1 ? "(tie) " : " "]));
    list.dataset.merges = history.map(({ pair }) => pair.join(" ")).join(",");
    const total = words.reduce((sum, { ids, often }) => sum + often * ids.length, 0);
    const bytes = words.reduce((sum, { ids, often }) => sum + often * ids.reduce((n, id) => n + tokens[id].length, 0), 0);
    write.merges(history.length, String(history.length));
    write.tokens(total, String(total));
    write.size(total ? bytes / total : 0);
    write.count(next.count, `${next.count}×`);
    write.tied(next.tied.length, String(next.tied.length));
    forward.disabled = !next.pair;
    back.disabled = history.length === 0;
    say(next.pair
      ? `${total} tokens after ${history.length} merges. Next: ${name(next.pair[0])} and ${name(next.pair[1])}, ${next.count} times${
        next.tied.length > 1 ? `, chosen among ${next.tied.length} pairs` : ""}.`
      : `${total} tokens, and no pair is left to merge. ${number(total ? bytes / total : 0)} bytes per token.`);
  };

  field.addEventListener("input", () => { state.text = field.value; paint(); });
  const go = (merges) => { state.merges = merges; paint(); };
  const forward = button(controls, "Merge", () => go(state.merges + 1));
  const back = button(controls, "Back", () => go(state.merges - 1));
  button(controls, "20 merges", () => go(state.merges + 20));
  choice(controls, { name: "ties", label: "a tie goes to", value: state.ties,
    options: { ids: "the smallest ids", first: "the pair met first", bytes: "the greatest bytes" } },
  (ties) => { state.ties = ties; paint(); });
  toggle(controls, { name: "blanks", label: "blanks are part of words" }, (on) => { state.blanks = on; paint(); });
  paint();
});
