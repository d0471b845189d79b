"""A whole encoder on *cats chase mice*, with one layer and one head: every array, there and back.

SUMS says what each entry is made of; a name that begins with d is a gradient. The parameters are
such that queries, keys and values are those of ``book/sentence.py``, and that all values and most
gradients are fractions, some of them times ln 2.
"""

import numpy as np
from arrays import Arrays
from graphs import number, row

from book.sentence import EMBEDDING, TOKENS
from transformer_core.layers import AttentionSpec, EncoderLayer, LayerSpec, NormSpec
from transformer_core.ops import (
    attention_backward,
    cross_entropy,
    cross_entropy_backward,
    layer_norm_backward,
    linear,
    linear_backward,
    relu_backward,
    softmax,
    softmax_backward,
)

SUMS = """
X td = E[t,d] + P[t,d]
Q te = Σd{X[t,d]*W_Q[d,e]}
K te = Σd{X[t,d]*W_K[d,e]}
V tv = Σd{X[t,d]*W_V[d,v]}
S ts = (Σe{Q[t,e]*K[s,e]}) / 2
A ts = exp(S[t,s]) / (Σu{exp(S[t,u])})
O tv = Σs{A[t,s]*V[s,v]}
C td = Σv{O[t,v]*W_O[v,d]}
R td = X[t,d] + C[t,d]
μ t = (Σd{R[t,d]}) / 4
σ t = sqrt((Σd{(R[t,d] - μ[t])**2}) / 4)
Z td = (R[t,d] - μ[t]) / σ[t]
H tf = Σd{Z[t,d]*W_1[d,f]}
G tf = max(0, H[t,f])
F td = Σf{G[t,f]*W_2[f,d]}
N td = Z[t,d] + F[t,d]
μ_N t = (Σd{N[t,d]}) / 4
σ_N t = sqrt((Σd{(N[t,d] - μ_N[t])**2}) / 4)
Y td = (N[t,d] - μ_N[t]) / σ_N[t]
L tw = Σd{Y[t,d]*U[d,w]}
p tw = exp(L[t,w]) / (Σx{exp(L[t,x])})
loss = -log(p[1,1])
dp tw = -(t==w==1) / p[t,w]
dL tw = p[t,w]*(dp[t,w] - (Σx{dp[t,x]*p[t,x]}))
dU dw = Σt{Y[t,d]*dL[t,w]}
dY td = Σw{dL[t,w]*U[d,w]}
dσ_N t = -(Σd{dY[t,d]*Y[t,d]}) / σ_N[t]
dμ_N t = -(Σd{dY[t,d]}) / σ_N[t]
dN td = dY[t,d] / σ_N[t] + dμ_N[t] / 4 + dσ_N[t]*Y[t,d] / 4
dF td = dN[t,d]
dW_2 fd = Σt{G[t,f]*dF[t,d]}
dG tf = Σd{dF[t,d]*W_2[f,d]}
dH tf = dG[t,f]*(H[t,f] > 0)
dW_1 df = Σt{Z[t,d]*dH[t,f]}
dZ td = dN[t,d] + Σf{dH[t,f]*W_1[d,f]}
dσ t = -(Σd{dZ[t,d]*Z[t,d]}) / σ[t]
dμ t = -(Σd{dZ[t,d]}) / σ[t]
dR td = dZ[t,d] / σ[t] + dμ[t] / 4 + dσ[t]*Z[t,d] / 4
dC td = dR[t,d]
dW_O vd = Σt{O[t,v]*dC[t,d]}
dO tv = Σd{dC[t,d]*W_O[v,d]}
dV sv = Σt{A[t,s]*dO[t,v]}
dA ts = Σv{dO[t,v]*V[s,v]}
dS ts = A[t,s]*(dA[t,s] - (Σu{dA[t,u]*A[t,u]}))
dQ te = (Σs{dS[t,s]*K[s,e]}) / 2
dK se = (Σt{dS[t,s]*Q[t,e]}) / 2
dW_Q de = Σt{X[t,d]*dQ[t,e]}
dW_K de = Σt{X[t,d]*dK[t,e]}
dW_V dv = Σt{X[t,d]*dV[t,v]}
dX td = dR[t,d] + Σe{dQ[t,e]*W_Q[d,e]} + Σe{dK[t,e]*W_K[d,e]} + Σv{dV[t,v]*W_V[d,v]}
dE td = dX[t,d]
dP td = dX[t,d]
"""

SIZES = dict.fromkeys("stuwx", 3) | {"d": 4, "e": 4, "f": 2, "v": 2}

ln2 = np.log(2)
P = np.array([[-1.0, 0, -1, 1], [1, 1, -1, -1], [1, 0, -1, -1]])
W_Q = ln2 * np.array([[2.0, -1, 1, -1], [0, 0, 0, 0], [1, 3, 0, 2], [3, 0, 1, -1]])
W_K = np.array([[0.0, 1, -1, 1], [0, 0, 0, 0], [-1, 0, 3, -1], [-1, 1, 0, 0]]) / 2
W_V = np.array([[-1.0, 2], [0, 0], [-4, 1], [-3, -1]]) / 2
W_O = np.array([[0.0, -1, 2, -2], [0, 0, 0.5, 0.5]])
W_1 = np.array([[0.0, 1], [1, 0], [-1, 0], [0, -1]])
W_2 = np.array([[0.0, 0, 1, -1], [-1, 0, 0, 1]])
U = ln2 * np.array([[2, -0.5, 0], [-1, 0.5, 1], [1, -1, 1], [0, 2, 0]])
heads = AttentionSpec(1, 4, 2, bias=False)
spec = LayerSpec(4, heads, 2, "post", norm=NormSpec(eps=1e-300), dtype="float64")
layer = EncoderLayer(spec, np.random.default_rng(0))
parameters = layer.parameters()
for name, weight in {
    "attention.branch.query_key_value": np.hstack([W_Q, W_K, W_V]),
    "attention.branch.output": W_O,
    "feed_forward.branch.hidden": W_1,
    "feed_forward.branch.output": W_2,
}.items():
    parameters[f"{name}.weight"][...] = weight

X = EMBEDDING + P
Y, caches = layer.forward(X[np.newaxis])
L, read_out = linear(Y[0], U)
p, weighed = softmax(L)
target = 1  # the loss reads the row of *chase* alone
loss, guessed = cross_entropy(L[[target]], np.array([target]))
dL = np.zeros_like(L)
dL[target] = cross_entropy_backward(1.0, guessed)[0]
dY, dU, _ = linear_backward(dL, read_out)
dX, grads = layer.backward(dY[np.newaxis], caches)

first, second = caches.attention, caches.feed_forward
ff, heads = second.branch, first.branch
dN = layer_norm_backward(dY[np.newaxis], second.norm)[0]
dG = linear_backward(dN, ff.output)[0]
dH = relu_backward(dG, ff.activation)
dZ = dN + linear_backward(dH, ff.hidden)[0]
dR = layer_norm_backward(dZ, first.norm)[0]
dO = linear_backward(dR, heads.output)[0]
dQ, dK, dV = attention_backward(dO[np.newaxis], heads.attention)
Q, K, V, A = (getattr(heads.attention, k)[0, 0] for k in ("query", "key", "value", "weights"))
dA = dO[0] @ V.T
dS = softmax_backward(dA[np.newaxis, np.newaxis], heads.attention.softmax)
Z, O, G = ff.hidden.x[0], heads.output.x[0], ff.output.x[0]  # noqa: E741
C, F = O @ W_O, G @ W_2
R, N = X + C, Z + F
dW_Q, dW_K, dW_V = np.split(grads["attention.branch.query_key_value.weight"], [4, 8], axis=1)
dp = np.zeros_like(p)
dp[target, target] = -1 / p[target, target]


def statistics(x, x_hat, dx_hat):
    """The mean and the deviation of each row, and their gradients."""
    std = x.std(axis=1)
    dmean, dstd = -dx_hat.sum(axis=1) / std, -(dx_hat * x_hat).sum(axis=1) / std
    return (x.mean(axis=1), dmean), (std, dstd)


mean, deviation = statistics(R, Z, dZ[0])
mean_N, deviation_N = statistics(N, Y[0], dY)
one, ln, squared = ("", 1), ("ln 2", ln2), ("(ln 2)²", ln2**2)
decimals = ("decimals", 1)
graph = Arrays("A whole encoder on *cats chase mice*", SUMS, SIZES)
graph.part(
    0, "230", "embedding + positions",
    E=(EMBEDDING, dX[0], one, decimals),
    P=(P, dX[0], one, decimals),
    X=(X, dX[0], one, decimals),
)  # fmt: skip
graph.part(
    1, "120", "queries, keys, values",
    W_Q=(W_Q, dW_Q, ln, ln), Q=(Q, dQ[0, 0], ln, ln),
    W_K=(W_K, dW_K, one, squared), K=(K, dK[0, 0], one, squared),
    W_V=(W_V, dW_V), V=(V, dV[0, 0]),
)  # fmt: skip
graph.part(1, "210", "scores", S=(Q @ K.T / 2, dS[0, 0], ln, ln))
graph.part(1, "130", "softmax of the scores", A=(A, dA))
graph.part(1, "210", "weights × values", O=(O, dO[0]))
dW_O = grads["attention.branch.output.weight"]
graph.part(1, "220", "heads joined, linear", W_O=(W_O, dW_O), C=(C, dR[0]))
graph.part(2, "270", "add", R=(R, dR[0]))
graph.part(3, "150", "LayerNorm", μ=mean, σ=deviation, Z=(Z, dZ[0]))
dW_1, dW_2 = (grads[f"feed_forward.branch.{part}.weight"] for part in ("hidden", "output"))
graph.part(
    4, "160", "feed-forward",
    W_1=(W_1, dW_1), H=(Z @ W_1, dH[0]), G=(G, dG[0]), W_2=(W_2, dW_2), F=(F, dN[0]),
)  # fmt: skip
graph.part(5, "270", "add", N=(N, dN[0]))
graph.part(6, "150", "LayerNorm", μ_N=mean_N, σ_N=deviation_N, Y=(Y[0], dY))
graph.part(7, "120", "output layer", U=(U, dU, ln, one), L=(L, dL, ln, one))
graph.part(8, "130", "softmax", p=(p, dp, one, one))
graph.part(9, "140", "cross-entropy", loss=(loss, 1.0, one, one))
graph.nodes["loss"].name, graph.nodes["loss"].back = "ℒ", "ℒ̄"
for node in graph.nodes.values():
    node.rows = () if node.key[0] in "WU" or node.key == "loss" else TOKENS

graph.narrate(f"""
E P X: Forward. Each word has a row in the table E, each position one in P; X is their sum.
    *chase*, in the middle, becomes {row(X[1])}.
W_Q Q W_K K W_V V: Three matrices make a query, a key and a value of each row.
S: Scores compare each query with each key: S = Q Kᵀ / √4. Those of *chase* are
    {row(Q[1] @ K.T / 2)}.
A: Softmax turns each row into weights. *chase* attends to the three words with {row(A[1])}.
O: The weights average the values: {row(O[1])} for *chase*.
W_O C: A matrix takes each row back to {C.shape[1]} numbers.
R: They are added to X: R = X + C.
μ σ Z: LayerNorm subtracts the mean μ of each row and divides by its deviation σ (γ is 1 and β is 0
    in this model): *chase* becomes {row(Z[1])}.
W_1 H G W_2 F: The feed-forward layer: a matrix, ReLU, a matrix (its biases are 0). At *chase*,
    {int((G[1] > 0).sum())} of {G.shape[1]} units is on.
N: Its output is added as well: N = Z + F.
μ_N σ_N Y: And normalised: *chase* is now {row(Y[0, 1])}.
U L: The output layer gives each word of the vocabulary a logit. (Its matrix is not the table E, so
    that the logits are multiples of ln 2.)
p: Softmax again: at *chase* the model gives *cats*, *chase* and *mice* {row(p[1])}.
loss: Suppose that the middle word is to be restored. It is *chase*, so ℒ = −ln {number(p[1, 1])} =
    {number(loss)}.
loss': Backward. The derivative of the loss by itself is 1.
p': Only one probability is in the loss: its gradient is −1 / p = {number(dp[1, 1])}.
L' U': Through softmax, p minus 1 at the right word: {row(dL[1])}. U gets the product of Y and this.
Y': Each row of Y gets the gradients of its logits, through U. Two rows are not in the loss: zeros.
μ_N' σ_N' N': Through LayerNorm, along three paths: directly, through the mean, through the
    deviation.
F' W_2' G' H' W_1': The sum passes its gradient on unchanged. The silent unit gets none, nor do its
    weights.
Z': Two paths add up: around the feed-forward layer, and through it.
μ' σ' R': LayerNorm once more. So far only the row of *chase* has a gradient.
C' W_O' O': The sum passes it on, the matrix takes it to the average of the values: {
    row(dO[0, 1] / ln2)
} ln 2.
V' A': Every value was in this average, so now all three words have a gradient.
S': Through softmax: a ⊙ (ā − ⟨ā, a⟩), which is {row(dS[0, 0, 1] / ln2)} ln 2 and
    sums to {number(dS[0, 0, 1].sum())}.
Q' W_Q' K' W_K' W_V': Queries get keys, keys get queries, and the matrices get what they
    multiplied.
X' E' P': Four paths meet at X: around the attention, and through queries, keys and values. The
    sums of multiples of ln 2 and of its square are written in decimals. A step of training moves
    every parameter against its gradient.
""")
