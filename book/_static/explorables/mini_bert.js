// Mini-BERT in the page: a sentence with a gap, the likeliest words, which tokens they came from, and
// where every head looks. Until the reader asks for the model, stored answers are shown.
"use strict";

explore("mini_bert", ({ figure, stage, controls, say }) => {
  const { make, draw, number, show } = explore;
  const { examples, megabytes } = JSON.parse(figure.querySelector("script").textContent);
  const small = figure.classList.contains("front");
  let asked = 0; // which of the five words
  let out = null; // which token is left out
  let model, pieces, longest, later;

  // What there is to see, top down.
  const field = make("input", { type: "text", name: "sentence", value: examples[0].sentence, autocomplete: "off", spellcheck: false });
  const ways = make("p", { className: "examples" }, "Or: ");
  for (const { sentence } of examples) {
    explore.button(ways, sentence, () => {
      field.value = sentence;
      answer();
    });
  }
  const words = make("table", { className: "guesses" });
  const question = make("p");
  const tokens = make("div", { className: "tokens" });
  const change = make("p", { className: "change" });
  const answers = make("div", {}, words, question, tokens, change);
  const heads = make("div", { className: "heads" });
  const legend = make("p", {}, "Attention weights: a row for each layer, in it the heads, and the mean weight on the token before (←) or after (→).");
  const map = make("div", { className: "map", tabIndex: 0, hidden: true, role: "group", ariaLabel: "Attention weights" });
  legend.hidden = heads.hidden = true;
  stage.append(make("label", { className: "sentence" }, "A sentence with a gap, ___ ", field), ways, answers, legend, heads, map);

  let measure = "norm", layer = 0, head = 0;
  if (!small) {
    explore.choice(controls, { name: "measure", label: "Where the answer came from", value: measure, options: {
      norm: "length of the gradient", product: "gradient times input" } },
    (value) => { measure = value; drawAll(); });
  }

  // What is shown: of an example that is stored, or of what the model has just computed.
  let shown = examples[0];

  // A piece that continues a word reads with it: chase·s.
  const joined = (piece) => {
    if (!piece.startsWith("##")) return piece;
    const before = shown.tokens.slice(0, shown.place).join(" ").replaceAll(" ##", "");
    return `${before.split(" ").pop()}·${piece.slice(2)}`;
  };

  const drawWords = () => {
    const focused = words.contains(document.activeElement);
    words.replaceChildren(...shown.words.map(([word, p], n) => {
      const name = make("th", { scope: "row" });
      explore.button(name, joined(word), () => {
        asked = n;
        (model ? compute : wake)();
      }).ariaPressed = n === asked;
      return make("tr", {}, name, make("td", {}, make("span", { className: "bar", style: `width: ${100 * p}%` })),
        show(make("td"), p, `${number(100 * p, 1)} %`));
    }));
    if (focused) words.querySelectorAll("button")[asked].focus();
  };

  const drawTokens = () => {
    const values = measure === "norm" ? shown.norms : shown.products;
    const largest = Math.max(...values.map(Math.abs));
    question.textContent = `Why ${joined(shown.words[asked][0])}? ${measure === "norm"
      ? "How long the gradient of −ln p is at each token’s input to the encoder:"
      : "The gradient of −ln p times each token’s input to the encoder; below 0, green, the token speaks for the word:"}`;
    const focused = [...tokens.children].indexOf(document.activeElement);
    tokens.replaceChildren(...shown.tokens.map((token, n) => {
      const bar = make("span", { className: values[n] < 0 ? "bar for" : "bar", style: `height: ${(3 * Math.abs(values[n])) / largest}rem` });
      const value = show(make("small"), values[n]);
      if (n === 0 || n === shown.tokens.length - 1) return make("span", {}, bar, token, value);
      return make("button", { type: "button", ariaPressed: small ? null : n === out, onclick: () => (small ? hide : leaveOut)(n) },
        bar, make("span", {}, token), value);
    }));
    if (focused >= 0) tokens.children[focused]?.focus();
    drawChange();
  };

  // What the loss of the word becomes without a token: measured, and as the gradient promises it.
  const drawChange = () => {
    if (small) {
      change.textContent = "Press a token to ask for its word instead; this gap is filled with the likeliest word.";
      return;
    }
    const [piece, p] = shown.words[asked], loss = show(explore.output("loss"), -Math.log(p));
    change.replaceChildren(`−ln p(${joined(piece)}) = `, loss);
    if (out === null || shown.without === undefined) return change.append(". Press a token to leave it out.");
    const signed = (name, v) => show(explore.output(name), v, `${v < 0 ? "" : "+"}${number(v)}`);
    change.append(`. Without “${shown.tokens[out]}” it changes by `, signed("measured", shown.without + Math.log(p)),
      "; the gradient promised ", signed("promised", -shown.products[out]), ".");
  };

  const leaveOut = (n) => {
    out = n === out ? null : n;
    (model ? compute : wake)();
  };

  // The sentence with a gap in another place.
  const hide = (n) => {
    const starts = shown.tokens.map((token, k) => (token.startsWith("##") ? -1 : k)).filter((k) => k > 0);
    const places = [...field.value.matchAll(/_{2,}|\[mask\]|[\p{P}\p{S}]|[^\p{P}\p{S}\s]+/giu)];
    const word = places[starts.findLastIndex((k) => k <= n)], gap = places[starts.indexOf(shown.place)];
    if (!word || !gap || word === gap) return;
    const filled = [[gap, shown.words[0][0].replace("##", "")], [word, "___"]].sort(([a], [b]) => b.index - a.index);
    for (const [{ index, 0: old }, text] of filled)
      field.value = field.value.slice(0, index) + text + field.value.slice(index + old.length);
    answer();
  };

  // All heads in small, one of them in large below; under each the weight on the token before or after.
  const drawHeads = () => {
    const focused = [...heads.querySelectorAll("button")].indexOf(document.activeElement);
    heads.replaceChildren(...shown.attention.flatMap(({ shape: [H, T], data }, l) => Array.from({ length: H }, (_, h) => {
      const at = (t, s) => data[(h * T + t) * T + s];
      const neighbour = (by) => {
        const all = Array.from({ length: T - 1 }, (__, t) => (by < 0 ? at(t + 1, t) : at(t, t + 1)));
        return all.reduce((a, b) => a + b) / all.length;
      };
      const [before, after] = [neighbour(-1), neighbour(1)];
      const value = show(make("small"), Math.max(before, after), `${before > after ? "←" : "→"} ${number(Math.max(before, after))}`);
      const choose = make("button", { type: "button", ariaPressed: l === layer && h === head,
        ariaLabel: `Layer ${l}, head ${h}: ${value.textContent}`, onclick: () => {
          [layer, head] = [l, h];
          drawHeads();
          drawMap();
          say(`Layer ${l}, head ${h}: on average ${number(before)} on the token before, ${number(after)} on the token after.`);
        } });
      const small = explore.canvas(choose, T, T, "");
      small.ariaHidden = true;
      for (const level of [0.05, 0.2, 0.5]) {
        let d = "";
        for (let t = 0; t < T; t += 1)
          for (let s = 0; s < T; s += 1) if (at(t, s) > level) d += `M${s} ${t}h1v1h-1z`;
        draw(small, "path", { d });
      }
      small.style.maxWidth = "";
      choose.append(value);
      return choose;
    })));
    if (focused >= 0) heads.querySelectorAll("button")[focused].focus();
  };

  const drawMap = () => {
    const weights = shown.attention[layer], [, T] = weights.shape, at = head * T * T;
    const cell = T > 20 ? 16 : 22, left = 8 * Math.max(...shown.tokens.map((token) => token.length)) + 6;
    const side = left + T * cell;
    map.replaceChildren();
    const drawing = explore.canvas(map, side, side, `Attention weights of layer ${layer}, head ${head}`);
    drawing.style.minWidth = `${side * 0.85}px`;
    shown.tokens.forEach((token, t) => {
      const middle = left + (t + 0.5) * cell, className = t === shown.place ? "gap" : "";
      draw(drawing, "text", { x: left - 4, y: middle + 4, "text-anchor": "end", class: className }, token);
      draw(drawing, "text", { transform: `translate(${middle + 4} ${left - 4}) rotate(-90)`, class: className }, token);
      for (let s = 0; s < T; s += 1) {
        const weight = weights.data[at + t * T + s];
        if (weight > 0.005)
          draw(drawing, "rect", { x: left + s * cell, y: left + t * cell, width: cell, height: cell,
            "fill-opacity": weight.toFixed(3), "data-value": weight });
      }
    });
    draw(drawing, "rect", { x: left, y: left, width: T * cell, height: T * cell, class: "frame" });
    draw(drawing, "rect", { x: left, y: left + shown.place * cell, width: T * cell, height: cell, class: "frame gap" });
  };

  const drawAll = () => {
    answers.style.visibility = "";
    drawWords();
    map.hidden = heads.hidden = legend.hidden = small || !shown.attention;
    if (!map.hidden) {
      drawHeads();
      drawMap();
    }
    if (!shown.norms) return; // they come later
    drawTokens();
    const [piece, p] = shown.words[asked], word = joined(piece);
    const most = shown.norms.indexOf(Math.max(...shown.norms));
    say(`${word}: ${number(100 * p, 1)} %. The gradient is longest at ${shown.tokens[most]}.${
      shown.gaps > 1 ? ` Of the ${shown.gaps} gaps only the first is filled.` : ""}`);
  };

  const nothing = (why) => {
    answers.style.visibility = "hidden"; // keeps its place, so that the page below does not jump
    map.hidden = heads.hidden = legend.hidden = true;
    say(why);
  };

  const compute = () => {
    clearTimeout(later);
    const mask = pieces.idOf("[MASK]");
    const inner = pieces.ids(field.value.replace(/_{2,}|\[mask\]/gi, "[MASK]"));
    const ids = [pieces.idOf("[CLS]"), ...inner, pieces.idOf("[SEP]")], place = ids.indexOf(mask);
    if (place < 0) return nothing("Leave a gap: underscores, or [MASK].");
    if (ids.length > longest) return nothing(`The model reads ${longest - 2} tokens, and these are ${inner.length}.`);
    const forward = model.forward(ids, place), best = models.best(forward[0], 5);
    shown = {
      place,
      gaps: ids.filter((id) => id === mask).length,
      words: best.map(({ id, p }) => [pieces.piece(id), p]),
      tokens: ids.map(pieces.piece),
      attention: forward[1].attention,
    };
    const explain = () => {
      const gradients = models.influence(model, forward, best[asked].id);
      shown.norms = gradients.map(({ norm }) => norm);
      shown.products = gradients.map(({ product }) => product);
      if (out !== null) [shown.without] = core.crossEntropy(model.forward(ids, place, out)[0], core.ids([best[asked].id]));
      drawAll();
    };
    if (ids.length <= 32) return explain();
    drawAll(); // first the words, so that a long sentence can be typed
    later = setTimeout(explain);
  };

  const answer = () => {
    asked = 0;
    out = null;
    if (model) return compute();
    const stored = examples.find(({ sentence }) => sentence === field.value);
    if (!stored) return wake();
    shown = stored;
    drawAll();
  };

  const wake = models.loader(figure, "mini_bert", megabytes, say, (file) => {
    model = models.bert(file);
    pieces = models.wordPiece(file.settings.pieces);
    longest = file.settings.length;
    compute();
  });
  field.addEventListener("input", answer);
  drawAll();
});
