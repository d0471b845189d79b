// Stream and gradient through a deep encoder with random weights, in Post-LN and in Pre-LN.
explore("depth", ({ stage, controls, say }) => {
  const { button, canvas, draw, handle, make, number, power, show, slider } = explore;
  const B = 1, T = 8, D = 32, HEADS = 4, F = 64, LONGEST = 24;
  const state = { layers: LONGEST, ways: "skip", seed: 1 };
  const ones = core.tensor([D], new Float64Array(D).fill(1)), zeros = core.tensor([D]);
  const norm = (x) => core.layerNorm(x, ones, zeros, 1e-5);
  const rms = ({ data }) => Math.sqrt(data.reduce((sum, v) => sum + v * v, 0) / data.length);

  // Weights as the package draws them, uniform between -1/√D_in and 1/√D_in, biases 0.
  const branches = (seed) => {
    const { uniform, normals } = core.generator(seed);
    const weight = (inner, columns) => core.tensor([inner, columns], Float64Array.from({ length: inner * columns },
      () => (2 * uniform() - 1) / Math.sqrt(inner)));
    const x = normals([B, T, D]), dy = normals([B, T, D]);
    const layers = Array.from({ length: LONGEST }, () => [
      attend(Array.from({ length: 4 }, () => weight(D, D))), feed(weight(D, F), weight(F, D))]);
    return { x, dy, blocks: layers.flat(), known: [new Map(), new Map()] };
  };

  const attend = ([q, k, v, o]) => ({
    forward: (x) => {
      const projected = [q, k, v].map((weight) => core.linear(x, weight));
      const [read, cache] = core.attention(...projected.map(([y]) => core.splitHeads(y, HEADS)));
      const [y, last] = core.linear(core.mergeHeads(read), o);
      return [y, { projected, cache, last }];
    },
    backward: (dy, { projected, cache, last }) => {
      const { dquery, dkey, dvalue } = core.attentionBackward(core.splitHeads(core.linearBackward(dy, last).dx, HEADS), cache);
      return [dquery, dkey, dvalue].map((d, n) => core.linearBackward(core.mergeHeads(d), projected[n][1]).dx).reduce(core.add);
    },
  });

  const feed = (first, second) => ({
    forward: (x) => {
      const [hidden, one] = core.linear(x, first), [active, two] = core.relu(hidden), [y, three] = core.linear(active, second);
      return [y, { one, two, three }];
    },
    backward: (dy, { one, two, three }) =>
      core.linearBackward(core.reluBackward(core.linearBackward(dy, three).dx, two).dx, one).dx,
  });

  // What forward and backward pass do with the two ways: the branch is computed where it is needed.
  const [sum, skip, branch] = [(a, b) => core.add(a, b()), (a) => a, (a, b) => b()];
  const WAYS = {
    both: { text: "both ways", forward: sum, backward: sum },
    skip: { text: "backward pass forgets the skip", forward: sum, backward: branch },
    branch: { text: "backward pass forgets the branch", forward: sum, backward: skip },
    noSkip: { text: "model without skip", forward: branch, backward: branch },
    noBranch: { text: "model without branch", forward: skip, backward: skip },
  };

  const forwardPass = (pre, { x, blocks }, forward) => {
    const caches = [], streams = [x];
    for (const block of blocks) {
      const stream = streams[caches.length], [u, before] = pre ? norm(stream) : [stream], cache = { before };
      const joined = forward(stream, () => {
        const [out, inside] = block.forward(u);
        cache.inside = inside;
        return out;
      });
      const [y, after] = pre ? [joined] : norm(joined);
      cache.after = after;
      caches.push(cache);
      streams.push(y);
    }
    return { streams, caches };
  };

  const run = (pre, model, layers, ways = state.ways) => {
    const { forward, backward } = WAYS[ways], used = 2 * layers, known = model.known[Number(pre)];
    if (!known.has(forward)) known.set(forward, forwardPass(pre, model, forward));
    const { streams, caches } = known.get(forward);
    let grad = pre ? core.layerNormBackward(model.dy, norm(streams[used])[1]).dx : model.dy;
    const gradients = [rms(grad)];
    for (let k = used - 1; k >= 0; k -= 1) {
      const { before, inside, after } = caches[k];
      const around = pre ? grad : core.layerNormBackward(grad, after).dx;
      grad = backward(around, () => {
        const through = model.blocks[k].backward(around, inside);
        return pre ? core.layerNormBackward(through, before).dx : through;
      });
      gradients.unshift(rms(grad));
    }
    return { streams: streams.slice(0, used + 1).map(rms), gradients };
  };

  const panels = stage.appendChild(make("div", { className: "panels" }));
  const across = (k) => 34 + (276 * k) / (2 * LONGEST);
  const chart = (title, name) => {
    const drawing = canvas(panels, 320, 254, `${title}: size of the stream and of its gradient after every block`);
    draw(drawing, "text", { x: 34, y: 12 }, title);
    const grid = draw(drawing, "g");
    const line = (hue, wide) => draw(drawing, "path", { fill: "none", stroke: `var(--${hue})`, "stroke-width": wide });
    const parts = { stream: line("blue", 7), gradient: line("cotangent", 2) };
    draw(drawing, "line", { x1: 34, x2: 310, y1: 224, y2: 224, stroke: "var(--soft)" });
    const note = (what, hue, anchor, x, y) =>
      draw(drawing, "text", { name: `${name}-${what}`, "text-anchor": anchor, style: `fill: var(--${hue})`, x, y });
    const notes = { stream: note("stream", "blue", "end", 310, 50), gradient: note("gradient", "cotangent", "start", 34, 32) };
    const grip = handle(drawing, { label: `layers (${title})`, radius: 11, step: 276 / LONGEST },
      (x) => go(Math.round(((x - 34) * LONGEST) / 276)));
    draw(drawing, "text", { x: 0, y: 249 }, "input");
    const below = draw(drawing, "text", { y: 249, "text-anchor": "middle" });
    return { grid, parts, notes, grip, below };
  };
  const charts = { post: chart("Post-LN", "post"), pre: chart("Pre-LN", "pre") };

  // All five at once, in as many layers as there are.
  stage.append(make("p", {}, `Gradients through ${LONGEST} layers, wide in Post-LN. One that is pressed is shown above.`));
  const story = stage.appendChild(make("div", { className: "story" }));
  const small = Object.fromEntries(Object.entries(WAYS).map(([key, { text }]) => {
    const choose = button(story, "", () => { state.ways = key; paint(); tell(); });
    const drawing = canvas(choose, 120, 56, "");
    drawing.ariaHidden = true;
    choose.value = key;
    choose.append(text);
    const line = (more) => draw(drawing, "path", { fill: "none", stroke: "var(--cotangent)", ...more });
    return [key, { choose, lines: [line({ "stroke-width": 6, opacity: 0.4 }), line({ "stroke-width": 1.5 })] }];
  }));
  const compare = () => {
    const found = Object.keys(WAYS).map((key) => [false, true].map((pre) =>
      run(pre, model, LONGEST, key).gradients.map(Math.log10)));
    const low = Math.min(...found.flat(2)), high = Math.max(...found.flat(2));
    Object.values(small).forEach(({ lines }, n) => lines.forEach((line, m) => line.setAttribute("d", found[n][m].map((v, k) =>
      `${k ? "L" : "M"} ${number(4 + (112 * k) / (2 * LONGEST), 1)} ${number(4 + (48 * (high - v)) / (high - low), 1)}`).join(" "))));
  };

  const layers = slider(controls, { name: "layers", label: "layers", min: 1, max: LONGEST, step: 1, value: state.layers, format: String }, (value) => go(value));
  button(controls, "Other weights", () => { state.seed += 1; renew(); paint(); tell(); });

  const go = (value) => {
    state.layers = Math.min(LONGEST, Math.max(1, value));
    layers.value = state.layers;
    paint();
    tell();
  };
  const tell = () => say(`${state.layers} layers, ${WAYS[state.ways].text}: at the input the gradient has the size ${
    charts.post.notes.gradient.dataset.size} in Post-LN and ${charts.pre.notes.gradient.dataset.size} in Pre-LN.`);

  const size = (v) => (v >= 0.01 && v < 1000 ? number(v) : power(v));
  const paint = () => {
    for (const [key, { choose }] of Object.entries(small)) choose.ariaPressed = key === state.ways;
    const found = { post: run(false, model, state.layers), pre: run(true, model, state.layers) };
    const all = Object.values(found).flatMap(({ streams, gradients }) => [...streams, ...gradients]).map(Math.log10);
    const low = Math.min(-1, Math.floor(Math.min(...all))), high = Math.max(1, Math.ceil(Math.max(...all)));
    const up = (v) => 210 - (150 * (Math.log10(v) - low)) / (high - low);
    for (const [name, { streams, gradients }] of Object.entries(found)) {
      const { grid, parts, notes, grip, below } = charts[name], every = Math.ceil((high - low) / 6);
      grid.replaceChildren();
      for (let decade = high; decade >= low; decade -= every) {
        draw(grid, "line", { x1: 34, x2: 310, y1: up(10 ** decade), y2: up(10 ** decade), stroke: "var(--line)" });
        draw(grid, "text", { x: 28, y: up(10 ** decade) + 4, "text-anchor": "end" }, decade === 0 ? "1" : power(10 ** decade, 0).replace("1·", ""));
      }
      const path = (values) => values.map((v, k) => `${k ? "L" : "M"} ${across(k)} ${up(v)}`).join(" ");
      parts.stream.setAttribute("d", path(streams));
      parts.gradient.setAttribute("d", path(gradients));
      const end = streams[streams.length - 1], x = across(2 * state.layers);
      show(notes.stream, end, `stream at the end ${size(end)}`);
      show(notes.gradient, gradients[0], `gradient at the input ${size(gradients[0])}`);
      notes.gradient.dataset.size = size(gradients[0]);
      grip.place(x, 224, `${state.layers} layers`);
      below.setAttribute("x", Math.max(84, Math.min(280, x)));
      below.textContent = `${state.layers} layers`;
    }
  };

  let model;
  const renew = () => {
    model = branches(state.seed);
    compare();
  };
  renew();
  paint();
  say("The backward pass forgets the skip. Take layers away; then let it forget the branch instead: the sizes stay near 1.");
});
