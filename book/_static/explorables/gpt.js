// A GPT in the page, which the package runs: it writes, says why it wrote a token, and learns a sentence.
// Until it is asked for, a stored text is shown.
"use strict";

explore("gpt", ({ figure, stage, controls, say }) => {
  const { make, number, show } = explore;
  const { examples: [example], megabytes } = JSON.parse(figure.querySelector("script").textContent);
  const MOST = 3; // tokens of an order that are compared
  const PACE = 60; // milliseconds a token: a text that is there at once is not seen to be written
  let { tokens, asked, why } = example;
  let writing = false, seed = 0, longest, bar;

  // Python, which is given the weights when it does not have them.
  const ask = async (name, ...given) => {
    if (!bar) stage.querySelector(".waiting").append(bar = live.waiting());
    try {
      if (!(await live.call(0, "writer.is_open"))) {
        const { settings, parameters } = await models.load("gpt");
        const weights = Object.entries(parameters).map(([key, { data }]) => [key, data]);
        const said = await live.call(0, "writer.open_model", JSON.stringify(settings), Object.fromEntries(weights));
        ({ longest } = said);
        figure.classList.add("loaded");
      }
      return await live.call(0, `writer.${name}`, ...given);
    } catch (error) {
      bar.hidden = true;
      throw error;
    }
  };
  const idsUpTo = (n) => JSON.stringify(tokens.slice(0, n + 1).map(({ id }) => id));

  // What there is to see, top down.
  const field = make("input", { type: "text", name: "prompt", value: "Return the", autocomplete: "off", spellcheck: false });
  const drawing = make("div", { className: "controls" });
  const written = make("div", { className: "written", role: "group", ariaLabel: "The tokens of the text" });
  const place = make("p", { className: "place" });
  const guesses = make("table", { className: "guesses" });
  const lesson = make("div", { className: "controls" }), told = make("p", { className: "told", role: "status" });
  const sentence = make("input", { type: "text", name: "sentence", autocomplete: "off",
    value: "Cats chase mice through the open window." });
  const taught = make("div", { className: "taught", role: "group", tabIndex: 0,
    ariaLabel: "Probabilities of your sentence’s tokens, before and after the step" });
  stage.append(
    make("label", { className: "sentence" }, "A beginning ", field), drawing, make("div", { className: "waiting" }),
    written);
  figure.append(place, make("div", { className: "rivals" }, guesses),
    make("label", { className: "sentence" }, "A sentence to learn ", sentence), lesson, taught, told);
  controls.remove(); // they stand where they belong

  const visible = ({ text }, n) => text.replaceAll(" ", "·").replaceAll("\n", "↵") || (n === 0 ? "start" : "end");
  const percent = (p) => (p === 0 ? "0" : p < 0.0001 ? "< 0.01 %" : `${number(100 * p, p < 0.01 ? 2 : p < 0.0995 ? 1 : 0)} %`);
  const named = (n) => `“${visible(tokens[n], n)}”`;

  // The tokens, each a button that asks about it; above those before the one that is asked about stand the answers.
  const chip = (token, n) => {
    const share = make("small"), known = token.p !== undefined;
    if (known) show(share, token.p, percent(token.p));
    return make("button", { type: "button", className: "token", disabled: !n, style: known ? `--p: ${token.p.toFixed(3)}` : "",
      onclick: () => explain(n) }, make("span", { className: "bars" }), make("span", {}, visible(token, n)), share);
  };
  const drawWhy = () => {
    const largest = why && ["lengths", "changes"].map((name) => Math.max(...why[name].map(Math.abs)));
    written.querySelectorAll(".token").forEach((button, n) => {
      button.setAttribute("aria-pressed", n === asked);
      button.classList.toggle("differ", Boolean(why?.differ.includes(n)));
      const bars = button.querySelector(".bars");
      bars.replaceChildren();
      button.removeAttribute("title");
      if (!why || n >= asked) return;
      ["lengths", "changes"].forEach((name, k) => {
        const value = why[name][n], className = k ? `bar without${value > 0 ? " against" : ""}` : "bar";
        bars.append(show(make("span", { className, style: `height: ${100 * Math.abs(value) / largest[k]}%` }), value, ""));
      });
      button.title = `length of the gradient ${number(why.lengths[n])}; without it, ln p changes by ${number(why.changes[n])}`;
    });
  };
  const drawRivals = () => {
    guesses.replaceChildren();
    const token = tokens[asked];
    place.textContent = token?.rivals
      ? `The likeliest tokens in the place of ${named(asked)}${token.kept ? `; it was drawn from ${token.kept}` : ""}:`
      : "";
    if (!token?.rivals) return;
    const drawn = token.q !== undefined;
    guesses.append(make("tr", {}, ...["token", "", "model’s p", ...drawn ? ["drawn from"] : []].map((text) =>
      make("th", { scope: "col" }, text))));
    const rows = token.place === null ? [...token.rivals, token] : token.rivals;
    rows.forEach((rival, n) => {
      const own = n === (token.place ?? token.rivals.length);
      const name = make("th", { scope: "row" }, own ? make("mark", {}, visible(rival)) : visible(rival));
      const bar = make("span", { className: "bar", style: `width: ${100 * rival.p}%` });
      const cells = ["p", ...drawn ? ["q"] : []].map((key) => show(make("td"), rival[key], percent(rival[key])));
      guesses.append(make("tr", {}, name, make("td", { className: "line" }, bar), ...cells));
    });
  };
  const drawAll = () => {
    written.replaceChildren(...tokens.map(chip));
    drawWhy();
    drawRivals();
  };

  // Why a token: what is stored of the example, or what Python says.
  const sayWhy = () => {
    const [longestAt, changedAt] = why.most, differ = why.differ.map(named).join(", ");
    const change = `changes its ln p most, by ${number(why.changes[changedAt])}`;
    say(`Why ${named(asked)}, p = ${percent(Math.exp(why.log_p))}? ${longestAt === changedAt
      ? `Both questions have the same answer first: the gradient is longest at ${named(longestAt)}, and leaving it out ${change}.`
      : `The two disagree: the gradient is longest at ${named(longestAt)}, but leaving out ${named(changedAt)} ${change}.`}${
      differ ? ` Among the first ${MOST} by one and not by the other: ${differ}.` : ""}`);
  };
  const explain = async (n) => {
    asked = n;
    why = null;
    drawWhy();
    drawRivals();
    if (n < 2) return say(`Before ${named(n)} stands only the start of the text: there is nothing to compare.`);
    say(`Why ${named(n)}? …`);
    const about = tokens;
    try {
      const found = await ask("why", idsUpTo(n));
      if (tokens !== about || asked !== n) return;
      why = found;
      drawWhy();
      sayWhy();
    } catch (error) {
      say(error.message);
    }
  };

  // Writing.
  const pause = () => new Promise((done) => { setTimeout(done, explore.still() ? 0 : PACE); });
  const warmth = explore.slider(drawing, { name: "temperature", label: "Temperature", min: 0, max: 2, step: 0.05, value: 0.8 }, () => {});
  const mass = explore.slider(drawing, { name: "top_p", label: "Top-p", min: 0.05, max: 1, step: 0.05, value: 0.9 }, () => {});
  const write = async () => {
    if (writing) {
      writing = false;
      return;
    }
    writing = true;
    writer.textContent = "Stop";
    try {
      tokens = await ask("begin", field.value);
      asked = why = null;
      drawAll();
      seed += 1;
      const sampling = JSON.stringify({ temperature: warmth.value, top_p: mass.value });
      while (writing && tokens.length <= longest) {
        const token = await ask("write", idsUpTo(tokens.length), sampling, seed);
        tokens.push(token);
        written.append(chip(token, tokens.length - 1));
        written.scrollTop = written.scrollHeight;
        if (token.ends) break;
        await pause();
      }
      if (asked === null)
        say(`${tokens.length - 1} tokens, with the beginning. Press any of them to ask why.`);
    } catch (error) {
      say(error.message);
    }
    writing = false;
    writer.textContent = "Write";
  };
  const writer = explore.button(drawing, "Write", write);
  field.addEventListener("keydown", ({ key }) => { if (key === "Enter" && !writing) write(); });

  // Learning.
  const rate = explore.choice(lesson, { name: "rate", label: "Learning rate", value: "0.001", options: {
    0.0003: "0.0003", 0.001: "0.001", 0.003: "0.003, the recipe’s" } }, () => {});
  const tell = (found) => {
    const { tokens: own, p: [before, after] } = found, largest = -Math.log(Math.min(...before, ...after));
    taught.replaceChildren(...own.map((text, n) => {
      const bars = [before, after].map((p, k) =>
        make("span", { className: k ? "bar" : "bar before", style: `height: ${(-100 * Math.log(p[n])) / largest}%` }));
      const numbers = [before, after].map((p) => show(make("small"), p[n], percent(p[n])));
      return make("span", { className: "token" }, make("span", { className: "bars" }, ...bars), make("span", {}, visible({ text })), ...numbers);
    }));
    const [was, is, other, now] = [...found.loss, ...found.elsewhere].map((value) => number(value));
    told.textContent = `Step ${found.steps}: the loss of your sentence was ${was} and is ${is}. That of “${
      found.control}”, on which no step is taken, was ${other} and is ${now}.`;
  };
  const busy = (action) => async ({ currentTarget: button }) => {
    button.disabled = true;
    try {
      await action();
      asked = why = null;
      drawWhy();
      drawRivals();
      say("The text was written by other weights than the model has now: write again.");
    } catch (error) {
      told.textContent = error.message;
    }
    button.disabled = false;
  };
  explore.button(lesson, "One step of training", busy(async () =>
    tell(await ask("learn", sentence.value, Number(rate.value)))));
  explore.button(lesson, "Original weights", busy(async () => {
    await ask("restore");
    taught.replaceChildren();
    told.textContent = "The weights are those that were loaded.";
  }));

  tell(example.lesson);
  drawAll();
  say(`A text of the model, stored. The first press loads Python and the weights, ${Math.round(13 + megabytes)} MB.`);
});
