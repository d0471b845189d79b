// Tasks for a pencil: the fields of the directive {drill}. Every number is a fraction of BigInts.
(() => {
  const abs = (n) => (n < 0n ? -n : n);
  const gcd = (a, b) => (b ? gcd(b, a % b) : abs(a));

  const fraction = (word) => {
    const parts = /^(-?)(?:([0-9]+)(?:\/([0-9]+))?|([0-9]*)\.([0-9]+))$/.exec(word);
    if (!parts) return null;
    const [, sign, whole, below, before, after] = parts;
    const above = BigInt(whole ?? before + after);
    const over = whole ? BigInt(below ?? 1) : 10n ** BigInt(after.length);
    return over ? { above: sign ? -above : above, over } : null;
  };

  // "1, 2; 3, 4" as rows of fractions; null stands for what is none.
  const parse = (text) =>
    text
      .replaceAll("−", "-")
      .replace(/[()[\]]/g, " ")
      .replace(/\s*\/\s*/g, "/")
      .split(";")
      .map((row) => row.trim().split(/\s*,\s*|\s+/).map(fraction));

  const equal = (a, b) => a.above * b.over === b.above * a.over;
  const allEqual = (a, b) => a.every((number, n) => equal(number, b[n]));

  const isRounded = (a, b, unit) =>
    (a.above * unit) % a.over === 0n &&
    abs(a.above * b.over - b.above * a.over) * unit < a.over * b.over;

  // In what a wrong answer differs from the right one: as drill.py says it.
  const difference = (found, right) => {
    const pairs = found.flat().map((number, n) => [number, right.flat()[n]]);
    if ([10n, 100n, 1000n, 10000n].some((u) => pairs.every(([a, b]) => isRounded(a, b, u))))
      return "This is rounded; the answer is a fraction.";
    const ratios = pairs
      .filter(([a, b]) => a.above || b.above)
      .map(([a, b]) => ({ above: a.above * b.over, over: a.over * b.above }));
    const [ratio] = ratios;
    if (ratio?.above && ratios.every((r) => r.over && equal(r, ratio))) {
      const part = gcd(ratio.above, ratio.over) * (ratio.over < 0n ? -1n : 1n);
      const above = ratio.above / part, over = ratio.over / part;
      if (above === -1n && over === 1n) return "The sign is reversed.";
      if (pairs.length > 1)
        return `This is ${over === 1n ? above : `${above}/${over}`} times the right answer.`;
    }
    if (pairs.length === 1) return "This is not the right number.";
    const place = pairs.findIndex(([a, b]) => !equal(a, b));
    const width = right[0].length;
    const entry = `${(place % width) + 1} of ${width}`;
    return right.length === 1
      ? `Entry ${entry} is wrong.`
      : `Row ${Math.floor(place / width) + 1} of ${right.length} is wrong, in entry ${entry}.`;
  };

  // What is wrong with a text, "" if it is right.
  const verdict = (text, answer, { form, mistakes, rule }, slips) => {
    const found = parse(text), right = parse(answer);
    const sameShape =
      found.length === right.length && found.every((row) => row.length === right[0].length);
    if (!sameShape || found.flat().includes(null)) return `Expected ${form}.`;
    if (allEqual(found.flat(), right.flat())) return "";
    const slip = slips.findIndex((wrong) => allEqual(found.flat(), parse(wrong).flat()));
    return `${slip < 0 ? difference(found, right) : mistakes[slip]} ${rule}`;
  };

  const value = (before, text) => {
    const signed = text.replaceAll("-", "−");
    const cells = (row) => row.split(", ").map((entry) => make("td", {}, entry));
    const rows = () => signed.split("; ").map((row) => make("tr", {}, ...cells(row)));
    const shown = signed.includes(";")
      ? make("table", {}, make("tbody", {}, ...rows()))
      : signed.includes(",") ? `(${signed})` : signed;
    const whole = make("span", { className: "value", innerHTML: before });
    whole.append(shown);
    return whole;
  };

  const start = (place) => {
    const data = JSON.parse(place.querySelector("script").textContent);
    // The words are those of the worked task, whose formulas are set.
    const steps = [...place.querySelectorAll("li")].map((step, n) => ({
      prompt: step.firstChild.innerHTML, rule: step.lastChild.innerHTML,
      form: data.forms[n], mistakes: data.mistakes[n],
    }));
    const store = `transformers-by-hand-${place.id}`;
    let fields;
    const state = storage.read(store, { level: "complete", number: 0, answers: {} });
    const keep = (change) => storage.write(store, Object.assign(state, change));

    const question = place.querySelector("p").cloneNode(true);
    const given = make("div", { className: "given" });
    const list = make("ol");
    const said = () => make("p", { className: "said", role: "status" });
    const say = (line, text, mood) => {
      form.querySelectorAll(".said").forEach((other) => { other.textContent = ""; });
      line.innerHTML = text;
      line.dataset.mood = mood;
    };
    const inAll = said();

    const choice = (name, label) => make("label", {}, make("input", {
      type: "radio", name: `${place.id}-level`, value: name, checked: name === state.level,
      onchange: () => { keep({ level: name }); another(); },
    }), ` ${label}`);
    const button = (label, onclick) => make("button", { type: "button", textContent: label, onclick });
    const check = make("button", { type: "submit", textContent: "Check" }), hint = button("Hint", () => {
      const { line, input, n } = fields.find(({ input, n }) => fault(input, n)) ?? fields.at(-1);
      say(line, `Step ${n + 1}: ${steps[n].rule}`, "");
      input.focus();
    });
    const form = make(
      "form",
      { noValidate: true },
      make("fieldset", {}, make("legend", {}, `Your turn: ${data.title}`),
        choice("complete", "to complete"), choice("free", "free")),
      question, given, list, inAll,
      make("p", { className: "buttons" }, check, hint,
        button("Another one", () => { another(); fields[0].input.focus(); }),
        button("Show the worked one", () => show(true))),
    );

    const show = (worked) => {
      const task = data.tasks[state.number];
      given.replaceChildren(
        ...task.given.map((text, n) => value(data.symbols[n], text)));
      fields = [];
      list.replaceChildren(...steps.map((step, n) => {
        if (worked || (state.level === "complete" && !data.complete.includes(n)))
          return make("li", {}, make("p", { innerHTML: step.prompt }), value("", task.answers[n]),
            make("p", { className: "rule", innerHTML: step.rule }));
        const id = `${place.id}-${n}`;
        const input = make("input", {
          id, type: "text", autocomplete: "off", spellcheck: false, value: state.answers[n] ?? "",
          oninput: () => keep({ answers: { ...state.answers, [n]: input.value } }),
        });
        input.setAttribute("aria-describedby", `${id}-form`);
        const line = said();
        fields.push({ input, line, n });
        return make("li", {}, make("label", { htmlFor: id, innerHTML: step.prompt }), input,
          make("small", { id: `${id}-form` }, step.form), line);
      }));
      check.disabled = hint.disabled = worked;
      say(inAll, worked ? "Every step is shown." : "", "");
    };

    const another = () => {
      keep({ number: (state.number + 1) % data.tasks.length, answers: {} });
      show(false);
    };

    const fault = ({ value }, n) => {
      const task = data.tasks[state.number];
      return value.trim() ? verdict(value.trim(), task.answers[n], steps[n], task.slips[n]) : "Next.";
    };

    form.addEventListener("submit", (event) => {
      event.preventDefault();
      let stop = null;
      for (const field of fields) {
        const { input, n } = field;
        const text = input.value.trim();
        const found = stop ? "later" : fault(input, n);
        const mood = found === "" ? "right" : text && !stop ? "wrong" : "";
        input.dataset.mood = mood;
        input.setAttribute("aria-invalid", mood === "wrong");
        if (found && !stop) stop = { ...field, text: mood ? `Step ${n + 1}: ${found}` : "Go on here.", mood };
      }
      if (stop) {
        say(stop.line, stop.text, stop.mood);
        stop.input.focus();
      } else say(inAll, "Every step is right.", "right");
    });

    show(false);
    place.append(form);
  };

  document.querySelectorAll(".drill").forEach(start);
})();
