"""Chapter 465: what ranks that share add up, send and keep."""

from transformer_practice.drills.exact import drawn


def gpt_over_ranks(rng):
    """Draw the gradients that four ranks have, the sizes of a layer, and a pipeline."""
    own = drawn(rng, 4, 2, low=-6, high=6)
    sums, turns = own[::2] + own[1::2], own[:2] + own[2:]
    width, head = rng.choice([6, 8, 10]), rng.choice([2, 4])
    tokens, again = rng.randint(3, 5), rng.randint(13, 19)
    cache, stages, stage = 10 * again, rng.randint(4, 6), rng.randint(1, 2)
    batches = stages + rng.randint(1, 4)
    live, one = stages - stage, tokens * width
    of_keys = 2 * 2 * (2 - 1) * 2 * head * width
    given = {"A": own, "D": width, "d": head, "n": tokens, "c": cache, "p": stages}
    given |= {"s": stage, "m": batches}
    return given, [
        [sums, sums / 2, turns, own[::2]],
        [own.sum(axis=0), own.sum(axis=0) / 4, sums[0], sums.sum(axis=0) * 2],
        [of_keys, of_keys // 2, 2 * (4 - 1) * 2 * head * width],
        [2 * 3 * 2 * head, 2 * 3 * head, 2 * 2 * head],
        [live * cache, batches * cache, stages * cache],
        [cache + (live - 1) * one, live * one, cache + (batches - 1) * one],
    ]
