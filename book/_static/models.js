// The trained models of the book in the page: their weights, which a script of their own brings when
// they are asked for, and their passes, put together from core.js as the package puts together its
// layers. Parameters have the package's names.
const models = (() => {
  "use strict";

  // Weights.

  const folder = new URL("models/", document.currentScript.src);
  const asked = {}, waiting = {};

  // What the script of a model calls: see book/living_models.py.
  const register = (name, file) => waiting[name](file);

  const load = (name) => {
    asked[name] ??= new Promise((resolve, reject) => {
      waiting[name] = resolve;
      const script = make("script", { src: new URL(`${name}.js`, folder), onerror: () => {
        delete asked[name];
        reject(new Error(`${script.src} cannot be read`));
      } });
      document.head.append(script);
    }).then(read);
    return asked[name];
  };

  // A button of a figure that loads its model, once. Returns what the figure calls to load it by itself.
  const loader = (figure, name, megabytes, say, ready) => {
    const wake = async () => {
      ask.disabled = true;
      ask.textContent = "Loading …";
      try {
        const file = await load(name);
        if (!ask.isConnected) return;
        ask.remove();
        figure.classList.add("loaded");
        ready(file);
      } catch (error) {
        ask.disabled = false;
        ask.textContent = "Try again";
        say(error.message);
      }
    };
    const ask = explore.button(figure.querySelector(".controls"), `Load the model (${explore.number(megabytes, 1)} MB)`, wake);
    return wake;
  };

  const read = ({ settings, shapes, data }) => {
    const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0)).buffer;
    const parameters = {};
    let at = 0;
    for (const [name, shape] of Object.entries(shapes)) {
      const size = core.size(shape), matrix = shape.length === 2, numbers = matrix ? shape[0] : size;
      let array = new Float32Array(bytes.slice(at, at + 4 * numbers));
      at += 4 * numbers;
      if (matrix) {
        const scales = array, width = shape[1];
        array = Float32Array.from(new Int8Array(bytes, at, size), (q, n) => q * scales[Math.floor(n / width)]);
        at += size;
      }
      parameters[name] = core.tensor(shape, array);
    }
    return { settings, parameters };
  };

  // Layers: forward returns [y, cache]; backward takes (dy, cache) and returns dx alone, since nothing
  // learns here.

  const linear = (p, name) => ({
    forward: (x) => core.linear(x, p[`${name}.weight`], p[`${name}.bias`]),
    backward: (dy, cache) => core.linearBackward(dy, cache).dx,
  });

  const layerNorm = (p, name, { eps }) => p[`${name}.gamma`] && {
    forward: (x) => core.layerNorm(x, p[`${name}.gamma`], p[`${name}.beta`], eps),
    backward: (dy, cache) => core.layerNormBackward(dy, cache).dx,
  };

  const ACTIVATIONS = {
    relu: [core.relu, core.reluBackward],
    gelu: [core.gelu, core.geluBackward],
    gelu_tanh: [core.geluTanh, core.geluTanhBackward],
  };

  const feedForward = (p, name, spec) => {
    const [activate, activateBackward] = ACTIVATIONS[spec.feed_forward];
    const hidden = linear(p, `${name}.hidden`), output = linear(p, `${name}.output`);
    return {
      forward: (x) => {
        const [h, hiddenCache] = hidden.forward(x);
        const [active, activation] = activate(h);
        const [y, outputCache] = output.forward(active);
        return [y, { hidden: hiddenCache, activation, output: outputCache }];
      },
      backward: (dy, cache) => {
        const { dx } = activateBackward(output.backward(dy, cache.output), cache.activation);
        return hidden.backward(dx, cache.hidden);
      },
    };
  };

  const attend = (output, heads, parts, keep) => {
    const [context, attention] = core.attention(...parts.map((part) => core.splitHeads(part, heads)), keep);
    const [y, outputCache] = output.forward(core.mergeHeads(context));
    return [y, { attention, output: outputCache }];
  };

  const selfAttention = (p, name, { attention: { heads } }) => {
    const projection = linear(p, `${name}.query_key_value`), output = linear(p, `${name}.output`);
    return {
      forward: (x, keep) => {
        const [projected, projectionCache] = projection.forward(x);
        const [y, cache] = attend(output, heads, core.split(projected, 3), keep);
        return [y, { projection: projectionCache, ...cache }];
      },
      backward: (dy, cache) => {
        const dcontext = core.splitHeads(output.backward(dy, cache.output), heads);
        const { dquery, dkey, dvalue } = core.attentionBackward(dcontext, cache.attention);
        return projection.backward(core.join([dquery, dkey, dvalue].map(core.mergeHeads)), cache.projection);
      },
    };
  };

  const crossAttention = (p, name, { attention: { heads } }) => {
    const query = linear(p, `${name}.query`), keyValue = linear(p, `${name}.key_value`);
    const output = linear(p, `${name}.output`);
    return {
      forward: (x, source) =>
        attend(output, heads, [query.forward(x)[0], ...core.split(keyValue.forward(source)[0], 2)]),
    };
  };

  const residual = (p, name, spec, makeBranch) => {
    const branch = makeBranch(p, `${name}.branch`, spec), norm = layerNorm(p, `${name}.norm`, spec.norm);
    const pre = spec.placement === "pre";
    return {
      forward: (x, ...context) => {
        const [before, early] = pre ? norm.forward(x) : [x];
        const [out, branchCache] = branch.forward(before, ...context);
        const sum = core.add(x, out);
        const [y, late] = pre ? [sum] : norm.forward(sum);
        return [y, { branch: branchCache, norm: early ?? late }];
      },
      backward: (dy, cache) => {
        if (pre) return core.add(dy, norm.backward(branch.backward(dy, cache.branch), cache.norm));
        const dsum = norm.backward(dy, cache.norm);
        return core.add(dsum, branch.backward(dsum, cache.branch));
      },
    };
  };

  // What follows each other: [layer, ...context]; those that are missing are left out.
  const chain = (...parts) => {
    const present = parts.filter(([layer]) => layer);
    return {
      forward: (x) => {
        const caches = [];
        for (const [layer, ...context] of present) {
          const [y, cache] = layer.forward(x, ...context);
          caches.push(cache);
          x = y;
        }
        return [x, caches];
      },
      backward: (dy, caches) =>
        present.reduceRight((cotangent, [layer], n) => layer.backward(cotangent, caches[n]), dy),
    };
  };

  const count = (number, make) => Array.from({ length: number }, (_, n) => make(n));

  const encoder = (p, spec, layers) => chain(
    ...count(layers, (n) => `encoder.layer_${n}`).flatMap((name) => [
      [residual(p, `${name}.attention`, spec, selfAttention)],
      [residual(p, `${name}.feed_forward`, spec, feedForward)],
    ]),
    [layerNorm(p, "encoder.final_norm", spec.norm)]);

  // The attention weights of some caches of residuals, (H, T, S) each.
  const weightsOf = (caches) => caches.map(({ branch: { attention: { weights } } }) =>
    core.reshape(weights, weights.shape.slice(1)));

  const everyOther = (list, first, step) => list.filter((_, n) => n % step === first);

  // Mini-BERT.

  const bert = ({ settings: { spec, layers }, parameters: p }) => {
    const { "tokens.table": table, "positions.table": positions, "readout.bias": bias } = p;
    const norm = layerNorm(p, "embedding_norm", spec.norm), body = encoder(p, spec, layers);
    return {
      // Logits (1, V) of what may stand at a place of a sequence of ids, of which the encoder may be
      // given one without its row: zeros.
      forward: (sequence, place, without = null) => {
        const T = sequence.length, D = spec.width;
        const [rows] = core.embedding(core.ids([sequence]), table);
        const sum = core.map(rows, (v, n) => v + positions.data[n]);
        const [x] = norm ? norm.forward(sum) : [sum];
        if (without !== null) x.data.fill(0, without * D, (without + 1) * D);
        const [h, bodyCache] = body.forward(x);
        const [row, rowCache] = core.embedding(core.ids([place]), core.reshape(h, [T, D]));
        const [logits, readout] = core.tiedReadout(row, table, bias);
        const attention = weightsOf(everyOther(bodyCache.slice(0, 2 * layers), 0, 2));
        return [logits, { x, body: bodyCache, row: rowCache, readout, attention }];
      },
      // The gradient of what the encoder is given, (1, T, D).
      backward: (dlogits, { x, body: bodyCache, row, readout }) => {
        const { dh } = core.tiedReadoutBackward(dlogits, readout);
        const { dtable } = core.embeddingBackward(dh, row);
        return body.backward(core.reshape(dtable, x.shape), bodyCache);
      },
    };
  };

  // The gradient of -ln p(word) with respect to what the encoder is given at each place: its length, and
  // its inner product with that input.
  const influence = (model, [logits, cache], word) => {
    const [, loss] = core.crossEntropy(logits, core.ids([word]));
    const gradient = model.backward(core.crossEntropyBackward(1, loss).dlogits, cache);
    const [, T, D] = gradient.shape;
    return count(T, (t) => {
      let square = 0, product = 0;
      for (let n = t * D; n < (t + 1) * D; n += 1) {
        square += gradient.data[n] ** 2;
        product += gradient.data[n] * cache.x.data[n];
      }
      return { norm: Math.sqrt(square), product };
    });
  };

  // The most probable words at a place: [{ id, p }], the first one first.
  const best = (logits, number) => {
    const [{ data: p }] = core.softmax(logits);
    const found = [];
    p.forEach((value, id) => {
      if (found.length === number && value <= found[number - 1].p) return;
      const at = found.findIndex((other) => value > other.p);
      found.splice(at < 0 ? found.length : at, 0, { id, p: value });
      found.length = Math.min(found.length, number);
    });
    return found;
  };

  // WordPiece, as the library tokenizers cuts for BERT: lower case, no accents, punctuation apart.

  const SPECIAL = /(\[(?:PAD|UNK|CLS|SEP|MASK)\])/;
  const CHINESE = /[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u{20000}-\u{2a6df}\u{2a700}-\u{2b81f}\u{2b920}-\u{2ceaf}\u{2f800}-\u{2fa1f}]/gu;

  const words = (text) => {
    const plain = text
      .replace(/(?![\t\n\r])[\p{Cc}\p{Cf}\p{Co}\ufffd]/gu, "")
      .replace(CHINESE, " $& ")
      .normalize("NFD")
      .replace(/\p{Mn}/gu, "");
    const lower = Array.from(plain, (c) => c.toLowerCase()).join("");
    return lower.match(/[\p{P}$+<=>^`|~]|[^\p{P}$+<=>^`|~\p{White_Space}]+/gu) ?? [];
  };

  const wordPiece = (pieces) => {
    const idOf = new Map(pieces.map((piece, id) => [piece, id]));
    const ofWord = (word) => {
      const characters = Array.from(word), ids = [];
      for (let start = 0, end; start < characters.length; start = end) {
        const front = start ? "##" : "";
        const known = () => idOf.get(front + characters.slice(start, end).join(""));
        for (end = characters.length; end > start && known() === undefined; end -= 1);
        if (end === start || characters.length > 100) return [idOf.get("[UNK]")];
        ids.push(known());
      }
      return ids;
    };
    return {
      idOf: (piece) => idOf.get(piece),
      piece: (id) => pieces[id],
      ids: (text) => text.split(SPECIAL).flatMap((part, n) =>
        n % 2 ? [idOf.get(part)] : words(part).flatMap(ofWord)),
    };
  };

  // The reader of dates.

  const PAD_START_END = 3;

  // What speaks against an answer: a date has its year, its day and perhaps its month in digits.
  const doubt = (text, answer) => {
    const numbers = (text.match(/\p{Nd}+/gu) ?? []).map((digits) =>
      Number(Array.from(digits, (c) => c.codePointAt(0) % 16).join("")));
    const [year, month, day] = answer.split("-").map(Number), date = new Date(Date.UTC(year, month - 1, day));
    const why = !(date.getTime() && date.toISOString().startsWith(answer) && answer.length === 10) ? `${answer} is in no calendar`
      : ![year, day].every((part) => numbers.includes(part)) || !numbers.every((n) => [year, month, day].includes(n))
        ? "This is not the date of the text, if there is one in it" : "";
    return why && ` ${why}. The model has no way to refuse: it writes something, and can be certain of it.`;
  };

  const dateReader = ({ settings: { spec, layers, characters, longest }, parameters: p }) => {
    const { "source_embedding.table": source, "target_embedding.table": target } = p;
    const read = encoder(p, spec, layers), written = "-0123456789";
    const parts = count(layers, (n) => `decoder.layer_${n}`).map((name) => [
      residual(p, `${name}.self_attention`, spec, selfAttention),
      residual(p, `${name}.cross_attention`, spec, crossAttention),
      residual(p, `${name}.feed_forward`, spec, feedForward),
    ]);
    const finalNorm = layerNorm(p, "decoder.final_norm", spec.norm);

    const embed = (sequence, table) => {
      const [rows] = core.embedding(core.ids([sequence]), table);
      const positions = Float32Array.from(core.sinusoidalPositions(sequence.length, spec.width).data);
      return core.map(rows, (v, n) => Math.sqrt(spec.width) * v + positions[n]);
    };

    return {
      // What is read: lower case, in Unicode's compatibility form, without invisible marks.
      normalise: (text) => text.replace(/\p{Cf}/gu, "").normalize("NFKC").toLowerCase().normalize("NFKC")
        .split(/[\p{White_Space}\x1c-\x1f]+/u).filter(Boolean).join(" "),
      // Why a text cannot be read, or nothing.
      refusal: (text) => {
        const unknown = Array.from(text).filter((c) => !characters.includes(c));
        if (unknown.length) return `The model has no row for ${[...new Set(unknown)].join(" ")}.`;
        const length = Array.from(text).length;
        return length > longest ? `The model reads up to ${longest} characters, and these are ${length}.` : "";
      },
      // Greedy search: each written character with the weights of every layer's cross-attention, which
      // are (H, S) there; the logits besides.
      write: (text) => {
        const table = Array.from(characters);
        const [encoded] = read.forward(embed(Array.from(text, (c) => table.indexOf(c) + PAD_START_END), source));
        const sequence = [1], steps = [];
        while (steps.length <= written.length && sequence[sequence.length - 1] !== 2) {
          const T = sequence.length;
          const decoder = chain(
            ...parts.flatMap(([own, cross, forward]) => [[own, core.causalKeep(T)], [cross, encoded], [forward]]),
            [finalNorm]);
          const [z, caches] = decoder.forward(embed(sequence, target));
          const row = core.tensor([1, spec.width], z.data.slice((T - 1) * spec.width));
          const [logits] = core.tiedReadout(row, target, p["readout.bias"]);
          const [{ id, p: probability }, second] = best(logits, 2);
          const weights = weightsOf(everyOther(caches.slice(0, 3 * layers), 1, 3)).map(({ shape: [H, , S], data }) =>
            count(H, (h) => data.slice((h * T + T - 1) * S, (h * T + T) * S)));
          sequence.push(id);
          steps.push({ character: written[id - PAD_START_END] ?? "", probability, weights, logits,
            next: { character: written[second.id - PAD_START_END] ?? "the end", probability: second.p } });
        }
        return steps;
      },
    };
  };

  return { register, load, loader, bert, influence, best, wordPiece, doubt, dateReader };
})();
