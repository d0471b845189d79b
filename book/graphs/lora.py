"""LoRA on the three words: the frozen layer's output, and what two narrow matrices add."""

import numpy as np
from graphs import Graph, row

from book.sentence import EMBEDDING, TOKENS
from transformer_core.ops import linear, low_rank, low_rank_backward

weight = np.array([[1.0, 0], [0, 1], [1, -1], [0, 1]])
bias = np.array([-1.0, 2])
a = np.array([[1.0, 0], [0, 1], [1, 0], [1, 0]])
b = np.array([[1.0, -1], [0, 1]])
alpha = 1.0  # with r = 2, a scale of 1/2
dy = np.array([[1.0, 0], [0, 1], [1, -1]])
frozen, _ = linear(EMBEDDING, weight, bias)
added, cache = low_rank(EMBEDDING, a, b, alpha)
dadded, da, db = low_rank_backward(dy, cache)
narrow, dnarrow, scale = cache.narrow, cache.scale * dy @ b.T, cache.scale
through = dy @ weight.T

graph = Graph("LoRA on *cats chase mice*")
graph.node("X_lora X", EMBEDDING, through + dadded, rows=TOKENS)
graph.node("A", a, da)
graph.node("B_lora B", b, db)
graph.node("U", narrow, dnarrow, rows=TOKENS, of="X_lora A", by=lambda x, a: x @ a)
graph.node(
    "Y_lora Y",
    frozen + added,
    dy,
    rows=TOKENS,
    of="X_lora U B_lora",
    by=lambda x, u, b: x @ weight + bias + scale * u @ b,
)
graph.way("X_lora<Y_lora", "Ȳ Wᵀ", through)
graph.way("X_lora<U", "Ū Aᵀ", dadded)
graph.place("A 0 0, X_lora 0 1, U 1 0, B_lora 1 1, Y_lora 2 0", narrow="A 0 1, X_lora 0 0")

graph.narrate(f"""
X_lora: Forward. Three words, one row each.
A: A is 4 × 2: r = 2. The frozen W and b are not drawn; they have no cotangent.
U: Every word becomes two numbers, U = X A. For *cats*: {row(narrow[0])}.
B_lora: B is 2 × 2.
Y_lora: The frozen output X W + b, for *cats* {row(frozen[0])}, and half of U B, {row(added[0])}:
    together {row((frozen + added)[0])}.
Y_lora': Backward. Each word has a cotangent, the same as without LoRA.
U': Ū = s Ȳ Bᵀ. For *cats*: {row(dnarrow[0])}. With B = 0 this would be 0 for every word.
B_lora': B̄ = s Uᵀ Ȳ, whose first row is {row(db[0])}.
A': Ā = Xᵀ Ū, whose first row is {row(da[0])}.
X_lora<Y_lora: Through the frozen weights, Ȳ Wᵀ: for *cats* {row(through[0])}.
X_lora<U: Through the adapter, Ū Aᵀ: for *cats* {row(dadded[0])}.
X_lora': Both together: {row((through + dadded)[0])}.
""")
