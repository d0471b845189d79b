// Mini-BERT in the page: a sentence with a gap, the likeliest words, which tokens they came from, and
// where every head looks. Until the reader asks for the model, stored answers are shown.
"use strict";

explore("mini_bert", ({ figure, stage, controls, say }) => {
  const { make, draw, number, show } = explore;
  const { examples, megabytes } = JSON.parse(figure.querySelector("script").textContent);
  const small = figure.classList.contains("front");
  let asked = 0; // which of the five words
  let model, pieces, longest, later;

  // What there is to see, top down.
  const field = make("input", { type: "text", name: "sentence", value: examples[0].sentence, autocomplete: "off" });
  field.spellcheck = false;
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
  const answers = make("div", {}, words, question, tokens);
  const map = make("div", { className: "map", tabIndex: 0, hidden: true });
  map.setAttribute("role", "group");
  map.setAttribute("aria-label", "Attention weights");
  stage.append(make("label", { className: "sentence" }, "A sentence with a gap, ___ ", field), ways, answers, map);

  let measure = "norm", layer = "0", head = "0";
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
      const ask = make("button", { type: "button", textContent: joined(word) });
      ask.setAttribute("aria-pressed", n === asked);
      ask.addEventListener("click", () => {
        asked = n;
        if (model) compute();
        else wake();
      });
      const share = make("td");
      show(share, p, `${number(100 * p, 1)} %`);
      const bar = make("span", { className: "bar" });
      bar.style.width = `${100 * p}%`;
      const name = make("th", { scope: "row" }, ask);
      return make("tr", {}, name, make("td", {}, bar), share);
    }));
    if (focused) words.querySelectorAll("button")[asked].focus();
  };

  const drawTokens = () => {
    const values = measure === "norm" ? shown.norms : shown.products;
    const largest = Math.max(...values.map(Math.abs));
    question.textContent = `Why ${joined(shown.words[asked][0])}? ${measure === "norm"
      ? "How long the gradient of −ln p is at each token’s input to the encoder:"
      : "The gradient of −ln p times each token’s input to the encoder; below 0, green, the token speaks for the word:"}`;
    tokens.replaceChildren(...shown.tokens.map((token, n) => {
      const bar = make("span", { className: values[n] < 0 ? "bar for" : "bar" });
      bar.style.height = `${(3 * Math.abs(values[n])) / largest}rem`;
      const value = make("small");
      show(value, values[n]);
      return make("span", {}, bar, token, value);
    }));
  };

  const drawMap = () => {
    const weights = shown.attention[layer], [, T] = weights.shape, at = Number(head) * T * T;
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
    map.hidden = small || !shown.attention;
    if (!map.hidden) drawMap();
    if (!shown.norms) return; // they come later
    drawTokens();
    const [piece, p] = shown.words[asked], word = joined(piece);
    const most = shown.norms.indexOf(Math.max(...shown.norms));
    say(`${word}: ${number(100 * p, 1)} %. The gradient is longest at ${shown.tokens[most]}.${
      shown.gaps > 1 ? ` Of the ${shown.gaps} gaps only the first is filled.` : ""}`);
  };

  const nothing = (why) => {
    answers.style.visibility = "hidden"; // keeps its place, so that the page below does not jump
    map.hidden = true;
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
      drawAll();
    };
    if (ids.length <= 32) return explain();
    drawAll(); // first the words, so that a long sentence can be typed
    later = setTimeout(explain);
  };

  const answer = () => {
    asked = 0;
    if (model) return compute();
    const stored = examples.find(({ sentence }) => sentence === field.value);
    if (!stored) return wake();
    shown = stored;
    drawAll();
  };

  const wake = async () => {
    ask.disabled = true;
    ask.textContent = "Loading …";
    try {
      const file = await models.load("mini_bert");
      if (model) return;
      model = models.bert(file);
      pieces = models.wordPiece(file.settings.pieces);
      longest = file.settings.length;
      if (!small) chooseHead(file.settings);
      ask.remove();
      figure.classList.add("loaded");
      compute();
    } catch (error) {
      ask.disabled = false;
      ask.textContent = "Try again";
      say(error.message);
    }
  };

  const chooseHead = ({ layers, spec }) => {
    const upTo = (n) => Object.fromEntries(Array.from({ length: n }, (_, k) => [k, String(k)]));
    explore.choice(controls, { name: "layer", label: "Attention of layer", options: upTo(layers), value: layer },
      (value) => { layer = value; drawMap(); });
    explore.choice(controls, { name: "head", label: "Head", options: upTo(spec.attention.heads), value: head },
      (value) => { head = value; drawMap(); });
  };

  const ask = explore.button(controls, `Load the model (${number(megabytes, 1)} MB)`, wake);
  field.addEventListener("input", answer);
  drawAll();
});
