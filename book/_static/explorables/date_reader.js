// The reader of dates in the page: it writes a date character by character, and each row of the map
// shows what its cross-attention looks at meanwhile. Until the reader asks for the model, stored
// answers are shown.
"use strict";

explore("date_reader", ({ figure, stage, controls, say }) => {
  const { make, number } = explore;
  const { examples, megabytes } = JSON.parse(figure.querySelector("script").textContent);
  const [first] = examples;
  const mean = "mean";
  let model, timer, which = mean, refusal = "";
  let text = first.text, steps = Array.from(first.answer, (character, n) => ({ character, mean: first.weights[n] }));
  let written = steps.length; // how many of them are shown

  const field = make("input", { type: "text", name: "date", value: text, autocomplete: "off", dir: "auto", spellcheck: false });
  const answer = make("output");
  const map = make("div", { className: "map", tabIndex: 0, role: "group", ariaLabel: "What each written character looks at" });
  stage.append(make("label", { className: "sentence" }, "A date ", field), make("p", { className: "sentence" }, "→ ", answer), map);

  // The characters of the text are as blue as a written one looks at them.
  const weightsOf = (step) => (which === mean ? step.mean : step.weights[which[0]][which[1]]);
  const light = (step) => map.querySelectorAll("tr:first-child th").forEach((head, s) =>
    head.style.setProperty("--weight", weightsOf(step)[s]));

  const drawAll = () => {
    const shown = steps.slice(0, written);
    answer.textContent = shown.map(({ character }) => character).join("");
    map.dir = /\p{Script=Arabic}|\p{Script=Hebrew}/u.test(text) ? "rtl" : "ltr";
    const head = make("tr", {}, make("td"), ...Array.from(text, (c) => make("th", {}, c)));
    const rows = steps.map((step, n) => make("tr", { onpointerenter: () => n < written && light(step) }, make("th", {}, n < written ? step.character || "end" : " "),
      ...Array.from(text, (_, s) => {
        if (n >= written) return make("td");
        const weight = weightsOf(step)[s];
        return explore.show(make("td", { style: `--weight: ${weight}` }), weight, "");
      })));
    map.replaceChildren(make("table", {}, head, ...rows));
    forward.disabled = written === steps.length;
    back.disabled = written === 0;
    write.disabled = refusal !== "";
    if (refusal) return say(refusal);
    const last = shown[shown.length - 1];
    if (!last) return say("");
    light(last);
    const most = last.mean.indexOf(Math.max(...last.mean)), looks = Array.from(text)[most];
    const sure = last.next ? `, with probability ${number(last.probability, 3)} (then ${last.next.character}, ${number(last.next.probability, 3)})` : "";
    say(`Writes ${last.character || "the end"}${sure}; looks most at “${looks}”, place ${most + 1}.${
      written === steps.length ? models.doubt(text, answer.textContent) : ""}`);
  };

  const go = (place) => {
    clearTimeout(timer);
    written = Math.min(Math.max(place, 0), steps.length);
    drawAll();
  };

  const play = () => {
    go(explore.still() ? steps.length : written + 1);
    if (written < steps.length) timer = setTimeout(play, 350);
  };

  // Read what stands in the field, and begin to write.
  const read = () => {
    clearTimeout(timer);
    const normal = model.normalise(field.value);
    refusal = normal ? model.refusal(normal) : "Type a date.";
    text = refusal ? "" : normal;
    steps = refusal ? [] : model.write(normal).map((step) => {
      const heads = step.weights.flat();
      return { ...step, mean: heads[0].map((_, s) => heads.reduce((sum, w) => sum + w[s], 0) / heads.length) };
    });
    written = 0;
    if (refusal) drawAll();
    else play();
  };

  const chooseHead = ({ layers, spec }) => {
    const options = { [mean]: "mean of all" };
    for (let layer = 0; layer < layers; layer += 1)
      for (let head = 0; head < spec.attention.heads; head += 1)
        options[`${layer} ${head}`] = `layer ${layer}, head ${head}`;
    explore.choice(controls, { name: "heads", label: "Cross-attention", options, value: mean }, (value) => {
      which = value === mean ? mean : value.split(" ");
      drawAll();
    });
  };

  const language = explore.choice(controls, { name: "language", label: "One day in", value: first.language,
    options: Object.fromEntries(examples.map(({ language }) => [language, language])) }, (value) => {
    field.value = examples.find(({ language }) => language === value).text;
    (model ? read : wake)();
  });
  language.append(make("option", { value: "", hidden: true }, "as typed"));
  const back = explore.button(controls, "Back", () => go(written - 1));
  const forward = explore.button(controls, "Step", () => go(written + 1));
  const write = explore.button(controls, "Write", () => { written = 0; play(); });
  const wake = models.loader(figure, "date_reader", megabytes, say, (file) => {
    model = models.dateReader(file);
    chooseHead(file.settings);
    read();
  });
  field.addEventListener("input", () => {
    language.value = examples.find((example) => example.text === field.value)?.language ?? "";
    (model ? read : wake)();
  });
  drawAll();
});
