"""The contrast of two colours, in a page: ``ratio(a, b)``, as WCAG defines it."""

RATIO = """const light = colour => {
  if (!colour.startsWith("rgb")) throw new Error(`expected rgb(...), got ${colour}`);
  const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).map(c => c / 255)
    .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ratio = (a, b) => {
  const [low, high] = [light(a), light(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
};
"""
