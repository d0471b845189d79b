"""Chapter 520: a query and a key that are turned by their positions."""

from transformer_practice.drills.exact import drawn, exact


def turned(x, position):
    """Turn the first pair by half a circle a position, the second by a quarter."""
    a, b, c, d = x
    if position % 2:
        a, b = -a, -b
    for _ in range(position % 4):
        c, d = -d, c
    return exact([a, b, c, d])


def rotary(rng):
    """Draw a query and a key, two positions and the cotangent of their score."""
    q, k = drawn(rng, 4), drawn(rng, 4)
    t, s = rng.sample(range(1, 5), 2)
    ds = 2 * rng.choice([-3, -2, -1, 1, 2, 3])
    u, w = turned(q, t), turned(k, s)
    du, dw = ds * w / 2, ds * u / 2
    halves = turned(q[[0, 2, 1, 3]], t)[[0, 2, 1, 3]]
    return {"q": q, "k": k, "t": t, "s": s, "S̄": ds}, [
        [u, turned(q, -t), halves, q],
        [w, turned(k, t), k],
        [u @ w / 2, q @ k / 2, u @ w],
        [u @ w / 2, turned(q, t + 5) @ w / 2],
        [du, ds * k / 2, ds * w],
        [turned(du, -t), turned(du, t), du],
        [turned(dw, -s), turned(dw, -t), dw],
    ]
