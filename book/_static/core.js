// The operations of transformer_core, forward and backward, for the figures that the reader moves.
//
// A tensor is { shape, data }, data a Float64Array, or a Float32Array where speed counts: results
// have the kind of their input. As in the package, forward returns [y, cache] and backward takes
// (dy, cache) and returns the gradients under their names.
const core = (() => {
  "use strict";

  const size = (shape) => shape.reduce((n, d) => n * d, 1);

  const tensor = (shape, data = new Float64Array(size(shape))) => {
    if (data.length !== size(shape))
      throw new Error(`expected ${size(shape)} numbers for ${shape}, got ${data.length}`);
    return { shape, data };
  };

  const from = (nested) => {
    const shape = [];
    for (let part = nested; Array.isArray(part); part = part[0]) shape.push(part.length);
    return tensor(shape, Float64Array.from(shape.length ? nested.flat(Infinity) : [nested]));
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

  return { tensor, from, nested, like, size };
})();
