// A mistake planted in a tiny encoder that trains in the page, beside its right twin.
const museum = (() => {
  const B = 8, T = 6, D = 12, H = 3, F = 24, V = 8, EPS = 1e-5, RATE = 0.01;
  const K = D / H;

  // The parameters of Reconstructor(LayerSpec(12, 3, 24, "post"), 1), under its names.
  const NAMES = {
    projection: "encoder.layer_0.attention.branch.query_key_value",
    joined: "encoder.layer_0.attention.branch.output",
    attentionNorm: "encoder.layer_0.attention.norm",
    hidden: "encoder.layer_0.feed_forward.branch.hidden",
    output: "encoder.layer_0.feed_forward.branch.output",
    feedForwardNorm: "encoder.layer_0.feed_forward.norm",
    readout: "readout",
  };
  const WIDTHS = { projection: [D, 3 * D], joined: [D, D], hidden: [D, F], output: [F, D], readout: [D, D] };

  // A new model has scales of 1 and biases of 0; at a random point all of them are drawn.
  const build = (random, isNew = true) => {
    const parameters = {};
    const draw = (name, shape, scale, start) => {
      parameters[name] = random.normals(shape, scale);
      if (start !== undefined && isNew) parameters[name].data.fill(start);
    };
    for (const [part, name] of Object.entries(NAMES)) {
      const widths = WIDTHS[part];
      if (widths) {
        draw(`${name}.weight`, widths, 1 / Math.sqrt(widths[0]));
        draw(`${name}.bias`, [widths[1]], 0.5, 0);
      } else {
        draw(`${name}.gamma`, [D], 1, 1);
        draw(`${name}.beta`, [D], 0.5, 0);
      }
    }
    return parameters;
  };

  // The loss and the gradient of every parameter, with the operations that are handed over.
  const lossAndGradients = (ops, parameters, inputs, targets) => {
    const grads = {};
    const of = (part, names) => names.map((name) => parameters[`${NAMES[part]}.${name}`]);
    const keep = (part, { dx, ...others }) => {
      for (const [name, grad] of Object.entries(others)) grads[`${NAMES[part]}.${name.slice(1)}`] = grad;
      return dx;
    };
    const linear = (part, x) => ops.linear(x, ...of(part, ["weight", "bias"]));
    const linearBackward = (part, dy, cache) => keep(part, ops.linearBackward(dy, cache));
    const norm = (part, x) => ops.layerNorm(x, ...of(part, ["gamma", "beta"]), EPS);
    const normBackward = (part, dy, cache) => keep(part, ops.layerNormBackward(dy, cache));

    const [projected, projectionCache] = linear("projection", inputs);
    const heads = core.split(projected, 3).map((part) => core.splitHeads(part, H));
    const [attended, attentionCache] = ops.attention(...heads);
    const [joined, joinedCache] = linear("joined", core.mergeHeads(attended));
    const [z, attentionNormCache] = norm("attentionNorm", core.add(inputs, joined));
    const [hidden, hiddenCache] = linear("hidden", z);
    const [bent, reluCache] = ops.relu(hidden);
    const [output, outputCache] = linear("output", bent);
    const [y, feedForwardNormCache] = norm("feedForwardNorm", core.add(z, output));
    const [prediction, readoutCache] = linear("readout", y);
    const [loss, lossCache] = ops.meanSquaredError(prediction, targets);

    const { dprediction } = ops.meanSquaredErrorBackward(1, lossCache);
    const dy = linearBackward("readout", dprediction, readoutCache);
    const dsum = normBackward("feedForwardNorm", dy, feedForwardNormCache);
    const dbent = linearBackward("output", dsum, outputCache);
    const dhidden = ops.reluBackward(dbent, reluCache).dx;
    const dz = ops.residualBackward(dsum, linearBackward("hidden", dhidden, hiddenCache));
    const dinner = normBackward("attentionNorm", dz, attentionNormCache);
    const dattended = core.splitHeads(linearBackward("joined", dinner, joinedCache), H);
    const { dquery, dkey, dvalue } = ops.attentionBackward(dattended, attentionCache);
    const dprojected = core.join([dquery, dkey, dvalue].map(core.mergeHeads));
    const dx = ops.residualBackward(dinner, linearBackward("projection", dprojected, projectionCache));
    return { loss, grads, prediction, dx };
  };

  const RIGHT = {
    ...core,
    residualBackward: core.add,
    optimizer: (parameters) => core.adam(parameters, RATE),
  };

  const scaled = (x, factor) => core.map(x, (v) => factor * v);
  const block = ({ shape, data }, b) => {
    const [rows, columns] = shape.slice(-2);
    return core.tensor([rows, columns], data.slice(b * rows * columns, (b + 1) * rows * columns));
  };

  const rootOfWidth = ({ shape }) => Math.sqrt(shape[shape.length - 1]);

  // What each mistake puts in the place of right operations, under its name in the catalogue.
  const MISTAKES = {
    "no mistake": ["No mistake", {}],
    "layer-norm-scale-term-alone": ["LayerNorm: mean and variance for constants", {
      layerNormBackward: (dy, cache) =>
        ({ ...core.layerNormBackward(dy, cache), dx: core.layerNormTerms(dy, cache).scale }),
    }],
    "layer-norm-gamma-outside": ["LayerNorm: γ outside the means", {
      layerNormBackward: (dy, cache) => {
        const ones = core.map(cache.gamma, () => 1), width = cache.gamma.data.length;
        const { dx } = core.layerNormBackward(dy, { ...cache, gamma: ones });
        return {
          ...core.layerNormBackward(dy, cache),
          dx: core.map(dx, (v, n) => v * cache.gamma.data[n % width]),
        };
      },
    }],
    "softmax-no-coupling": ["Softmax without its coupling", {
      attentionBackward: (doutput, cache) => {
        const { query, key, value, weights } = cache;
        const [length, width] = key.shape.slice(-2);
        const dquery = core.like(query, query.shape), dkey = core.like(key, key.shape);
        for (let b = 0; b < query.data.length / (length * width); b += 1) {
          const [dweights] = core.linear(block(doutput, b), core.transpose(block(value, b)));
          const p = block(weights, b).data;
          const dscores = core.map(dweights, (v, n) => (v * p[n]) / Math.sqrt(width));
          const { dx, dweight } = core.linearBackward(dscores,
            { x: block(query, b), weight: core.transpose(block(key, b)) });
          dquery.data.set(dx.data, b * length * width);
          dkey.data.set(core.transpose(dweight).data, b * length * width);
        }
        return { ...core.attentionBackward(doutput, cache), dquery, dkey };
      },
    }],
    "attention-scale-forgotten-backward": ["Attention: 1/√d_k forgotten in the backward pass", {
      attentionBackward: (doutput, cache) => {
        const { dquery, dkey, dvalue } = core.attentionBackward(doutput, cache);
        const root = rootOfWidth(cache.query);
        return { dquery: scaled(dquery, root), dkey: scaled(dkey, root), dvalue };
      },
    }],
    "residual-skip-lost": ["Residual: the skip forgotten in the backward pass", {
      residualBackward: (dskip, dbranch) => dbranch,
    }],
    "residual-branch-lost": ["Residual: the branch forgotten in the backward pass", {
      residualBackward: (dskip) => dskip,
    }],
    "linear-last-sequence-alone": ["Linear: the last sequence alone", {
      linearBackward: (dy, cache) => {
        const sequence = (x) => core.tensor(x.shape.slice(1), x.data.slice(-x.data.length / x.shape[0]));
        const { dweight } = core.linearBackward(sequence(dy), { ...cache, x: sequence(cache.x) });
        return { ...core.linearBackward(dy, cache), dweight };
      },
    }],
    "linear-batch-and-time-scrambled": ["Linear: transposed first, flattened then", {
      linearBackward: (dy, cache) => {
        const [inner, columns] = cache.weight.shape, rows = cache.x.data.length / inner;
        const turned = core.like(cache.x, [inner, rows]), length = cache.x.shape[1];
        for (let b = 0; b < rows / length; b += 1)
          turned.data.set(core.transpose(block(cache.x, b)).data, b * length * inner);
        const [dweight] = core.linear(turned, core.reshape(dy, [rows, columns]));
        return { ...core.linearBackward(dy, cache), dweight };
      },
    }],
    "relu-passes-everything": ["ReLU: the gradient passes everywhere", {
      reluBackward: (dy) => ({ dx: dy }),
    }],
    "mean-squared-error-factor-lost": ["Mean squared error without its 2", {
      meanSquaredErrorBackward: (dloss, cache) => core.meanSquaredErrorBackward(dloss / 2, cache),
    }],
    "layer-norm-unbiased-variance": ["LayerNorm: variance over D − 1 in the forward pass", {
      layerNorm: (x, gamma, beta, eps) => {
        const width = gamma.data.length, ratio = Math.sqrt((width - 1) / width);
        const [y, cache] = core.layerNorm(x, scaled(gamma, ratio), beta, eps * ratio * ratio);
        return [y, { xHat: scaled(cache.xHat, ratio), invStd: scaled(cache.invStd, ratio), gamma }];
      },
    }],
    "attention-scale-forgotten": ["Attention: 1/√d_k forgotten, forward and backward", {
      attention: (query, key, value) => core.attention(scaled(query, rootOfWidth(query)), key, value),
      attentionBackward: (doutput, cache) => {
        const grads = core.attentionBackward(doutput, cache);
        return { ...grads, dquery: scaled(grads.dquery, rootOfWidth(cache.query)) };
      },
    }],
    "adam-no-bias-correction": ["Adam: averages that start at zero, uncorrected", {
      optimizer: (parameters) => {
        const moments = Object.fromEntries(Object.entries(parameters).map(([name, p]) =>
          [name, [core.like(p, p.shape).data, core.like(p, p.shape).data]]));
        return { step: (grads) => {
          for (const [name, { data }] of Object.entries(parameters)) {
            const [m, v] = moments[name];
            grads[name].data.forEach((g, n) => {
              m[n] = 0.9 * m[n] + 0.1 * g;
              v[n] = 0.999 * v[n] + 0.001 * g * g;
              data[n] -= (RATE * m[n]) / (Math.sqrt(v[n]) + 1e-8);
            });
          }
        } };
      },
    }],
  };

  const planted = (name) => ({ ...RIGHT, ...MISTAKES[name][1] });

  // The task of the previous token: E[token] + P[place] in, E[previous token] out.
  const task = (random) => {
    const table = random.normals([V, D]), places = core.sinusoidalPositions(T, D);
    return (sequences) => {
      const tokens = Array.from({ length: sequences }, () =>
        Array.from({ length: T }, () => Math.floor(random.uniform() * V)));
      const previous = tokens.map((row) => [row[T - 1], ...row.slice(0, -1)]);
      const [rows] = core.embedding(core.ids(tokens), table);
      const [targets] = core.embedding(core.ids(previous), table);
      return [core.map(rows, (v, n) => v + places.data[n % (T * D)]), targets];
    };
  };

  const PROBES = 10, STEP = 1e-5;

  // Central differences of up to ten entries of each parameter: the worst relative error.
  const gradientError = (ops, isNew, sequences) => {
    const random = core.generator(11), parameters = build(random, isNew);
    const [inputs, targets] = task(random)(sequences);
    const { grads } = lossAndGradients(ops, parameters, inputs, targets);
    let worst = 0;
    for (const [name, { data }] of Object.entries(parameters)) {
      const probes = Math.min(PROBES, data.length);
      let difference = 0, size = 0;
      for (let probe = 0; probe < probes; probe += 1) {
        const n = Math.floor((probe * data.length) / probes), kept = data[n];
        const [up, down] = [STEP, -STEP].map((h) => {
          data[n] = kept + h;
          return lossAndGradients(ops, parameters, inputs, targets).loss;
        });
        data[n] = kept;
        const measured = (up - down) / (2 * STEP);
        difference += (grads[name].data[n] - measured) ** 2;
        size += Math.max(grads[name].data[n] ** 2, measured ** 2);
      }
      worst = Math.max(worst, Math.sqrt(difference / size));
    }
    return worst;
  };

  const sum = (values) => values.reduce((a, b) => a + b, 0);
  const largest = (values) => values.reduce((a, b) => Math.max(a, Math.abs(b)), 0);

  // Every row twice, side by side, in such lengths that the scores stay.
  const doubled = (x) => core.tensor([...x.shape.slice(0, -1), 2 * K], Float64Array.from(
    { length: 2 * x.data.length }, (_, n) =>
      x.data[Math.floor(n / (2 * K)) * K + (n % K)] / 2 ** 0.25));

  // Properties that the chapters prove, and how far each is from holding.
  const theorems = (ops) => {
    const random = core.generator(12), parameters = build(random, false);
    const [inputs, targets] = task(random)(2);
    const [x, dy] = [random.normals([2, D], 3), random.normals([2, D])];
    const gamma = random.normals([D]), zero = core.tensor([D]);
    const { dx } = ops.layerNormBackward(dy, ops.layerNorm(x, gamma, zero, EPS)[1]);
    const [y] = ops.layerNorm(x, core.map(gamma, () => 1), zero, EPS);
    const [query, key, value, doutput] = [1, 2, 3, 4].map(() => random.normals([1, 1, T, K]));
    const [output, attentionCache] = ops.attention(query, key, value);
    const { dkey } = ops.attentionBackward(doutput, attentionCache);
    const [again] = ops.attention(doubled(query), doubled(key), value);
    const weightGradient = (batch) =>
      lossAndGradients(ops, parameters, ...batch).grads["readout.weight"].data;
    const one = (b) => [inputs, targets].map((part) => core.tensor([1, T, D], block(part, b).data));
    const [whole, first, second] = [[inputs, targets], one(0), one(1)].map(weightGradient);
    const step = { p: core.from([1, -2]) };
    ops.optimizer(step).step({ p: core.from([0.3, -4]) });
    return {
      "LayerNorm’s gradient sums to zero":
        largest([0, 1].map((r) => sum(dx.data.slice(r * D, (r + 1) * D)))),
      "LayerNorm gives variance 1": Math.abs(sum(y.data.map((v) => v * v)) / y.data.length - 1),
      "the keys’ gradients sum to zero": largest(Array.from({ length: K }, (_, k) =>
        sum(dkey.data.filter((__, n) => n % K === k)))),
      "a head twice as wide, with the same scores, has the same output":
        largest(output.data.map((v, n) => v - again.data[n])),
      "two sequences have the mean of their gradients":
        largest(whole.map((v, n) => v - (first[n] + second[n]) / 2)),
      "Adam’s first step is as long as the rate":
        Math.abs(Math.abs(step.p.data[0] - 1) - RATE) / RATE,
    };
  };

  return { B, MISTAKES, RIGHT, planted, build, task, lossAndGradients, gradientError, theorems };
})();

explore("museum", ({ stage, controls, say }) => {
  const { make, draw, canvas, number, power, show, choice, button, still } = explore;
  const STEPS = 300, AT_ONCE = 5, SMOOTH = 20, EYE = 0.8;
  const ALARM = { fresh: 1e-4, random: 1e-6, theorem: 1e-4 };
  const asked = new URLSearchParams(location.search);
  let mistake = Object.hasOwn(museum.MISTAKES, asked.get("exhibit")) ? asked.get("exhibit") : "attention-scale-forgotten-backward";
  let start = Math.max(1, Math.floor(asked.get("start"))), timer = null;

  const WIDTH = stage.clientWidth < 500 ? 340 : 640, HEIGHT = 260, LEFT = 34, BOTTOM = 228;
  const drawing = canvas(stage, WIDTH, HEIGHT, "Loss of the right and of the wrong encoder against the step");
  const X = (step) => LEFT + ((WIDTH - LEFT - 12) * step) / STEPS;
  const Y = (loss) => BOTTOM - (BOTTOM - 14) * Math.min(1, Math.max(0, (Math.log10(loss) + 1.2) / 1.7));
  for (const loss of [0.1, 0.3, 1, 3]) {
    const className = loss === 1 ? "trivial" : "grid";
    draw(drawing, "line", { x1: LEFT, x2: WIDTH - 12, y1: Y(loss), y2: Y(loss), class: className });
    draw(drawing, "text", { x: LEFT - 6, y: Y(loss) + 4, "text-anchor": "end" }, String(loss));
  }
  draw(drawing, "text", { x: WIDTH - 14, y: Y(1) - 6, "text-anchor": "end" }, "answering 0 everywhere");
  for (const step of [0, 100, 200, 300]) {
    const label = step === STEPS ? "step 300" : String(step);
    draw(drawing, "text", { x: X(step), y: BOTTOM + 20, "text-anchor": step === STEPS ? "end" : "middle" }, label);
  }
  const curves = {}, names = {};
  ["right", "wrong"].forEach((which, n) => {
    curves[which] = draw(drawing, "path", { class: `curve ${which}` });
    names[which] = draw(drawing, "text", { class: `name ${which}`, x: LEFT + 8, y: BOTTOM - 10 - 18 * n });
  });

  const table = stage.appendChild(explore.table(["Judge", "Finds", "Says"], [], "judges"));
  // A bet says beforehand what a judge will say of an exhibit; what it says first settles the bet.
  const BETS = { "": "Your bet?", alarm: "Bet: alarm", silence: "Bet: silence" };
  const settled = new Map(), anew = [];
  const judge = (name, title) => {
    const value = explore.output(name), verdict = make("span", { className: "verdict" }), cell = make("td", {}, verdict);
    let bet = "";
    const write = (end = "") => {
      press.textContent = BETS[bet] + end;
      press.setAttribute("aria-label", `${press.textContent} ${title}`);
    };
    const press = button(cell, "", () => {
      const names = Object.keys(BETS);
      bet = names[(names.indexOf(bet) + 1) % names.length];
      write();
      say(bet ? `You bet on ${bet}. ${title}.` : `No bet. ${title}.`);
    });
    anew.push(() => {
      bet = "";
      press.disabled = settled.has(`${name} ${mistake}`);
      write();
    });
    table.tBodies[0].append(make("tr", {}, make("th", { scope: "row" }, title), make("td", {}, value), cell));
    return (found, text, alarm) => {
      show(value, found, text);
      verdict.textContent = alarm === null ? "–" : alarm ? "✗ alarm" : mistake === "no mistake" ? "silent" : "missed";
      verdict.classList.toggle("alarm", Boolean(alarm));
      if (alarm === null || press.disabled) return;
      press.disabled = true;
      const won = bet ? alarm === (bet === "alarm") : null;
      settled.set(`${name} ${mistake}`, won);
      if (bet) write(won ? " ✓" : " ✗");
      const taken = [...settled.values()].filter((one) => one !== null), right = taken.filter(Boolean).length;
      writeBets(right, `${right} of ${taken.length}`);
    };
  };
  const judges = {
    eye: judge("eye", "The eye: the loss at the end, the twin’s in brackets"),
    fresh: judge("fresh", "Central differences: a new model, one sequence"),
    random: judge("random", "Central differences: a random point, three sequences"),
    theorem: judge("theorem", "Six theorems"),
  };
  const { bets: writeBets } = explore.readouts(stage, { bets: "bets won" });
  writeBets(0, "0 of 0");

  const smooth = (losses) => losses.map((_, n) => {
    const part = losses.slice(Math.max(0, n - SMOOTH + 1), n + 1);
    return part.reduce((a, b) => a + b, 0) / part.length;
  });
  const plot = (which, losses) => curves[which].setAttribute("d",
    losses.map((loss, n) => `${n ? "L" : "M"}${X(n).toFixed(1)} ${Y(loss).toFixed(1)}`).join(""));

  const encoder = (ops) => {
    const random = core.generator(99 + start), parameters = museum.build(random);
    const sample = museum.task(random), optimizer = ops.optimizer(parameters), losses = [];
    const step = () => {
      const { loss, grads } = museum.lossAndGradients(ops, parameters, ...sample(museum.B));
      losses.push(loss);
      optimizer.step(grads);
    };
    return { losses, step };
  };

  const forget = () => {
    clearTimeout(timer);
    link.href = `?${new URLSearchParams({ exhibit: mistake, start })}#explorable-museum`;
    for (const hear of Object.values(judges)) hear(NaN, "not asked yet", null);
    plot("right", []);
    plot("wrong", []);
    names.right.textContent = names.wrong.textContent = "";
  };

  const examine = () => {
    forget();
    const ops = museum.planted(mistake), alarms = [];
    const hear = (name, found, text, alarm, who) => {
      judges[name](found, text, alarm);
      if (alarm) alarms.push(who);
    };
    for (const [name, sequences, who] of [["fresh", 1, "the check of a new model"],
      ["random", 3, "the check at a random point"]]) {
      const error = museum.gradientError(ops, name === "fresh", sequences);
      hear(name, error, `error ${power(error)}`, error > ALARM[name], who);
    }
    const broken = Object.entries(museum.theorems(ops))
      .filter(([, off]) => off > ALARM.theorem).map(([text]) => text);
    hear("theorem", broken.length, broken.length ? `broken: ${broken.join("; ")}` : "all hold",
      broken.length > 0, "a theorem");
    return alarms;
  };

  const tell = (alarms) => (alarms.length ? `Alarm from ${alarms.join(", ")}.` : "No judge raises an alarm.");

  const train = () => {
    const alarms = examine(), right = encoder(museum.RIGHT), wrong = encoder(museum.planted(mistake));
    const [title] = museum.MISTAKES[mistake];
    names.right.textContent = "the right twin";
    names.wrong.textContent = title;
    const go = () => {
      for (let n = 0; n < AT_ONCE; n += 1) { right.step(); wrong.step(); }
      const ended = right.losses.length >= STEPS;
      if (ended || !still()) {
        plot("right", smooth(right.losses));
        plot("wrong", smooth(wrong.losses));
      }
      if (!ended) {
        judges.eye(NaN, `step ${right.losses.length}`, null);
        timer = setTimeout(go, 0);
        return;
      }
      const [good, bad] = [right, wrong].map(({ losses }) => smooth(losses).pop());
      judges.eye(bad, `${number(bad, 3)} (${number(good, 3)})`, !(bad < EYE));
      if (!(bad < EYE)) alarms.unshift("the eye");
      say(`${title}, start ${start}: the loss ends at ${number(bad, 3)}, the right twin’s at ${number(good, 3)}. ${tell(alarms)}`);
    };
    timer = setTimeout(go, 0);
  };

  const options = Object.fromEntries(Object.entries(museum.MISTAKES).map(([key, [title]]) => [key, title]));
  choice(controls, { name: "mistake", label: "Plant", value: mistake, options }, (name) => {
    mistake = name;
    forget();
    for (const begin of anew) begin();
    say("Which judge will hear it? Bet before you ask.");
  });
  button(controls, "Ask the judges", () => say(tell(examine())));
  button(controls, "Train", train);
  button(controls, "Another start", () => { start += 1; train(); });
  const link = controls.appendChild(make("a", {}, "Link to this run"));
  forget();
  for (const begin of anew) begin();
  say("Both encoders start from the same numbers and read the same sentences.");
  if (asked.has("exhibit")) train();
});
