// The operations of transformer_core, forward and backward, for what reacts on a page.
//
// A tensor is { shape, data }, data a Float64Array, or a Float32Array where speed counts: results
// have the kind of their input. Ids are a tensor of an Int32Array, masks of a Uint8Array, 1 = may
// attend. As in the package, forward returns [y, cache], and backward takes (dy, cache) and returns
// the gradients under the package's names. Every operation is held against the package's.
const core = (() => {
  "use strict";

  // Tensors.

  const size = (shape) => shape.reduce((n, d) => n * d, 1);

  const tensor = (shape, data = new Float64Array(size(shape))) => {
    if (data.length !== size(shape))
      throw new Error(`expected ${size(shape)} numbers for the shape (${shape}), got ${data.length}`);
    return { shape, data };
  };

  const from = (nested, Kind = Float64Array) => {
    const shape = [];
    for (let part = nested; Array.isArray(part); part = part[0]) shape.push(part.length);
    return tensor(shape, Kind.from(shape.length ? nested.flat(Infinity) : [nested]));
  };

  const nested = ({ shape, data }) => {
    if (shape.length === 0) return data[0];
    let parts = [...data];
    for (const width of shape.slice(1).reverse())
      parts = Array.from({ length: parts.length / width }, (_, n) =>
        parts.slice(n * width, (n + 1) * width));
    return parts;
  };

  const like = ({ data }, shape) => tensor(shape, new data.constructor(size(shape)));
  const ids = (nestedIds) => from(nestedIds, Int32Array);
  const mask = (nestedKeep) => from(nestedKeep, Uint8Array);
  const last = ({ shape }) => shape[shape.length - 1];
  const reshape = ({ data }, shape) => tensor(shape, data);

  const map = (x, f) => tensor(x.shape, x.data.map(f));

  const add = (a, b) => {
    same("b", b, a.shape);
    return map(a, (v, n) => v + b.data[n]);
  };

  // Columns cut into equal parts, and put side by side again.
  const split = (x, number) => {
    const width = last(x) / number;
    return Array.from({ length: number }, (_, part) => {
      const piece = like(x, [...x.shape.slice(0, -1), width]);
      for (let row = 0; row < piece.data.length / width; row += 1) {
        const at = (row * number + part) * width;
        piece.data.set(x.data.subarray(at, at + width), row * width);
      }
      return piece;
    });
  };

  const join = (parts) => {
    const width = last(parts[0]), number = parts.length;
    const whole = like(parts[0], [...parts[0].shape.slice(0, -1), width * number]);
    parts.forEach(({ data }, part) => {
      for (let row = 0; row < data.length / width; row += 1)
        whole.data.set(data.subarray(row * width, (row + 1) * width), (row * number + part) * width);
    });
    return whole;
  };

  const transpose = (x) => {
    const [rows, columns] = x.shape, turned = like(x, [columns, rows]);
    for (let i = 0; i < rows; i += 1)
      for (let j = 0; j < columns; j += 1) turned.data[j * rows + i] = x.data[i * columns + j];
    return turned;
  };

  const same = (name, x, shape) => {
    if (x.shape.length !== shape.length || x.shape.some((d, n) => d !== shape[n]))
      throw new Error(`${name}: expected the shape (${shape}), got (${x.shape})`);
  };

  // A mask with a value for every entry of a shape that it broadcasts to.
  const broadcast = (keep, shape) => {
    const padded = [...Array(shape.length - keep.shape.length).fill(1), ...keep.shape];
    if (padded.length !== shape.length || padded.some((d, n) => d !== 1 && d !== shape[n]))
      throw new Error(`keep: expected a shape that broadcasts to (${shape}), got (${keep.shape})`);
    const whole = new Uint8Array(size(shape));
    for (let n = 0; n < whole.length; n += 1) {
      let place = 0, stride = 1;
      for (let axis = shape.length - 1, left = n; axis >= 0; axis -= 1) {
        if (padded[axis] !== 1) place += (left % shape[axis]) * stride;
        stride *= padded[axis];
        left = Math.floor(left / shape[axis]);
      }
      whole[n] = keep.data[place];
    }
    return whole;
  };

  // Matrix products of rows that lie one after another: out += a b, a bᵀ and aᵀ b, from an offset on.

  // Four terms, or four sums, at a time: half of the time goes into reading and writing.

  const product = (a, b, out, rows, inner, columns, atA = 0, atB = 0, atOut = 0) => {
    for (let i = 0; i < rows; i += 1) {
      const row = atOut + i * columns;
      let k = 0;
      for (; k + 4 <= inner; k += 4) {
        const at = atA + i * inner + k, s0 = a[at], s1 = a[at + 1], s2 = a[at + 2], s3 = a[at + 3];
        const b0 = atB + k * columns, b1 = b0 + columns, b2 = b1 + columns, b3 = b2 + columns;
        for (let j = 0; j < columns; j += 1)
          out[row + j] += s0 * b[b0 + j] + s1 * b[b1 + j] + s2 * b[b2 + j] + s3 * b[b3 + j];
      }
      for (; k < inner; k += 1) {
        const scale = a[atA + i * inner + k], other = atB + k * columns;
        for (let j = 0; j < columns; j += 1) out[row + j] += scale * b[other + j];
      }
    }
  };

  const productTransposed = (a, b, out, rows, inner, columns, atA = 0, atB = 0, atOut = 0) => {
    for (let i = 0; i < rows; i += 1) {
      const row = atA + i * inner, at = atOut + i * columns;
      let j = 0;
      for (; j + 4 <= columns; j += 4) {
        const b0 = atB + j * inner, b1 = b0 + inner, b2 = b1 + inner, b3 = b2 + inner;
        let s0 = 0, s1 = 0, s2 = 0, s3 = 0;
        for (let k = 0; k < inner; k += 1) {
          const v = a[row + k];
          s0 += v * b[b0 + k];
          s1 += v * b[b1 + k];
          s2 += v * b[b2 + k];
          s3 += v * b[b3 + k];
        }
        out[at + j] += s0;
        out[at + j + 1] += s1;
        out[at + j + 2] += s2;
        out[at + j + 3] += s3;
      }
      for (; j < columns; j += 1) {
        const other = atB + j * inner;
        let sum = 0;
        for (let k = 0; k < inner; k += 1) sum += a[row + k] * b[other + k];
        out[at + j] += sum;
      }
    }
  };

  const transposedProduct = (a, b, out, rows, inner, columns, atA = 0, atB = 0, atOut = 0) => {
    for (let k = 0; k < inner; k += 1)
      for (let i = 0; i < rows; i += 1) {
        const scale = a[atA + k * rows + i], other = atB + k * columns, row = atOut + i * columns;
        if (scale === 0) continue;
        for (let j = 0; j < columns; j += 1) out[row + j] += scale * b[other + j];
      }
  };

  // linear.py

  const linear = (x, weight, bias = null) => {
    const [inner, columns] = weight.shape;
    if (last(x) !== inner)
      throw new Error(`x: expected rows of ${inner} numbers, got the shape (${x.shape})`);
    const y = like(x, [...x.shape.slice(0, -1), columns]), rows = x.data.length / inner;
    if (bias) {
      same("bias", bias, [columns]);
      for (let i = 0; i < rows; i += 1) y.data.set(bias.data, i * columns);
    }
    product(x.data, weight.data, y.data, rows, inner, columns);
    return [y, { x, weight, biased: bias !== null }];
  };

  const linearBackward = (dy, { x, weight, biased }) => {
    const [inner, columns] = weight.shape, rows = x.data.length / inner;
    same("dy", dy, [...x.shape.slice(0, -1), columns]);
    const dx = like(x, x.shape);
    productTransposed(dy.data, weight.data, dx.data, rows, columns, inner);
    return {
      dx,
      get dweight() { // computed where it is asked for: a model that does not learn has no need of it
        const dweight = like(weight, weight.shape);
        transposedProduct(x.data, dy.data, dweight.data, inner, rows, columns);
        return dweight;
      },
      dbias: biased ? sumOfRows(dy) : null,
    };
  };

  const sumOfRows = (x) => {
    const width = last(x), total = like(x, [width]);
    x.data.forEach((v, n) => { total.data[n % width] += v; });
    return total;
  };

  // softmax.py

  const softmax = (x, keep = null) => {
    const weights = like(x, x.shape), width = last(x);
    const may = keep && broadcast(keep, x.shape);
    for (let row = 0; row < x.data.length; row += width) {
      let top = -Infinity, total = 0;
      for (let n = row; n < row + width; n += 1)
        if (!may || may[n]) top = Math.max(top, x.data[n]);
      if (top === -Infinity) continue; // a row that may attend to nothing gets weights of 0
      for (let n = row; n < row + width; n += 1) {
        const weight = !may || may[n] ? Math.exp(x.data[n] - top) : 0;
        weights.data[n] = weight;
        total += weight;
      }
      for (let n = row; n < row + width; n += 1) weights.data[n] /= total;
    }
    return [weights, { weights }];
  };

  const softmaxBackward = (dweights, { weights }) => {
    same("dweights", dweights, weights.shape);
    const dx = like(weights, weights.shape), width = last(weights);
    for (let row = 0; row < dx.data.length; row += width) {
      let coupling = 0;
      for (let n = row; n < row + width; n += 1) coupling += dweights.data[n] * weights.data[n];
      for (let n = row; n < row + width; n += 1)
        dx.data[n] = weights.data[n] * (dweights.data[n] - coupling);
    }
    return { dx };
  };

  const logSoftmax = (x) => {
    const y = like(x, x.shape), width = last(x);
    for (let row = 0; row < x.data.length; row += width) {
      let top = -Infinity, total = 0;
      for (let n = row; n < row + width; n += 1) top = Math.max(top, x.data[n]);
      for (let n = row; n < row + width; n += 1) total += Math.exp(x.data[n] - top);
      for (let n = row; n < row + width; n += 1) y.data[n] = x.data[n] - top - Math.log(total);
    }
    return y;
  };

  // cross_entropy.py: the loss is a number.

  const crossEntropy = (logits, targets, weights = null, smoothing = 0) => {
    same("targets", targets, logits.shape.slice(0, -1));
    const width = last(logits), logP = logSoftmax(logits);
    const share = Float64Array.from(targets.data, (_, n) => (weights ? weights.data[n] : 1));
    const total = share.reduce((a, b) => a + b, 0);
    let loss = 0;
    share.forEach((weight, n) => {
      share[n] = weight / total;
      const row = logP.data.subarray(n * width, (n + 1) * width);
      const surprise = -(1 - smoothing) * row[targets.data[n]]
        - (smoothing / width) * row.reduce((a, b) => a + b, 0);
      if (weight !== 0) loss += share[n] * surprise;
    });
    return [loss, { p: map(logP, Math.exp), targets, share, smoothing }];
  };

  const crossEntropyBackward = (dloss, { p, targets, share, smoothing }) => {
    const width = last(p);
    const dlogits = map(p, (v, n) => dloss * share[Math.floor(n / width)] * (v - smoothing / width));
    targets.data.forEach((id, n) => {
      dlogits.data[n * width + id] -= dloss * share[n] * (1 - smoothing);
    });
    return { dlogits };
  };

  // layer_norm.py

  const layerNorm = (x, gamma, beta, eps = 1e-5) => {
    const width = last(x), rows = x.data.length / width;
    same("gamma", gamma, [width]);
    same("beta", beta, [width]);
    const y = like(x, x.shape), xHat = like(x, x.shape);
    const invStd = like(x, [...x.shape.slice(0, -1), 1]);
    for (let i = 0; i < rows; i += 1) {
      const at = i * width;
      let mean = 0, variance = 0;
      for (let n = at; n < at + width; n += 1) mean += x.data[n] / width;
      for (let n = at; n < at + width; n += 1) variance += (x.data[n] - mean) ** 2 / width;
      const scale = 1 / Math.sqrt(variance + eps);
      invStd.data[i] = scale;
      for (let d = 0; d < width; d += 1) {
        const hat = (x.data[at + d] - mean) * scale;
        xHat.data[at + d] = hat;
        y.data[at + d] = gamma.data[d] * hat + beta.data[d];
      }
    }
    return [y, { xHat, invStd, gamma }];
  };

  // The three terms of each row's gradient, whose sum is dx.
  const layerNormTerms = (dy, { xHat, invStd, gamma }) => {
    const width = last(xHat);
    const scale = like(xHat, xHat.shape), mean = like(xHat, xHat.shape), variance = like(xHat, xHat.shape);
    for (let at = 0; at < xHat.data.length; at += width) {
      const s = invStd.data[at / width];
      let meanOfG = 0, meanOfProduct = 0;
      for (let d = 0; d < width; d += 1) {
        const g = dy.data[at + d] * gamma.data[d];
        meanOfG += g / width;
        meanOfProduct += (g * xHat.data[at + d]) / width;
      }
      for (let d = 0; d < width; d += 1) {
        scale.data[at + d] = dy.data[at + d] * gamma.data[d] * s;
        mean.data[at + d] = -meanOfG * s;
        variance.data[at + d] = -xHat.data[at + d] * meanOfProduct * s;
      }
    }
    return { scale, mean, variance };
  };

  const layerNormBackward = (dy, cache) => {
    const { xHat } = cache, width = last(xHat);
    same("dy", dy, xHat.shape);
    const { scale, mean, variance } = layerNormTerms(dy, cache);
    return {
      dx: map(scale, (v, n) => v + mean.data[n] + variance.data[n]),
      dgamma: sumOfRows(reshape(map(dy, (v, n) => v * xHat.data[n]), [dy.data.length / width, width])),
      dbeta: sumOfRows(dy),
    };
  };

  // relu.py and gelu.py

  const relu = (x) => [map(x, (v) => (v > 0 ? v : 0)), { positive: mapMask(x, (v) => v > 0) }];
  const reluBackward = (dy, { positive }) => ({ dx: map(dy, (v, n) => v * positive.data[n]) });
  const mapMask = (x, f) => tensor(x.shape, Uint8Array.from(x.data, f));

  // The error function: a series near 0, a continued fraction for its tail.
  const erf = (x) => {
    const t = Math.abs(x);
    if (t > 6) return Math.sign(x);
    if (t < 3) {
      let term = x, sum = x;
      for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n += 1) {
        term *= (2 * x * x) / (2 * n + 1);
        sum += term;
      }
      return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
    }
    let tail = 0;
    for (let n = 60; n > 0; n -= 1) tail = n / 2 / (t + tail);
    return Math.sign(x) * (1 - Math.exp(-t * t) / Math.sqrt(Math.PI) / (t + tail));
  };

  const gelu = (x) => {
    const probability = map(x, (v) => (1 + erf(v / Math.SQRT2)) / 2);
    return [map(x, (v, n) => v * probability.data[n]), { x, probability }];
  };

  const geluBackward = (dy, { x, probability }) => ({
    dx: map(dy, (v, n) => {
      const density = Math.exp((-x.data[n] * x.data[n]) / 2) / Math.sqrt(2 * Math.PI);
      return v * (probability.data[n] + x.data[n] * density);
    }),
  });

  const SLOPE = Math.sqrt(2 / Math.PI), CUBIC = 0.044715;

  const geluTanh = (x) => {
    const tanh = map(x, (v) => Math.tanh(SLOPE * (v + CUBIC * v * v * v)));
    return [map(x, (v, n) => (v * (1 + tanh.data[n])) / 2), { x, tanh }];
  };

  const geluTanhBackward = (dy, { x, tanh }) => ({
    dx: map(dy, (v, n) => {
      const z = x.data[n], t = tanh.data[n], x_slope = z * (1 - t * t);
      return (v * (1 + t + SLOPE * (x_slope + 3 * CUBIC * x_slope * z * z))) / 2;
    }),
  });

  // dropout.py: random() gives numbers from 0 to 1; null drops nothing.

  const dropout = (x, rate, random = null) => {
    if (!random || rate === 0) return [x, { mask: null, rate }];
    const drawn = mapMask(x, () => random() >= rate);
    return [map(x, (v, n) => (v * drawn.data[n]) / (1 - rate)), { mask: drawn, rate }];
  };

  const dropoutBackward = (dy, { mask: drawn, rate }) => ({
    dx: drawn ? map(dy, (v, n) => (v * drawn.data[n]) / (1 - rate)) : dy,
  });

  // attention.py

  const attention = (query, key, value, keep = null, rate = 0, random = null) => {
    const [T, K] = query.shape.slice(-2), [S, width] = value.shape.slice(-2);
    const leading = query.shape.slice(0, -2), blocks = size(leading);
    same("key", key, [...leading, S, K]);
    const scores = like(query, [...leading, T, S]);
    for (let b = 0; b < blocks; b += 1)
      productTransposed(query.data, key.data, scores.data, T, K, S, b * T * K, b * S * K, b * T * S);
    scores.data.forEach((v, n) => { scores.data[n] = v / Math.sqrt(K); });
    const [weights, softmaxCache] = softmax(scores, keep);
    const [dropped, dropoutCache] = dropout(weights, rate, random);
    const output = like(query, [...leading, T, width]);
    for (let b = 0; b < blocks; b += 1)
      product(dropped.data, value.data, output.data, T, S, width, b * T * S, b * S * width, b * T * width);
    return [output, { query, key, value, weights, scores, softmax: softmaxCache, dropout: dropoutCache }];
  };

  const attentionBackward = (doutput, cache) => {
    const { query, key, value, weights } = cache;
    const [T, K] = query.shape.slice(-2), [S, width] = value.shape.slice(-2);
    const blocks = size(query.shape.slice(0, -2));
    same("doutput", doutput, [...query.shape.slice(0, -1), width]);
    const { dx: dropped } = dropoutBackward(weights, cache.dropout);
    const dvalue = like(value, value.shape), ddropped = like(weights, weights.shape);
    for (let b = 0; b < blocks; b += 1) {
      const atScores = b * T * S, atValue = b * S * width, atOutput = b * T * width;
      transposedProduct(dropped.data, doutput.data, dvalue.data, S, T, width, atScores, atOutput, atValue);
      productTransposed(doutput.data, value.data, ddropped.data, T, width, S, atOutput, atValue, atScores);
    }
    const { dx: dweights } = dropoutBackward(ddropped, cache.dropout);
    const { dx: dscores } = softmaxBackward(dweights, cache.softmax);
    const scaled = map(dscores, (v) => v / Math.sqrt(K));
    const dquery = like(query, query.shape), dkey = like(key, key.shape);
    for (let b = 0; b < blocks; b += 1) {
      product(scaled.data, key.data, dquery.data, T, S, K, b * T * S, b * S * K, b * T * K);
      transposedProduct(scaled.data, query.data, dkey.data, S, T, K, b * T * S, b * T * K, b * S * K);
    }
    return { dquery, dkey, dvalue, dscores };
  };

  // heads.py and masks.py

  const splitHeads = (x, heads) => {
    const [B, T, D] = x.shape, K = D / heads, split = like(x, [B, heads, T, K]);
    if (!Number.isInteger(K)) throw new Error(`heads: expected a divisor of the width ${D}, got ${heads}`);
    x.data.forEach((v, n) => {
      const d = n % D, t = Math.floor(n / D) % T, b = Math.floor(n / (T * D));
      split.data[((b * heads + Math.floor(d / K)) * T + t) * K + (d % K)] = v;
    });
    return split;
  };

  const mergeHeads = (x) => {
    const [B, heads, T, K] = x.shape, D = heads * K, merged = like(x, [B, T, D]);
    x.data.forEach((v, n) => {
      const k = n % K, t = Math.floor(n / K) % T, h = Math.floor(n / (T * K)) % heads;
      merged.data[(Math.floor(n / (heads * T * K)) * T + t) * D + h * K + k] = v;
    });
    return merged;
  };

  const causalKeep = (length) =>
    tensor([length, length], Uint8Array.from({ length: length * length }, (_, n) =>
      n % length <= Math.floor(n / length)));

  const paddingKeep = (lengths, length) =>
    tensor([lengths.length, 1, 1, length], Uint8Array.from({ length: lengths.length * length }, (_, n) =>
      n % length < lengths[Math.floor(n / length)]));

  // embedding.py and positions.py

  const embedding = (tokens, table) => {
    const width = last(table), rows = like(table, [...tokens.shape, width]);
    tokens.data.forEach((id, n) => {
      if (!(id >= 0 && id < table.shape[0]))
        throw new Error(`ids: expected numbers from 0 to ${table.shape[0] - 1}, got ${id}`);
      rows.data.set(table.data.subarray(id * width, (id + 1) * width), n * width);
    });
    return [rows, { ids: tokens, table }];
  };

  const embeddingBackward = (drows, { ids: tokens, table }) => {
    const width = last(table), dtable = like(table, table.shape);
    drows.data.forEach((v, n) => {
      dtable.data[tokens.data[Math.floor(n / width)] * width + (n % width)] += v;
    });
    return { dtable };
  };

  const tiedReadout = (h, table, bias) => {
    const [V, D] = table.shape, rows = h.data.length / D;
    const logits = like(h, [...h.shape.slice(0, -1), V]);
    for (let i = 0; i < rows; i += 1) logits.data.set(bias.data, i * V);
    productTransposed(h.data, table.data, logits.data, rows, D, V);
    return [logits, { h, table }];
  };

  const tiedReadoutBackward = (dlogits, { h, table }) => {
    const [V, D] = table.shape, rows = h.data.length / D;
    const dh = like(h, h.shape);
    product(dlogits.data, table.data, dh.data, rows, V, D);
    return {
      dh,
      get dtable() {
        const dtable = like(table, table.shape);
        transposedProduct(dlogits.data, h.data, dtable.data, V, rows, D);
        return dtable;
      },
      dbias: sumOfRows(dlogits),
    };
  };

  const sinusoidalPositions = (length, width) =>
    tensor([length, width], Float64Array.from({ length: length * width }, (_, n) => {
      const d = n % width, angle = Math.floor(n / width) * 10000 ** ((-2 * Math.floor(d / 2)) / width);
      return d % 2 ? Math.cos(angle) : Math.sin(angle);
    }));

  // mean_squared_error.py

  const meanSquaredError = (prediction, target) => {
    same("target", target, prediction.shape);
    const error = map(prediction, (v, n) => v - target.data[n]);
    return [error.data.reduce((sum, v) => sum + v * v, 0) / error.data.length, { error }];
  };

  const meanSquaredErrorBackward = (dloss, { error }) => ({
    dprediction: map(error, (v) => (v * 2 * dloss) / error.data.length),
  });

  // optim/: an optimiser changes the tensors of { name: tensor } in place.

  const sgd = (parameters, learningRate, momentum = 0) => {
    const velocity = zerosOf(parameters);
    return {
      velocity,
      step: (grads) => each(parameters, grads, (name, n, grad) => {
        const v = velocity[name].data;
        v[n] = momentum * v[n] + grad;
        parameters[name].data[n] -= learningRate * v[n];
      }),
    };
  };

  const UNDECAYED = ["bias", "gamma", "beta"];

  const adamW = (parameters, learningRate = 1e-3, { beta1 = 0.9, beta2 = 0.999, eps = 1e-8,
    weightDecay = 0.01 } = {}) => {
    const firstMoment = zerosOf(parameters), secondMoment = zerosOf(parameters);
    let steps = 0;
    return {
      firstMoment,
      secondMoment,
      step: (grads) => {
        steps += 1;
        each(parameters, grads, (name, n, grad) => {
          const m = firstMoment[name].data, v = secondMoment[name].data, theta = parameters[name].data;
          m[n] = beta1 * m[n] + (1 - beta1) * grad;
          v[n] = beta2 * v[n] + (1 - beta2) * grad * grad;
          const mHat = m[n] / (1 - beta1 ** steps), vHat = v[n] / (1 - beta2 ** steps);
          if (!UNDECAYED.includes(name.split(".").pop())) theta[n] *= 1 - learningRate * weightDecay;
          theta[n] -= (learningRate * mHat) / (Math.sqrt(vHat) + eps);
        });
      },
    };
  };

  const adam = (parameters, learningRate, options = {}) =>
    adamW(parameters, learningRate, { ...options, weightDecay: 0 });

  const zerosOf = (parameters) => Object.fromEntries(
    Object.entries(parameters).map(([name, array]) => [name, like(array, array.shape)]));

  const each = (parameters, grads, update) => {
    for (const [name, array] of Object.entries(parameters)) {
      if (!grads[name]) throw new Error(`grads: expected a gradient of ${name}, got none`);
      same(`gradient of ${name}`, grads[name], array.shape);
      grads[name].data.forEach((grad, n) => update(name, n, grad));
    }
  };

  // Random numbers that are the same for the same seed: uniform() from 0 to 1, and normal().
  const generator = (seed) => {
    let state = seed >>> 0;
    const uniform = () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let t = Math.imul(state ^ (state >>> 15), 1 | state);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
    const normal = () =>
      Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
    const normals = (shape, scale = 1) =>
      tensor(shape, Float64Array.from({ length: size(shape) }, () => scale * normal()));
    return { uniform, normal, normals };
  };

  return {
    tensor, from, nested, like, size, ids, mask, reshape, map, add, split, join, transpose, generator,
    linear, linearBackward, softmax, softmaxBackward, logSoftmax, crossEntropy, crossEntropyBackward,
    layerNorm, layerNormTerms, layerNormBackward, relu, reluBackward, erf, gelu, geluBackward,
    geluTanh, geluTanhBackward, dropout, dropoutBackward, attention, attentionBackward, splitHeads,
    mergeHeads, causalKeep, paddingKeep, embedding, embeddingBackward, tiedReadout,
    tiedReadoutBackward, sinusoidalPositions, meanSquaredError, meanSquaredErrorBackward,
    sgd, adam, adamW,
  };
})();
