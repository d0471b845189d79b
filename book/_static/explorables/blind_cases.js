// Twelve trainings with a hidden mistake each: questions cost points, and so does a wrong name.
"use strict";
{
  const STORE = "transformers-by-hand-cases", BUDGET = 10, WRONG_NAME = 3;
  let resumed = false; // what is stored, once; a reset begins anew

  explore("blind_cases", ({ figure, stage, controls, say }) => {
    const { make, draw, number, button, choice } = explore;
    const { cases, prices, suspects } = JSON.parse(figure.querySelector("script").textContent);
    const fresh = cases.map(() => ({ asked: [], named: [] }));
    const played = resumed ? fresh : storage.read(STORE, fresh);
    const store = () => storage.write(STORE, played);
    if (resumed) store();
    resumed = true;
    let current = 0;

    const price = (question) => prices[question.split(" ")[0]];
    const isRight = (n, name) => name === cases[n].name;
    const left = (n) => BUDGET - played[n].asked.reduce((sum, question) => sum + price(question), 0)
      - WRONG_NAME * played[n].named.filter((name) => !isRight(n, name)).length;
    const solved = (n) => played[n].named.some((name) => isRight(n, name));
    const closed = (n) => solved(n) || (played[n].named.length > 0 && left(n) < 0);

    const rows = {};
    for (const part of ["cases", "plot", "purse", "questions", "names", "answers"])
      stage.append((rows[part] = make("div", { className: part })));
    Object.assign(rows.cases, { role: "group", ariaLabel: "Cases" });
    const chosen = cases.map((_, n) => button(rows.cases, String(n + 1), () => open(n)));

    const WIDTH = stage.clientWidth < 500 ? 340 : 640, HEIGHT = 220, LEFT = 44, RIGHT = WIDTH - 10, BOTTOM = 188;
    const plot = ({ losses, right }) => {
      rows.plot.replaceChildren();
      const [low, high] = [Math.min, Math.max].map((end) => Math.log10(end(...losses, ...right)));
      const end = (curve) => number(curve.slice(-2).reduce((a, b) => a + b) / 2, 3);
      const drawing = explore.canvas(rows.plot, WIDTH, HEIGHT,
        `Loss of case ${current + 1} against the step: it ends at ${end(losses)}, the right run at ${end(right)}.`);
      const X = (k) => LEFT + ((RIGHT - LEFT) * (k + 0.5)) / losses.length;
      const Y = (loss) => BOTTOM - ((BOTTOM - 14) * (Math.log10(loss) - low)) / (high - low);
      for (const loss of [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5].filter((v) => v > 10 ** low && v < 10 ** high))
        explore.level(drawing, LEFT, RIGHT, Y(loss), loss);
      for (const [curve, hue, wide] of [[right, "soft", 4], [losses, "blue", 2]])
        draw(drawing, "path", { fill: "none", stroke: `var(--${hue})`, "stroke-width": wide, "stroke-linejoin": "round",
          d: curve.map((loss, k) => `${k ? "L" : "M"}${X(k).toFixed(1)} ${Y(loss).toFixed(1)}`).join("") });
      draw(drawing, "text", { x: RIGHT, y: BOTTOM + 22, "text-anchor": "end", class: "soft" }, "step 300");
      draw(drawing, "text", { x: LEFT, y: BOTTOM + 22, class: "soft" }, `loss: ${end(losses)} at the end; grey, the right run: ${end(right)}`);
    };

    const ask = (question) => {
      played[current].asked.push(question);
      store();
      open(current, `${question}: ${price(question)} of your points, ${left(current)} left.`);
    };
    const name = (mistake) => {
      played[current].named.push(mistake);
      store();
      open(current, isRight(current, mistake) ? `Right, with ${left(current)} points left.`
        : closed(current) ? "Wrong, and no points are left for it: the case is closed." : `Wrong: ${left(current)} points left.`);
    };
    const paper = (title, text) => rows.answers.append(
      make("p", {}, make("strong", {}, title)), make("pre", { tabIndex: 0, textContent: text }));

    const open = (n, words = "") => {
      current = n;
      const { answers, key, lines } = cases[n], { asked, named } = played[n];
      chosen.forEach((one, k) => {
        const [className, end] = solved(k) ? ["solved", ", named"] : closed(k) ? ["lost", ", not solved"] : ["", ""];
        Object.assign(one, { ariaPressed: k === n, className, ariaLabel: `Case ${k + 1}${end}` });
      });
      plot(cases[n]);
      const count = cases.filter((_, k) => solved(k)).length;
      const points = cases.reduce((sum, _, k) => sum + (solved(k) ? left(k) : 0), 0);
      const best = cases.reduce((sum, each, k) => sum + (solved(k) ? BUDGET - price(each.key) : 0), 0);
      rows.purse.textContent = `Case ${n + 1}: ${Math.max(left(n), 0)} of ${BUDGET} points. Named ${count} of ${cases.length}`
        + (count ? `, with ${points} points left; the shortest way would have left ${best}.` : ".");
      for (const row of ["questions", "names", "answers"]) rows[row].replaceChildren();
      if (!closed(n)) {
        const open = (question) => !asked.includes(question) && price(question) <= left(n);
        for (const question of Object.keys(prices).filter((each) => each !== "op"))
          button(rows.questions, `${question} ${price(question)}`, () => ask(question)).disabled = !open(question);
        const ops = Object.keys(answers).filter((question) => question.startsWith("op "));
        const op = choice(rows.questions, { name: "op", label: "op", value: ops[0],
          options: Object.fromEntries(ops.map((each) => [each, each.slice(3)])) }, () => { one.disabled = !open(op.value); });
        const one = button(rows.questions, `ask ${prices.op}`, () => ask(op.value));
        one.disabled = !open(op.value);
        const list = choice(rows.names, { name: "mistake", label: "The mistake is that", options: { "": "…" }, value: "" },
          () => { naming.disabled = !list.value; });
        for (const [file, mistakes] of Object.entries(suspects)) {
          const group = make("optgroup", { label: file });
          for (const [each, text] of Object.entries(mistakes))
            group.append(make("option", { value: each, textContent: text, disabled: named.includes(each) }));
          list.append(group);
        }
        const naming = button(rows.names, `Name it (−${WRONG_NAME} if wrong)`, () => name(list.value));
        naming.disabled = true;
      } else {
        paper(`${cases[n].name}, which is ${Object.values(suspects).map((each) => each[cases[n].name]).find(Boolean)}.`, lines.join("\n").trim());
        paper(`This would have been enough: ${key} (${price(key)})`, answers[key]);
      }
      for (const question of asked.toReversed()) paper(`${question} (${price(question)})`, answers[question]);
      say(words || `Case ${n + 1}: ${closed(n) ? "closed" : asked.length ? `${asked.length} asked` : "nothing asked yet"}.`);
    };
    open(0);
  });
}
