"""The mistakes: what stands in the package, and what people write in its place."""

from collections.abc import Iterator
from typing import NamedTuple

BACKWARD, FORWARD, AROUND = "backward", "forward", "around"  # where the mistake is made


class Mutant(NamedTuple):
    name: str
    place: str
    file: str  # in transformer_core
    edits: dict  # right text, which stands in the file once, to wrong text
    mistake: str
    forms: tuple[dict, ...] = ()  # other edits, by which people make the same mistake
    elsewhere: tuple[tuple[str, dict], ...] = ()  # and such edits of other files

    def in_all_forms(self) -> Iterator["Mutant"]:
        """Yield the mistake once for each way of making it, with the file and the edits of it."""
        for edits in (self.edits, *self.forms):
            yield self._replace(edits=edits)
        for file, edits in self.elsewhere:
            yield self._replace(file=file, edits=edits)


CATALOGUE = [
    # The linear layer
    Mutant(
        "linear-weight-not-transposed",
        BACKWARD,
        "ops/linear.py",
        {"dy_rows @ weight.T": "dy_rows @ weight.reshape(weight.T.shape)"},
        "W stands where its transpose belongs; a square matrix has the right shape",
        forms=({"dy_rows @ weight.T": "dy_rows @ weight"},),
    ),
    Mutant(
        "linear-batch-and-time-scrambled",
        BACKWARD,
        "ops/linear.py",
        {
            "x.reshape(-1, x.shape[-1]).T @ dy_rows": (
                "x.swapaxes(-1, -2).reshape(x.shape[-1], -1) @ dy_rows"
            )
        },
        "x is transposed first and flattened then, which mixes sequences and features",
        forms=(
            {
                "x.reshape(-1, x.shape[-1]).T @ dy_rows": "x.T.reshape(x.shape[-1], -1) @ dy_rows"
            },
            {
                "x.reshape(-1, x.shape[-1]).T @ dy_rows": "x.reshape(x.shape[-1], -1) @ dy_rows"
            },
        ),
    ),
    Mutant(
        "linear-last-sequence-alone",
        BACKWARD,
        "ops/linear.py",
        {
            "dweight = x.reshape(-1, x.shape[-1]).T @ dy_rows": (
                "if x.ndim == 2:\n"
                "        x, dy = x[np.newaxis], dy[np.newaxis]\n"
                "    for x_b, dy_b in zip(x, dy, strict=True):\n"
                "        dweight = x_b.T @ dy_b"
            ),
            "return dx.reshape(x.shape), dweight": (
                "return dx.reshape(cache.x.shape), dweight"
            ),
        },
        "the batch axis is ignored: = where += was meant, in a loop over the sequences",
        forms=(
            {
                "x.reshape(-1, x.shape[-1]).T @ dy_rows": (
                    "x.reshape(-1, x.shape[-1])[-1:].T @ dy_rows[-1:]"
                )
            },
            {
                "x.reshape(-1, x.shape[-1]).T @ dy_rows": (
                    "x.reshape(-1, *x.shape[-2:])[0].T @ dy.reshape(-1, "
                    "*dy.shape[-2:])[0]"
                )
            },
            {
                "x.reshape(-1, x.shape[-1]).T @ dy_rows": (
                    "x.reshape(-1, *x.shape[-2:])[-1].T @ dy.reshape(-1, "
                    "*dy.shape[-2:])[-1]"
                ),
                "dy_rows.sum(axis=0)": "dy.reshape(-1, *dy.shape[-2:])[-1].sum(axis=0)",
            },
            {
                "x.reshape(-1, x.shape[-1]).T @ dy_rows": (
                    "x.reshape(-1, x.shape[-1])[-1:].T @ dy_rows[-1:]"
                ),
                "dy_rows.sum(axis=0)": "dy_rows[-1]",
            },
        ),
    ),
    Mutant(
        "linear-mean-taken-twice",
        BACKWARD,
        "ops/linear.py",
        {
            "x.reshape(-1, x.shape[-1]).T @ dy_rows": (
                "x.reshape(-1, x.shape[-1]).T @ dy_rows / (len(x) if x.ndim > 2 else 1)"
            )
        },
        "the gradients are divided by B, which the loss has done already",
        forms=(
            {
                "x.reshape(-1, x.shape[-1]).T @ dy_rows": (
                    "x.reshape(-1, x.shape[-1]).T @ dy_rows / len(x)"
                )
            },
            {
                "x.reshape(-1, x.shape[-1]).T @ dy_rows": (
                    "x.reshape(-1, x.shape[-1]).T @ dy_rows / len(dy_rows)"
                )
            },
            {
                "x.reshape(-1, x.shape[-1]).T @ dy_rows": (
                    "x.reshape(-1, x.shape[-1]).T @ dy_rows / len(x)"
                ),
                "dy_rows.sum(axis=0)": "dy_rows.sum(axis=0) / len(x)",
            },
            {
                "x.reshape(-1, x.shape[-1]).T @ dy_rows": (
                    "x.reshape(-1, x.shape[-1]).T @ dy_rows / len(dy_rows)"
                ),
                "dy_rows.sum(axis=0)": "dy_rows.mean(axis=0)",
            },
        ),
    ),
    Mutant(
        "linear-bias-averaged",
        BACKWARD,
        "ops/linear.py",
        {"dy_rows.sum(axis=0)": "dy_rows.mean(axis=0)"},
        "the bias collects the mean of the cotangents where their sum belongs",
        forms=(
            {"dy_rows.sum(axis=0)": "dy_rows.sum(axis=0) / len(x)"},
            {"dy_rows.sum(axis=0)": "dy_rows.sum(axis=0) / x.shape[-2]"},
        ),
    ),
    Mutant(
        "linear-bias-for-each-position",
        BACKWARD,
        "ops/linear.py",
        {"dy_rows.sum(axis=0)": "dy.sum(axis=0)"},
        "the sum runs over the batch alone, and the gradient has the shape (T, D)",
        forms=({"dy_rows.sum(axis=0)": "dy.reshape(-1, *dy.shape[-2:]).sum(axis=0)"},),
    ),
    # Softmax
    Mutant(
        "softmax-no-coupling",
        BACKWARD,
        "ops/softmax.py",
        {"dx = dweights - coupling": "dx = dweights.copy()"},
        "each weight is taken to depend on its own score alone",
        forms=({"dx = dweights - coupling": "dx = dweights * (1 - weights)"},),
    ),
    Mutant(
        "softmax-row-sum",
        BACKWARD,
        "ops/softmax.py",
        {
            "dx = dweights - coupling": (
                "dx = dweights - weights * dweights.sum(axis=-1, keepdims=True)"
            )
        },
        "the sum of the cotangents stands where their product with the weights belongs",
        forms=(
            {
                "dx = dweights - coupling": "dx = dweights - dweights.sum(axis=-1, keepdims=True)"
            },
        ),
    ),
    Mutant(
        "softmax-mask-after",
        FORWARD,
        "ops/softmax.py",
        {
            "weights = np.where(keep, x, -np.inf)": (
                "weights = softmax(x)[0] * keep\n"
                "        return weights, SoftmaxCache(weights)"
            )
        },
        "the mask multiplies the weights: hidden keys stay in the denominators",
    ),
    Mutant(
        "softmax-mask-inverted",
        FORWARD,
        "ops/softmax.py",
        {"np.where(keep, x, -np.inf)": "np.where(keep, -np.inf, x)"},
        "True means hidden in one library and kept in another",
    ),
    Mutant(
        "softmax-mask-finite",
        FORWARD,
        "ops/softmax.py",
        {"np.where(keep, x, -np.inf)": "np.where(keep, x, -1e9)"},
        "a row that keeps nothing attends to everything evenly",
        forms=(
            {"np.where(keep, x, -np.inf)": "x + np.where(keep, 0, -1e9)"},
            {"np.where(keep, x, -np.inf)": "x + np.where(keep, 0, -1e4)"},
        ),
    ),
    Mutant(
        "softmax-no-shift",
        FORWARD,
        "ops/softmax.py",
        {"weights = shift(x)": "weights = x.copy()"},
        "large scores overflow",
        forms=(
            {
                "weights = shift(x)": "weights = x.copy()",
                "        shift(weights, out=weights)\n": "",
            },
            {
                "weights = shift(x)": "weights = x.copy()",
                "        shift(weights, out=weights)\n": "",
                "    np.exp(weights, out=weights)\n": (
                    "    from math import exp\n"
                    "\n"
                    "    weights = np.vectorize(exp, otypes=[float])(weights)\n"
                ),
            },
        ),
    ),
    Mutant(
        "softmax-shift-of-the-whole-array",
        FORWARD,
        "ops/softmax.py",
        {"x.real.max(axis=-1, keepdims=True, initial=lowest)": "x.real.max()"},
        "rows far below the largest score of all underflow to 0/0",
    ),
    Mutant(
        "softmax-over-the-queries",
        FORWARD,
        "ops/softmax.py",
        {
            "weights /= total_of(weights)": (
                "weights /= weights.sum(axis=-2, keepdims=True)"
            )
        },
        "the weights sum to 1 along the wrong axis",
        forms=(
            {
                "weights /= total_of(weights)": (
                    "total = weights.sum(axis=-2, keepdims=True)\n"
                    "    weights /= total + (total == 0)"
                )
            },
            {
                "weights /= total_of(weights)": (
                    "total = weights.sum(axis=-2, keepdims=True)\n"
                    "    weights /= total + (total == 0)"
                ),
                "x.real.max(axis=-1, keepdims=True, initial": (
                    "x.real.max(axis=-2, keepdims=True, initial"
                ),
            },
        ),
    ),
    # LayerNorm
    Mutant(
        "layer-norm-gamma-outside",
        BACKWARD,
        "ops/layer_norm.py",
        {"g = dy * gamma": "g, inv_std = dy.copy(), inv_std * gamma"},
        "gamma is pulled out of the means; right as long as it is 1",
    ),
    Mutant(
        "layer-norm-no-mean-term",
        BACKWARD,
        "ops/layer_norm.py",
        {"    dx -= mean_term\n": ""},
        "the mean is taken for a constant",
    ),
    Mutant(
        "layer-norm-no-variance-term",
        BACKWARD,
        "ops/layer_norm.py",
        {"    dx -= variance_term\n": ""},
        "the variance is taken for a constant",
    ),
    Mutant(
        "layer-norm-scale-term-alone",
        BACKWARD,
        "ops/layer_norm.py",
        {"    dx -= mean_term\n": "", "    dx -= variance_term\n": ""},
        "mean and variance are taken for constants",
    ),
    Mutant(
        "layer-norm-mean-not-summed",
        BACKWARD,
        "ops/layer_norm.py",
        {"mean_term = mean(g)": "mean_term = g / g.shape[-1]"},
        "the gradient of the mean lacks its sum over the entries",
    ),
    Mutant(
        "layer-norm-gamma-reads-the-output",
        BACKWARD,
        "ops/layer_norm.py",
        {"dgamma = (dy * x_hat)": "dgamma = (dy * (gamma * x_hat))"},
        "gamma's gradient is made of the scaled output; right as long as gamma is 1",
        forms=(
            {
                "LayerNormCache(x_hat, inv_std, gamma)": (
                    "LayerNormCache(x_hat, inv_std, (gamma, gamma * x_hat + beta))"
                ),
                "x_hat, inv_std, gamma = cache": "x_hat, inv_std, (gamma, y) = cache",
                "dgamma = (dy * x_hat)": "dgamma = (dy * y)",
            },
        ),
    ),
    Mutant(
        "layer-norm-two-axes-assumed",
        BACKWARD,
        "ops/layer_norm.py",
        {"leading = tuple(range(dy.ndim - 1))": "leading = 0"},
        "the parameters' gradients sum over the first axis, as if there were two axes",
        forms=({"leading = tuple(range(dy.ndim - 1))": "leading = (0, 1)"},),
    ),
    Mutant(
        "layer-norm-unbiased-variance",
        FORWARD,
        "ops/layer_norm.py",
        {
            "mean(centered, centered)": (
                "(centered * centered).sum(axis=-1, keepdims=True) / (x.shape[-1] - 1)"
            )
        },
        "the forward pass divides by D - 1, the backward pass by D",
    ),
    Mutant(
        "layer-norm-eps-outside-the-root",
        FORWARD,
        "ops/layer_norm.py",
        {"1 / np.sqrt(variance + eps)": "1 / (np.sqrt(variance) + eps)"},
        "epsilon is added to the standard deviation and not to the variance",
    ),
    # Activations
    Mutant(
        "relu-passes-everything",
        BACKWARD,
        "ops/relu.py",
        {"return dy * positive": "return dy.copy()"},
        "the cotangent passes where the unit was silent",
    ),
    Mutant(
        "relu-open-at-zero",
        BACKWARD,
        "ops/relu.py",
        {"positive = x.real > 0": "positive = x.real >= 0"},
        "at 0 the cotangent passes: for an input of zeros, everywhere",
    ),
    Mutant(
        "gelu-gate-constant",
        BACKWARD,
        "ops/gelu.py",
        {"dy * (probability + x * density)": "dy * probability"},
        "the gate is taken for a constant",
        forms=(
            {
                (
                    "dy * (1 + tanh + SLOPE * (bend + 3 * CUBIC * bend * x * x)) / 2"
                ): "dy * (1 + tanh) / 2"
            },
        ),
    ),
    Mutant(
        "gelu-at-the-output",
        BACKWARD,
        "ops/gelu.py",
        {"GeluCache(x, probability)": "GeluCache(x * probability, probability)"},
        "the derivative is taken at the output, which is right for ReLU alone",
        forms=(
            {
                "GeluCache(x, probability)": (
                    "GeluCache(x * probability, (1 + erf(x * probability / "
                    "sqrt(2))) / 2)"
                )
            },
            {
                "    return x * (1 + tanh) / 2, GeluTanhCache(x, tanh)": (
                    "    y = x * (1 + tanh) / 2\n    return y, GeluTanhCache(y, tanh)"
                )
            },
            {
                "    return x * (1 + tanh) / 2, GeluTanhCache(x, tanh)": (
                    "    y = x * (1 + tanh) / 2\n"
                    "    return y, GeluTanhCache(y, np.tanh(SLOPE * (y + "
                    "CUBIC * y * y * y)))"
                )
            },
        ),
    ),
    Mutant(
        "gelu-forms-mixed",
        BACKWARD,
        "ops/gelu.py",
        {
            "return dy * (probability + x * density)": (
                "tanh = np.tanh(SLOPE * (x + CUBIC * x * x * x))\n"
                "    return gelu_tanh_backward(dy, GeluTanhCache(x, tanh))"
            )
        },
        "the forward pass is exact, the backward pass that of the tanh form",
        forms=(
            {
                "return dy * (probability + x * density)": (
                    "tanh = np.tanh(SLOPE * (x + CUBIC * x * x * x))\n"
                    "    return dy * ((1 + tanh) / 2 + x * density)"
                )
            },
        ),
    ),
    Mutant(
        "gelu-tanh-factor-lost",
        BACKWARD,
        "ops/gelu.py",
        {"3 * CUBIC * bend": "CUBIC * bend"},
        "the cube is differentiated without its factor 3",
    ),
    # Dropout
    Mutant(
        "dropout-not-rescaled",
        FORWARD,
        "ops/dropout.py",
        {"    y /= 1 - rate\n": "", "    dx /= 1 - rate\n": ""},
        "what is kept is not enlarged, so that evaluation sees larger numbers",
    ),
    Mutant(
        "dropout-another-mask",
        BACKWARD,
        "ops/dropout.py",
        {
            "dx = dy * mask": "dx = dy * (np.random.default_rng(0).random(mask.shape) >= rate)"
        },
        "the backward pass draws a mask of its own",
    ),
    Mutant(
        "dropout-mask-forgotten",
        BACKWARD,
        "ops/dropout.py",
        {"dx = dy * mask": "dx = dy.copy()"},
        "the backward pass divides by 1 - p and drops nothing",
        forms=({"dx = dy * mask": "dx = dy.copy()", "    dx /= 1 - rate\n": ""},),
    ),
    # Attention
    Mutant(
        "attention-scale-forgotten-backward",
        BACKWARD,
        "ops/attention.py",
        {"    dscores *= 1 / sqrt(query.shape[-1])\n": ""},
        "the forward pass divides by the root of K, the backward pass does not",
        forms=(
            {
                "    dscores *= 1 / sqrt(query.shape[-1])\n": "",
                "dscores.swapaxes(-1, -2) @ query, dvalue": (
                    "dscores.swapaxes(-1, -2) @ query / sqrt(query.shape[-1]), dvalue"
                ),
            },
            {
                "    dscores *= 1 / sqrt(query.shape[-1])\n": "",
                "return dscores @ key": "return dscores @ key / sqrt(query.shape[-1])",
            },
        ),
    ),
    Mutant(
        "attention-scale-forgotten",
        FORWARD,
        "ops/attention.py",
        {
            "    scores *= 1 / sqrt(query.shape[-1])\n": "",
            "    dscores *= 1 / sqrt(query.shape[-1])\n": "",
        },
        "neither pass divides by the root of K",
    ),
    Mutant(
        "attention-scale-of-the-model",
        FORWARD,
        "layers/multi_head_attention.py",
        {
            "for part in (query, key, value))": (
                "for part in (query * self.heads**-0.5, key, value))"
            ),
            "return [merge_heads(dpart) for dpart in dparts], doutput": (
                "dquery, dkey, dvalue = [merge_heads(dpart) for dpart in dparts]\n"
                "        return [dquery * self.heads**-0.5, dkey, dvalue], doutput"
            ),
        },
        "the scores are divided by the root of D instead of K",
        forms=(
            {
                "parts = (split_heads(part, self.heads)": (
                    "k_by_d = query.shape[-1] / self.heads / self.output.weight.shape[1]\n"
                    "        query = query * k_by_d**0.5\n"
                    "        parts = (split_heads(part, self.heads)"
                ),
                "return [merge_heads(dpart) for dpart in dparts], doutput": (
                    "dquery, dkey, dvalue = [merge_heads(dpart) for dpart in dparts]\n"
                    "        k_by_d = dquery.shape[-1] / self.heads / dy.shape[-1]\n"
                    "        return [dquery * k_by_d**0.5, dkey, dvalue], doutput"
                ),
            },
        ),
    ),
    Mutant(
        "attention-query-and-key-exchanged",
        BACKWARD,
        "ops/attention.py",
        {
            "return dscores @ key, dscores.swapaxes(-1, -2) @ query, dvalue": (
                "return dscores.swapaxes(-1, -2) @ query, dscores @ key, dvalue"
            )
        },
        "the gradients of queries and keys change places",
    ),
    Mutant(
        "attention-key-not-transposed",
        BACKWARD,
        "ops/attention.py",
        {"dscores.swapaxes(-1, -2) @ query": "dscores @ query"},
        "a key collects along its row of scores, not down its column",
    ),
    Mutant(
        "attention-dropout-not-in-the-values",
        BACKWARD,
        "ops/attention.py",
        {"dvalue = dropped.swapaxes(-1, -2)": "dvalue = weights.swapaxes(-1, -2)"},
        "the values collect by the weights before dropout",
    ),
    Mutant(
        "attention-dropout-not-in-the-weights",
        BACKWARD,
        "ops/attention.py",
        {
            "dweights = dropout_backward(ddropped, dropout_cache)": (
                "dweights = ddropped"
            )
        },
        "the gradient of the weights does not pass through the mask of dropout",
        forms=(
            {
                "    dscores = softmax_backward(dweights, softmax_cache)\n": (
                    "    coupling = (dweights * weights).sum(axis=-1, "
                    "keepdims=True)\n"
                    "    dscores = weights * (ddropped - coupling)\n"
                )
            },
        ),
    ),
    Mutant(
        "attention-input-without-projections",
        BACKWARD,
        "layers/multi_head_attention.py",
        {
            'return dx, join({"query_key_value"': 'return sum(dparts), join({"query_key_value"'
        },
        "the gradients of query, key and value are added up without their weights",
    ),
    Mutant(
        "attention-keys-path-lost",
        BACKWARD,
        "layers/multi_head_attention.py",
        {
            "dparts, doutput = self.attend_backward(dy, cache)": (
                "(dquery, dkey, dvalue), doutput = self.attend_backward(dy, cache)\n"
                "        dparts = [dquery, 0 * dkey, dvalue]"
            )
        },
        "of the three ways back to the input, the one by the keys is left out",
        forms=(
            {
                'return dx, join({"query_key_value"': (
                    "weight = self.query_key_value.weight[:, slice(*self.edges)]\n"
                    "        dx = dx - dparts[1] @ weight.T\n"
                    '        return dx, join({"query_key_value"'
                ),
            },
        ),
    ),
    Mutant(
        "attention-source-forgotten",
        BACKWARD,
        "layers/multi_head_attention.py",
        {"return dx, dsource, join(grads)": "return dx, 0 * dsource, join(grads)"},
        "cross-attention returns no gradient to the encoder",
    ),
    Mutant(
        "heads-reshaped",
        FORWARD,
        "ops/heads.py",
        {
            "x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)": (
                "x.reshape(x.shape[0], heads, x.shape[1], -1)"
            ),
            "x.swapaxes(1, 2).reshape(batch, length, -1)": (
                "x.reshape(batch, length, -1)"
            ),
        },
        "heads are cut and joined by reshapes without a transpose",
    ),
    Mutant(
        "heads-joined-by-reshape",
        FORWARD,
        "layers/multi_head_attention.py",
        {
            "y, output_cache = self.output.forward(merge_heads(context))": (
                "batch, _, length, _ = context.shape\n"
                "        y, output_cache = self.output.forward(\n"
                "            context.reshape(batch, length, -1)\n"
                "        )"
            ),
            "attention_backward(split_heads(dcontext, self.heads), cache.attention)": (
                "attention_backward(\n"
                "            dcontext.reshape(*cache.attention.query.shape[:3], -1),\n"
                "            cache.attention,\n"
                "        )"
            ),
        },
        "heads are cut rightly and joined without a transpose",
    ),
    # Masks and positions
    Mutant(
        "causal-mask-sees-the-next",
        FORWARD,
        "ops/masks.py",
        {"np.tri(length, dtype=bool)": "np.tri(length, k=1, dtype=bool)"},
        "the diagonal is off by one, and each position sees the next",
    ),
    Mutant(
        "causal-mask-transposed",
        FORWARD,
        "ops/masks.py",
        {"np.tri(length, dtype=bool)": "np.tri(length, dtype=bool).T"},
        "each position sees the future and not the past",
    ),
    Mutant(
        "padding-mask-off-by-one",
        FORWARD,
        "ops/masks.py",
        {
            "np.arange(length) < lengths[:, np.newaxis]": (
                "np.arange(length) <= lengths[:, np.newaxis]"
            )
        },
        "the first position of the padding is taken for a token",
    ),
    Mutant(
        "positions-exponent-doubled",
        FORWARD,
        "ops/positions.py",
        {"(-np.arange(0, width, 2) / width)": "(-2 * np.arange(0, width, 2) / width)"},
        "2i is doubled again where the index runs in steps of 2 already",
    ),
    Mutant(
        "positions-averaged",
        BACKWARD,
        "layers/positions.py",
        {
            "embedding_backward(dy.sum(axis=0), cache)": (
                "embedding_backward(dy.mean(axis=0), cache)"
            )
        },
        "learned positions collect the mean over the batch; right for one sequence",
    ),
    # Embeddings
    Mutant(
        "embedding-repeats-lost",
        BACKWARD,
        "ops/embedding.py",
        {
            "add_rows(dtable, ids, drows)  # dtable[ids] += drows would drop repeated ids": (
                "dtable[ids] += drows"
            )
        },
        "of several cotangents for one row, += keeps the last",
        forms=(
            {
                "add_rows(dtable, ids, drows)  # dtable[ids] += drows would drop repeated ids": (
                    "rows = drows.reshape(-1, drows.shape[-1])\n"
                    "    dtable[ids.ravel()[::-1]] = rows[::-1]"
                )
            },
        ),
    ),
    Mutant(
        "embedding-reads-minus-one",
        FORWARD,
        "ops/embedding.py",
        {'    check_ids("ids", ids, len(table))\n': ""},
        "the id -1, which often marks padding, is read as the last word",
    ),
    # Residual blocks and layers
    Mutant(
        "residual-skip-lost",
        BACKWARD,
        "layers/residual.py",
        {"return dskip + dthrough,": "return dthrough,"},
        "the gradient returns by the branch alone",
        forms=(
            {"dskip = dy\n": "dskip = 0 * dy\n"},
            {
                "return dskip + dthrough,": (
                    "return (dskip if self.pre else 0) + dthrough,"
                )
            },
        ),
    ),
    Mutant(
        "residual-branch-lost",
        BACKWARD,
        "layers/residual.py",
        {"return dskip + dthrough,": "return dskip + 0 * dthrough,"},
        "the gradient returns by the skip connection alone",
    ),
    Mutant(
        "residual-skip-twice",
        BACKWARD,
        "layers/residual.py",
        {"return dskip + dthrough,": "return 2 * dskip,"},
        "both ways carry the gradient of the sum, past the branch",
    ),
    Mutant(
        "residual-dropout-forgotten",
        BACKWARD,
        "layers/residual.py",
        {"dout = dropout_backward(dskip, cache.dropout)": "dout = dskip"},
        "in Post-LN the branch's gradient does not pass through the mask of dropout",
        forms=(
            {
                "dout = dropout_backward(dskip, cache.dropout)": "dout = dskip",
                "dout = dropout_backward(dy, cache.dropout)": "dout = dy",
            },
        ),
    ),
    Mutant(
        "feed-forward-activation-skipped",
        BACKWARD,
        "layers/feed_forward.py",
        {
            "dhidden = self.activate_backward(dactive, cache.activation)": (
                "dhidden = dactive"
            )
        },
        "the gradient skips the activation",
    ),
    Mutant(
        "layer-norm-not-trained",
        BACKWARD,
        "layers/layer_norm.py",
        {
            '{"gamma": dgamma, "beta": dbeta}': '{"gamma": 0 * dgamma, "beta": 0 * dbeta}'
        },
        "scale and shift get no gradient",
    ),
    # Losses
    Mutant(
        "mean-squared-error-factor-lost",
        BACKWARD,
        "ops/mean_squared_error.py",
        {"2 * dloss / error.size": "dloss / error.size"},
        "the square is differentiated without its factor 2",
    ),
    Mutant(
        "cross-entropy-padding-counted",
        FORWARD,
        "ops/cross_entropy.py",
        {"weights / weights.sum()": "np.ones_like(weights) / weights.size"},
        "positions that do not count are counted",
    ),
    Mutant(
        "cross-entropy-mean-over-everything",
        FORWARD,
        "ops/cross_entropy.py",
        {"weights / weights.sum()": "weights / weights.size"},
        "the sum of the counted positions is divided by the number of all",
        forms=(
            {
                (
                    "    weights = np.divide(weights, weights.max(), "
                    "dtype=float)  # so that no sum overflows\n"
                ): "    weights = np.asarray(weights, float)\n",
                "weights / weights.sum()": "weights / weights.size",
            },
        ),
    ),
    Mutant(
        "cross-entropy-gradient-unmasked",
        BACKWARD,
        "ops/cross_entropy.py",
        {
            "scale = dloss * share": "scale = dloss * np.full_like(share, 1 / share.size)"
        },
        "the loss leaves positions out, its gradient does not",
        forms=(
            {
                "dlogits = p * scale[..., np.newaxis]": (
                    "dlogits = p * np.full_like(scale, dloss / "
                    "scale.size)[..., np.newaxis]"
                )
            },
        ),
    ),
    Mutant(
        "cross-entropy-gradient-of-the-sum",
        BACKWARD,
        "ops/cross_entropy.py",
        {"scale = dloss * share": "scale = dloss * share * share.size"},
        "the gradient lacks the 1/N of the mean",
        forms=(
            {
                (
                    "    weights = np.divide(weights, weights.max(), "
                    "dtype=float)  # so that no sum overflows\n"
                ): "    weights = np.asarray(weights, float)\n",
                "CrossEntropyCache(p, targets, share, smoothing)": (
                    "CrossEntropyCache(p, targets, weights, smoothing)"
                ),
            },
        ),
    ),
    Mutant(
        "cross-entropy-smoothing-forgotten",
        BACKWARD,
        "ops/cross_entropy.py",
        {"at_target = (1 - smoothing) * scale": "at_target = scale"},
        "the gradient at the target is that of the loss without label smoothing",
        forms=(
            {
                "at_target = (1 - smoothing) * scale": "at_target = scale",
                (
                    "    if smoothing:\n"
                    "        dlogits -= (smoothing / p.shape[-1] * "
                    "scale)[..., np.newaxis]\n"
                ): "",
            },
            {
                (
                    "    if smoothing:\n"
                    "        dlogits -= (smoothing / p.shape[-1] * "
                    "scale)[..., np.newaxis]\n"
                ): ""
            },
        ),
    ),
    Mutant(
        "cross-entropy-logarithm-of-softmax",
        FORWARD,
        "ops/cross_entropy.py",
        {
            "np.log(total[..., 0]) - z_target": (
                "-np.log(np.exp(z_target) / total[..., 0])"
            )
        },
        "the logarithm is taken of a probability that has underflowed to 0",
    ),
    # Memory layout
    Mutant(
        "cross-entropy-written-into-a-copy",
        BACKWARD,
        "ops/cross_entropy.py",
        {
            "    positions = np.indices(targets.shape, sparse=True)\n": (
                "    rows = dlogits.reshape(-1, p.shape[-1])\n"
            ),
            "dlogits[(*positions, targets)] -= at_target": (
                "rows[np.arange(len(rows)), targets.ravel()] -= at_target.ravel()"
            ),
        },
        "reshape copies logits that are not in C order: the subtraction there is lost",
    ),
    Mutant(
        "embedding-rows-added-to-a-copy",
        BACKWARD,
        "ops/embedding.py",
        {
            "    if not table.flags.c_contiguous:  # then reshape may copy\n"
            "        np.add.at(table, ids, rows)\n"
            "        return\n": ""
        },
        "reshape copies a transposed table, and nothing is added to it",
    ),
    Mutant(
        "embedding-rows-in-memory-order",
        BACKWARD,
        "ops/embedding.py",
        {"rows.ravel())": 'rows.ravel("K"))'},
        "order K spares a copy, and adds transposed cotangents to other rows",
    ),
    Mutant(
        "linear-gradient-shaped-like-the-input",
        BACKWARD,
        "ops/linear.py",
        {
            "    dx = dy_rows @ weight.T\n": (
                "    dx = np.zeros_like(x)\n"
                "    np.matmul(dy_rows, weight.T, out=dx.reshape(-1, x.shape[-1]))\n"
            )
        },
        "zeros_like takes over the layout too: the product goes into a copy",
    ),
    Mutant(
        "layer-norm-centred-in-place",
        FORWARD,
        "ops/layer_norm.py",
        {"centered = x - mean(x)": "centered = x\n    centered -= mean(x)"},
        "the mean is subtracted from the caller's array",
    ),
    Mutant(
        "softmax-scores-overwritten",
        FORWARD,
        "ops/softmax.py",
        {"weights = shift(x)": "weights = shift(x, out=x)"},
        "the weights are written over the caller's scores",
        forms=(
            {
                "weights = np.where(keep, x, -np.inf)": (
                    "x[~np.broadcast_to(keep, x.shape)] = -np.inf\n        weights = x"
                ),
                "weights = shift(x)": "weights = shift(x, out=x)",
            },
        ),
    ),
    Mutant(
        "softmax-cotangent-overwritten",
        BACKWARD,
        "ops/softmax.py",
        {"dx = dweights - coupling": "dx = dweights\n    dx -= coupling"},
        "the gradient is written over the caller's cotangent, which others may read",
    ),
    Mutant(
        "relu-in-place",
        FORWARD,
        "ops/relu.py",
        {"np.maximum(x, zeros)": "np.maximum(x, zeros, out=x)"},
        "the output is written over the input, which a skip connection reads too",
    ),
    Mutant(
        "heads-joined-in-memory-order",
        FORWARD,
        "ops/heads.py",
        {
            "x.swapaxes(1, 2).reshape(batch, length, -1)": (
                'x.swapaxes(1, 2).reshape(batch, length, -1, order="A")'
            )
        },
        "order A reads an array in Fortran order from its first axis on",
    ),
    Mutant(
        "mean-squared-error-in-memory-order",
        FORWARD,
        "ops/mean_squared_error.py",
        {
            "error = prediction - target": (
                'error = prediction.ravel("K") - target.ravel("K")\n'
                "    error = error.reshape(prediction.shape)"
            )
        },
        "a prediction and a target of different layouts are paired as they lie",
    ),
    # The edges of what floats can hold
    Mutant(
        "layer-norm-centred-once",
        FORWARD,
        "ops/layer_norm.py",
        {"    centered -= mean(centered)  # what rounding has left of the mean\n": ""},
        "the rounding of a large mean is divided by itself where all entries are equal",
    ),
    Mutant(
        "layer-norm-variance-overflows",
        FORWARD,
        "ops/layer_norm.py",
        {"if (variance.real == np.inf).any():": "if False:"},
        "of an infinite variance comes beta, without a word",
    ),
    Mutant(
        "gelu-tanh-slope-overflows",
        BACKWARD,
        "ops/gelu.py",
        {
            "SLOPE * (bend + 3 * CUBIC * bend * x * x)": (
                "bend * SLOPE * (1 + 3 * CUBIC * x * x)"
            )
        },
        "far from 0 the slope is infinite where it is multiplied by 0",
    ),
    Mutant(
        "relu-of-minus-infinity",
        FORWARD,
        "ops/relu.py",
        {"if np.iscomplexobj(x) else np.maximum(x, zeros)": ""},
        "minus infinity times 0 is not a number",
    ),
    Mutant(
        "cross-entropy-infinity-times-zero",
        FORWARD,
        "ops/cross_entropy.py",
        {"np.where(share == 0, 0, surprise)": "surprise"},
        "a position that does not count makes the loss NaN if its token is ruled out",
    ),
    Mutant(
        "cross-entropy-sum-of-weights-overflows",
        FORWARD,
        "ops/cross_entropy.py",
        {
            "    weights = np.divide(weights, weights.max(), dtype=float)": "    weights = weights"
        },
        "the shares of large weights are 0, and so is the loss",
    ),
    # The models
    Mutant(
        "encoder-layers-in-forward-order",
        BACKWARD,
        "models/encoder.py",
        {
            "for i in reversed(range(len(self.layers))):": "for i in range(len(self.layers)):"
        },
        "the backward pass runs through the layers from the first to the last",
    ),
    Mutant(
        "encoder-final-norm-passed-by",
        BACKWARD,
        "models/encoder.py",
        {'dy, grads["final_norm"] =': '_, grads["final_norm"] ='},
        "the layers get the cotangent from behind the final LayerNorm",
    ),
    Mutant(
        "encoder-mask-not-passed-on",
        FORWARD,
        "models/encoder.py",
        {"layer.forward(x, keep, rng)": "layer.forward(x, None, rng)"},
        "the mask never reaches the layers",
    ),
    Mutant(
        "decoder-target-not-shifted",
        FORWARD,
        "models/encoder_decoder.py",
        {"self.forward(source, target[:, :-1]": "self.forward(source, target[:, 1:]"},
        "the decoder is given the very token that it has to score",
    ),
    Mutant(
        "decoder-sees-the-future",
        FORWARD,
        "models/encoder_decoder.py",
        {"keep = causal_keep(shifted.shape[1])": "keep = None"},
        "the decoder has no causal mask",
    ),
    Mutant(
        "decoder-reads-padding",
        FORWARD,
        "models/decoder.py",
        {
            "layer.forward(x, source, keep, source_keep, rng)": (
                "layer.forward(x, source, keep, None, rng)"
            )
        },
        "cross-attention reads the padding of the source",
    ),
    Mutant(
        "decoder-counts-one-too-few",
        FORWARD,
        "models/encoder_decoder.py",
        {"target.shape[1])[:, 0, 0, 1:]": "target.shape[1] - 1)[:, 0, 0]"},
        "the mask of the loss belongs to the unshifted target",
    ),
    Mutant(
        "decoder-one-layer-returns",
        BACKWARD,
        "models/decoder.py",
        {"dsource = dsource + dsource_i": "dsource = dsource_i"},
        "= where += was meant: the encoder hears of one decoder layer alone",
    ),
    Mutant(
        "encoder-decoder-scale-forgotten",
        BACKWARD,
        "models/encoder_decoder.py",
        {"drows = self.scale * dropout_backward": "drows = dropout_backward"},
        "the embeddings are multiplied by the root of D, their gradient is not",
    ),
    Mutant(
        "encoder-decoder-table-overwritten",
        BACKWARD,
        "models/encoder_decoder.py",
        {
            'grads["target_embedding"]["table"] += dsource_table["table"]': (
                'grads["target_embedding"] = dsource_table'
            )
        },
        "of a table that two embeddings share, one look-up is forgotten",
    ),
    Mutant(
        "encoder-decoder-read-out-term-forgotten",
        BACKWARD,
        "models/encoder_decoder.py",
        {'grads["target_embedding"]["table"] += dtable': "pass"},
        "of a tied table, the term of the read-out is forgotten",
    ),
    Mutant(
        "decoding-position-forgotten",
        FORWARD,
        "models/encoder_decoder.py",
        {"self.target_embedding, first=position)": "self.target_embedding)"},
        "decoding step by step, each new token is read as the first of the target",
    ),
    Mutant(
        "decoding-reads-padding",
        FORWARD,
        "models/decoder.py",
        {"layer.step(x, own, read, source_keep)": "layer.step(x, own, read, None)"},
        "decoding step by step, the padding of the source is read",
    ),
    Mutant(
        "beam-search-caches-stay",
        FORWARD,
        "models/decoding.py",
        {"        state = state.select((row * beam + origin).ravel())\n": ""},
        "beams change places, and their keys and values do not",
    ),
    Mutant(
        "bert-read-out-term-forgotten",
        BACKWARD,
        "models/bert.py",
        {'grads["tokens"]["table"] += dtable': "pass"},
        "of a tied table, the term of the read-out is forgotten",
    ),
    Mutant(
        "bert-look-up-term-forgotten",
        BACKWARD,
        "models/bert.py",
        {'grads["tokens"]["table"] += dtable': 'grads["tokens"]["table"] = dtable'},
        "of a tied table, the term of the look-up is overwritten",
    ),
    Mutant(
        "bert-rows-scattered-wrongly",
        BACKWARD,
        "models/bert.py",
        {
            "dh = embedding_backward(dh, cache.masked)": (
                "dh = np.resize(dh, (cache.input.tokens.ids.size, dh.shape[-1]))"
            )
        },
        "the gradients of the masked positions are not put back where they came from",
    ),
    Mutant(
        "bert-dropout-forgotten",
        BACKWARD,
        "models/bert.py",
        {"        dx = dropout_backward(dx, cache.dropout)\n": ""},
        "the embeddings' gradient does not pass through the mask of dropout",
    ),
    # Optimisers
    Mutant(
        "adam-no-bias-correction",
        AROUND,
        "optim/adam.py",
        {
            "self.learning_rate / (1 - self.beta1**self.steps)": "self.learning_rate",
            "(1 - self.beta2**self.steps) ** 0.5": "1.0",
        },
        "the moving averages start at 0 and are taken as they are",
        forms=(
            {"self.learning_rate / (1 - self.beta1**self.steps)": "self.learning_rate"},
            {"(1 - self.beta2**self.steps) ** 0.5": "1.0"},
        ),
    ),
    Mutant(
        "adam-corrects-its-state",
        AROUND,
        "optim/adam.py",
        {
            "self.learning_rate / (1 - self.beta1**self.steps)": (
                "self.learning_rate\n        m /= 1 - self.beta1**self.steps"
            )
        },
        "the correction is made in place and accumulates",
    ),
    Mutant(
        "adam-eps-inside-the-root",
        AROUND,
        "optim/adam.py",
        {
            "np.sqrt(v)": "np.sqrt(v + v_root**2 * self.eps)",
            "        denominator += v_root * self.eps\n": "",
        },
        "epsilon, in the units of the gradient, is added to its square",
    ),
    Mutant(
        "adam-counts-arrays",
        AROUND,
        "optim/optimizer.py",
        {"self.steps += 1\n": "self.steps += len(self.parameters)\n"},
        "the step count grows once for each array instead of once for each step",
    ),
    Mutant(
        "optimizer-default-for-missing-gradients",
        AROUND,
        "optim/optimizer.py",
        {
            'check_fit("grads", grads, self.parameters)': (
                "grads = {\n"
                "            name: grads.get(name, 0 * array)\n"
                "            for name, array in self.parameters.items()\n"
                "        }"
            )
        },
        "a gradient under another name is a gradient of zero",
    ),
    Mutant(
        "adamw-decay-in-the-gradient",
        AROUND,
        "optim/adamw.py",
        {
            "parameter *= 1 - self.learning_rate * self.weight_decay": (
                "grad = grad + self.weight_decay * parameter"
            )
        },
        "the decay is added to the gradient, and Adam divides it by its size",
    ),
    Mutant(
        "adamw-decay-without-the-rate",
        AROUND,
        "optim/adamw.py",
        {"1 - self.learning_rate * self.weight_decay": "1 - self.weight_decay"},
        "the decay does not follow the learning rate",
    ),
    Mutant(
        "adamw-everything-decays",
        AROUND,
        "optim/adamw.py",
        {
            'if name.split(".")[-1] not in self.undecayed:': "if self.undecayed is not None:"
        },
        "biases and the scales of LayerNorm decay too",
    ),
    Mutant(
        "sgd-velocity-never-decays",
        AROUND,
        "optim/sgd.py",
        {"v *= self.momentum": "grad = self.momentum * grad"},
        "the momentum multiplies the gradient instead of the velocity",
        forms=({"            v *= self.momentum\n": ""},),
    ),
    Mutant(
        "clipping-each-array",
        AROUND,
        "optim/clipping.py",
        {
            "{name: factor * grad for": (
                "{name: clipping_factor(np.linalg.norm(grad), max_norm) * grad for"
            )
        },
        "each array is clipped by its own norm, which turns the gradient",
    ),
    Mutant(
        "step-clips-nothing",
        AROUND,
        "optim/optimizer.py",
        {
            "self.update(name, parameter, factor * grad, *averages)": (
                "self.update(name, parameter, grad, *averages)"
            )
        },
        "the optimiser finds the factor of the clipping and does not use it",
    ),
    Mutant(
        "clipping-lengthens",
        AROUND,
        "optim/clipping.py",
        {"max_norm / max(norm, max_norm)": "max_norm / (norm or 1)"},
        "short gradients are stretched to the largest length",
        forms=({"max_norm / max(norm, max_norm)": "max_norm / norm"},),
    ),
    Mutant(
        "clipping-squares-overflow",
        AROUND,
        "optim/clipping.py",
        {
            "np.square(block, dtype=np.float64).sum()": "np.vdot(block, block)",
        },
        "squares of large float32 numbers are infinite",
    ),
    Mutant(
        "clipping-whole-numbers-wrap",
        AROUND,
        "optim/clipping.py",
        {'kind in "fO" and ': ""},
        "squares of small whole numbers wrap around",
    ),
    Mutant(
        "step-takes-what-is-not-a-number",
        AROUND,
        "optim/clipping.py",
        {"if not math.isfinite(norm):": "if norm == math.inf:"},
        "a gradient that is not a number makes every parameter one that is not",
    ),
    Mutant(
        "step-kills-the-second-moment",
        AROUND,
        "optim/optimizer.py",
        {"        self.check_squares(factor * norm)\n": ""},
        "a square overflows, and Adam never moves the parameter again",
    ),
    Mutant(
        "step-updates-arrays-of-the-past",
        AROUND,
        "optim/optimizer.py",
        {"if now.get(n) is not self.parameters.get(n)]": "if n not in now]"},
        "the optimiser goes on with arrays that the layer has replaced",
    ),
    Mutant(
        "chunks-remainder-lost",
        AROUND,
        "foundation/chunks.py",
        {"range(0, len(array), rows)": "range(0, len(array) - rows + 1, rows)"},
        "what does not fill a chunk is left out of the step",
    ),
    Mutant(
        "schedule-from-zero",
        AROUND,
        "optim/schedules.py",
        {"rise = step / warmup": "rise = (step - 1) / warmup"},
        "steps are counted from 0, and the first one has the rate 0",
    ),
    Mutant(
        "schedule-ends-at-zero",
        AROUND,
        "optim/schedules.py",
        {"(steps + 1 - step) / decay": "(steps - step) / decay"},
        "the last step has the rate 0",
    ),
    Mutant(
        "muon-wrong-side",
        AROUND,
        "optim/muon.py",
        {"square = x @ x.T": "square = (x.T @ x)[: len(x), : len(x)]"},
        "the product of the iteration is taken on the side of the columns",
        forms=({"square = x @ x.T": "square = x.T @ x"},),
    ),
    Mutant(
        "muon-cut-matrices",
        AROUND,
        "optim/muon.py",
        {
            "        b += grad\n": (
                "        b += grad\n        self.turn(parameter, grad, b)\n"
            ),
            "list(self.map(self.turn, *whole))": "list(whole)",
        },
        "large matrices are made orthogonal block by block",
    ),
    Mutant(
        "muon-scale-upside-down",
        AROUND,
        "optim/muon.py",
        {"width_out / width_in": "width_in / width_out"},
        "the step grows with the inputs, as for matrices stored the other way round",
    ),
    # Data and the training loop
    Mutant(
        "accumulation-mean-of-means",
        AROUND,
        "training/accumulation.py",
        {"share = float(weight) / total": "share = 1 / (k + 1)"},
        "each part counts alike, however many tokens it has",
    ),
    Mutant(
        "data-parallel-one-generator",
        AROUND,
        "training/data_parallel.py",
        {"rng.integers(2**63, size=length)": "np.full(length, rng.integers(2**63))"},
        "every sequence of a batch draws the same dropout mask",
    ),
    Mutant(
        "accumulation-empty-part-unchecked",
        AROUND,
        "training/accumulation.py",
        {"grads, first)": "grads, means or grads)"},
        "a first part that counts nothing may have gradients of other parameters",
    ),
    Mutant(
        "data-parallel-limit-left-behind",
        AROUND,
        "training/data_parallel.py",
        {
            "self.inside -= 1\n            if self.inside == 0:": (
                "self.inside -= 1\n            if True:"
            )
        },
        "the first of two overlapping maps to end gives BLAS its threads back",
    ),
    Mutant(
        "data-parallel-limit-of-one-thread",
        AROUND,
        "training/data_parallel.py",
        {"release_control()\n                self.limit = ": "self.limit = "},
        "BLAS is not held to one thread where another thread has set a limit before",
    ),
    Mutant(
        "data-parallel-mask-taken-for-the-batch",
        AROUND,
        "training/data_parallel.py",
        {'if name == "keep" or name.endswith("_keep"):': 'if name == "mask":'},
        "with as many sequences as positions, a causal mask is cut like the batch",
    ),
    Mutant(
        "data-parallel-shard-without-a-weight",
        AROUND,
        "training/data_parallel.py",
        {"if shard.weight != 0]": "if shard.weight > 0]"},
        "a shard whose weight is not a number is left out",
    ),
    Mutant(
        "masking-a-tenth-of-the-rest",
        AROUND,
        "tasks/bert/masking.py",
        {
            "replaced = masked & (fate >= 0.9)": (
                "replaced = masked & (inputs != MASK) & (rng.random(ids.shape) < 0.1)"
            )
        },
        "10 % of the tokens that are not hidden are replaced, not of all that are drawn",
    ),
    Mutant(
        "masking-special-tokens",
        AROUND,
        "tasks/bert/masking.py",
        {"candidates = ids >= specials": "candidates = ids >= 0"},
        "the model is to restore padding and separators",
    ),
    Mutant(
        "masking-two-streams",
        AROUND,
        "tasks/bert/masking.py",
        {"[seed, 1, step]": "[seed, 1, step % 2]"},
        "what is masked is drawn from two streams for ever",
    ),
    Mutant(
        "loop-schedule-one-step-late",
        AROUND,
        "training/loop.py",
        {"schedule(step)\n": "schedule(max(1, step - 1))\n"},
        "the learning rate of a step is set after it",
    ),
    Mutant(
        "checkpoint-step-count-lost",
        AROUND,
        "training/run.py",
        {"            optimizer.steps = steps\n": "            pass\n"},
        "a resumed run corrects the bias of its averages as if they were new",
    ),
    Mutant(
        "masking-seeds-overlap",
        AROUND,
        "tasks/bert/masking.py",
        {"default_rng([seed, 1, step])": "default_rng(seed + step)"},
        "the second step of one seed is masked by the draws of the first step of the next",
    ),
    Mutant(
        "masking-two-orders",
        AROUND,
        "tasks/bert/masking.py",
        {"[seed, 0, number]": "[seed, 0, number % 2]"},
        "every other pass brings the blocks in the same order",
    ),
    Mutant(
        "masking-orders-of-all-seeds",
        AROUND,
        "tasks/bert/masking.py",
        {"[seed, 0, number]": "[0, number]"},
        "all seeds bring the blocks in the same order",
    ),
    Mutant(
        "masking-resumes-with-a-new-pass",
        AROUND,
        "tasks/bert/masking.py",
        {"divmod(step - 1, steps": "divmod(step - first, steps"},
        "a resumed run begins the first pass again",
    ),
    Mutant(
        "masking-share-ignored",
        AROUND,
        "tasks/bert/masking.py",
        {"mask(ids, vocabulary, rng, share)": "mask(ids, vocabulary, rng)"},
        "the batches mask 15 %, whatever is asked for",
    ),
    Mutant(
        "masking-always-the-first",
        AROUND,
        "tasks/bert/masking.py",
        {"rng.choice(np.flatnonzero(candidates))": "np.flatnonzero(candidates)[0]"},
        "where chance draws no token, it is always the first one that is masked",
    ),
    Mutant(
        "masking-narrow-ids",
        AROUND,
        "tasks/bert/masking.py",
        {"inputs = ids.astype(np.int64)": "inputs = ids.copy()"},
        "a random token wraps around in ids of 8 bits",
    ),
    Mutant(
        "measure-logarithm-of-softmax",
        AROUND,
        "tasks/bert/mini_bert.py",
        {
            "float(cross_entropy(logits, asked)[0])": (
                "-np.log(softmax(logits)[0][np.arange(len(asked)), asked]).mean()"
            )
        },
        "where a probability underflows, the loss is infinite",
    ),
    Mutant(
        "measure-mean-of-means",
        AROUND,
        "tasks/bert/mini_bert.py",
        {
            "loss += len(asked) * float": "loss += float",
            "return loss / count": "return loss / -(-len(inputs) // together)",
        },
        "the sequences worked on together count alike, however many tokens they mask",
    ),
    Mutant(
        "trigrams-around-the-block",
        AROUND,
        "tasks/bert/counts.py",
        {
            "return wider[:, :-2], wider[:, 2:]": (
                "return np.roll(ids, 1, axis=1), wider[:, 2:]"
            )
        },
        "the index -1: the last token of a block stands before its first",
    ),
    Mutant(
        "dates-few-streams",
        AROUND,
        "tasks/dates/data.py",
        {"(seed, together)": "(seed, together % 2)"},
        "after 32 batches the first one comes again",
    ),
    Mutant(
        "dates-seeds-overlap",
        AROUND,
        "tasks/dates/data.py",
        {"(seed, together)": "seed + together"},
        "what one seed draws second, the next seed draws first",
    ),
    Mutant(
        "dates-by-length",
        AROUND,
        "tasks/dates/data.py",
        {
            "rng.permutation(order.reshape(SORTED_TOGETHER, size))": (
                "order.reshape(SORTED_TOGETHER, size)"
            )
        },
        "of batches drawn together, those of short texts always come first",
    ),
    Mutant(
        "dates-marks-last",
        AROUND,
        "tasks/dates/data.py",
        {
            "for c in text if": 'for c in unicodedata.normalize("NFKC", text) if',
            'unicodedata.normalize("NFKC", lower).split()': "lower.split()",
            'unicodedata.normalize("NFKC", visible).lower()': "visible.lower()",
        },
        "a mark keeps an accent from its letter, and goes after they might have met",
    ),
    Mutant(
        "checkpoint-memory-order",
        AROUND,
        "training/run.py",
        {
            'array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)': (
                'array.astype(array.dtype.newbyteorder("<"), order="K", copy=False)'
            )
        },
        "an array is saved in the order of its memory, and comes back scrambled",
    ),
    Mutant(
        "checkpoint-cast-in-silence",
        AROUND,
        "training/run.py",
        {'target.dtype, "equiv")': 'target.dtype, "unsafe")'},
        "parameters of another dtype are rounded into the model",
    ),
    Mutant(
        "checkpoint-without-checksum",
        AROUND,
        "training/run.py",
        {"if checksum(arrays, steps) != expected:": "if not expected:"},
        "a flipped bit becomes a parameter",
    ),
    Mutant(
        "loop-without-dropout",
        AROUND,
        "training/loop.py",
        {
            "loss_and_gradients(*batch, rng=rng)\n": "loss_and_gradients(*batch, rng=None)\n"
        },
        "the training loop computes in evaluation mode, and dropout never drops",
    ),
    Mutant(
        "loop-one-generator-for-all-steps",
        AROUND,
        "training/loop.py",
        {"spawn_key=(step,)": "spawn_key=(len(history) - first,)"},
        "the generator of a step is counted from the resumption, not from the start",
    ),
    Mutant(
        "resumed-run-ignores-options",
        AROUND,
        "training/on_disk.py",
        {"    return merged(started, given)\n": "    return started\n"},
        "a run that is resumed keeps its length, whatever the option says",
    ),
    Mutant(
        "extended-run-with-other-rates",
        AROUND,
        "training/on_disk.py",
        {"return taken <= min(one, other) and all(": "return taken <= other or all("},
        "a run is extended after its learning rate has fallen",
    ),
    Mutant(
        "resumed-run-with-a-short-history",
        AROUND,
        "training/on_disk.py",
        {"len(history) < training.optimizer.steps": "len(history) < 0"},
        "steps without a record are taken again, with the optimiser of the end",
    ),
    # Constants and defaults
    Mutant(
        "gelu-cubic-rounded",
        FORWARD,
        "ops/gelu.py",
        {"CUBIC = 0.044715": "CUBIC = 0.0447"},
        "the constant is rounded as texts print it",
        forms=(
            {
                "tanh = np.tanh(SLOPE * (x + CUBIC * x * x * x))": (
                    "tanh = np.tanh(SLOPE * (x + 0.0447 * x * x * x))"
                )
            },
        ),
    ),
    Mutant(
        "gelu-slope-inverted",
        FORWARD,
        "ops/gelu.py",
        {"SLOPE = sqrt(2 / pi)": "SLOPE = sqrt(pi / 2)"},
        "the slope at 0 is the reciprocal one",
        forms=(
            {
                "tanh = np.tanh(SLOPE * (x + CUBIC * x * x * x))": (
                    "tanh = np.tanh(sqrt(pi / 2) * (x + CUBIC * x * x * x))"
                )
            },
        ),
    ),
    Mutant(
        "linear-cache-without-bias",
        BACKWARD,
        "ops/linear.py",
        {"biased: bool = True": "biased: bool = False"},
        "a cache that does not say so belongs to a layer without bias",
    ),
    Mutant(
        "layer-norm-eps-of-bert",
        FORWARD,
        "ops/layer_norm.py",
        {"eps: float = 1e-5": "eps: float = 1e-12"},
        "one library's default stands in another's formula",
    ),
    Mutant(
        "embedding-std-one",
        AROUND,
        "layers/embedding.py",
        {"0.02": "1.0"},
        "the table starts 50 times too large, as a general library's does",
    ),
    Mutant(
        "adam-betas-swapped",
        AROUND,
        "optim/adam.py",
        {
            "beta1: float = 0.9,": "beta1: float = 0.999,",
            "beta2: float = 0.999,": "beta2: float = 0.9,",
        },
        "the gradient is averaged over a thousand steps, its square over ten",
    ),
    Mutant(
        "adam-eps-default",
        AROUND,
        "optim/adam.py",
        {"eps: float = 1e-8": "eps: float = 1e-6"},
        "BERT's epsilon stands in for Adam's",
    ),
    Mutant(
        "adamw-beta-decayed",
        AROUND,
        "optim/adamw.py",
        {'("bias", "gamma", "beta")': '("bias", "gamma")'},
        "the shift of a normalisation is pulled to 0",
        forms=(
            {
                'if name.split(".")[-1] not in self.undecayed:': (
                    'if name.split(".")[-1] not in ("bias", "gamma"):'
                )
            },
        ),
    ),
    Mutant(
        "adamw-decay-default",
        AROUND,
        "optim/adamw.py",
        {"weight_decay: float = 0.01": "weight_decay: float = 0.1"},
        "the default decay is ten times too strong",
    ),
    Mutant(
        "optimizer-first-block-alone",
        AROUND,
        "optim/optimizer.py",
        {
            "Callable = map  #": "Callable = lambda _, f, *p: map(f, *(part[:1] for part in p))  #"
        },
        "of the blocks that large arrays are cut into, the first alone is stepped",
    ),
    Mutant(
        "wordpiece-unknown-pads",
        AROUND,
        "tasks/bert/wordpiece.py",
        {'("[PAD]", "[UNK]", ': '("[UNK]", "[PAD]", '},
        "the ids of two special tokens are swapped",
    ),
    Mutant(
        "masking-a-tenth",
        AROUND,
        "tasks/bert/masking.py",
        {
            "rng: np.random.Generator, share: float = 0.15": (
                "rng: np.random.Generator, share: float = 0.1"
            )
        },
        "the default share is not BERT's",
    ),
    # The gradient check itself
    Mutant(
        "check-one-sided",
        AROUND,
        "gradient_check.py",
        {"(above - below) / (right - left)": "(above - real_scalar(f(x), rough)) / h"},
        "a forward difference has an error of the order h, not of its square",
    ),
    Mutant(
        "check-constant-with-a-unit",
        AROUND,
        "gradient_check.py",
        {
            "    pair, scale = ratio(pair, largest), ratio(scale, largest)": "",
            "max(norm(pair[0]), norm(pair[1]), scale)": (
                "norm(pair[0]) + norm(pair[1]) + 1e-5"
            ),
        },
        "a constant in the denominator lets every small gradient pass, zeros included",
    ),
    Mutant(
        "check-step-absorbed",
        AROUND,
        "gradient_check.py",
        {"if left == right:": "if False:", "(right - left)": "(2 * h)"},
        "a step smaller than the rounding of the entry finds the gradient 0",
    ),
    Mutant(
        "check-in-single-precision",
        AROUND,
        "gradient_check.py",
        {"if not rough and": "if False and"},
        "the step of float64 is taken in float32",
    ),
    Mutant(
        "check-scale-infinite",
        AROUND,
        "gradient_check.py",
        {"if not np.isfinite(grad).all():": "if False:"},
        "beside one infinite gradient every other one counts as zero",
    ),
    Mutant(
        "check-squares-underflow",
        AROUND,
        "gradient_check.py",
        {
            "    pair = in_double(np.stack([gradient, reference]))": (
                "    pair = np.stack([gradient, reference])"
            ),
            "    pair, scale = ratio(pair, largest), ratio(scale, largest)": "",
        },
        "the squares of small gradients are 0, and so is the error",
    ),
    Mutant(
        "check-step-too-small",
        AROUND,
        "gradient_check.py",
        {"h = h if rough else 1e-5": "h = h if rough else 1e-9"},
        "a smaller step is taken for a better one, and rounding is measured",
    ),
    Mutant(
        "check-at-ones",
        AROUND,
        "gradient_check.py",
        {"arrays[name] = rng.normal(size=value)": "arrays[name] = np.ones(value)"},
        "at a point where all entries are 1 a factor may stand outside the means",
    ),
    Mutant(
        "check-sum-of-outputs",
        AROUND,
        "gradient_check.py",
        {"rng.normal(size=np.shape(y)) if": "np.ones(np.shape(y)) if"},
        "the cotangent 1 is sent to 0 by softmax and LayerNorm, and zeros pass",
    ),
    Mutant(
        "check-verdict-in-single-precision",
        AROUND,
        "gradient_check.py",
        {"            if dtype in FEW_BITS:": "            if False:"},
        "in float32 rounding is taken for a mistake, or a mistake for rounding",
    ),
    Mutant(
        "check-complex-step-believed",
        AROUND,
        "gradient_check.py",
        {"abs(sharper[name].norm - report[name].norm) < 1e-4": "True"},
        "the imaginary part is lost on the way, and a right gradient is called wrong",
    ),
    # Many machines: scale
    Mutant(
        "local-outer-step-backwards",
        AROUND,
        "distributed/local_steps.py",
        {
            "self.shared - flatten(self.parameters)": (
                "flatten(self.parameters) - self.shared"
            )
        },
        "the outer step goes back from where the ranks have come (pytorch/torchtitan#1507)",
    ),
    Mutant(
        "local-deltas-summed",
        AROUND,
        "distributed/local_steps.py",
        {"delta *= weight / float(weights.sum())": "delta *= weight"},
        "the outer step takes the sum of the ways instead of their mean",
        forms=({"delta *= weight / float(weights.sum())": "delta *= 1"},),
    ),
    Mutant(
        "local-weights-ignored",
        AROUND,
        "distributed/local_steps.py",
        {"delta *= weight / float(weights.sum())": "delta /= communicator.size"},
        "a rank whose steps have few tokens counts as much as one whose steps have many",
    ),
    Mutant(
        "local-not-nesterov",
        AROUND,
        "distributed/local_steps.py",
        {"(delta + self.momentum * self.velocity)": "self.velocity"},
        "the outer step is that of plain momentum, one round behind",
    ),
    Mutant(
        "local-momentum-of-the-parameters",
        AROUND,
        "distributed/local_steps.py",
        {"self.velocity += delta": "self.velocity += self.shared"},
        "the outer momentum gathers weights, where their changes belong",
    ),
    Mutant(
        "local-ranks-go-on-from-their-own",
        AROUND,
        "distributed/local_steps.py",
        {"        self.resume()\n\n    def catch_up": "\n    def catch_up"},
        "after a meeting each rank goes on from its own weights, not from the shared ones",
    ),
    Mutant(
        "local-velocity-not-handed-over",
        AROUND,
        "distributed/local_steps.py",
        {
            "self.shared, self.velocity = communicator.broadcast(state, root)": (
                "self.shared, _ = communicator.broadcast(state, root)"
            )
        },
        "who comes back has the weights of the others, and another outer momentum",
    ),
    Mutant(
        "cost-all-reduce-once",
        AROUND,
        "distributed/cost.py",
        {
            "reduce_scatter(ranks, nbytes) + all_gather(ranks, nbytes)": (
                "all_gather(ranks, nbytes)"
            )
        },
        "an all-reduce is counted as one of its two halves",
    ),
    Mutant(
        "cost-bubble-of-the-work",
        AROUND,
        "distributed/cost.py",
        {
            "return (stages - 1) / (batches + stages - 1)": "return (stages - 1) / batches"
        },
        "the bubble in units of the work is taken for its share of the time",
    ),
    # Many machines: zero
    Mutant(
        "sharded-mean-of-means",
        AROUND,
        "distributed/sharded_optimizer.py",
        {
            "self.share = weight / sum(weights)": (
                "self.share = 1 / self.communicator.size"
            )
        },
        "every rank counts as much, however many tokens it has (pytorch/torchtitan#1842)",
    ),
    Mutant(
        "sharded-norm-of-one-rank",
        AROUND,
        "distributed/sharded_optimizer.py",
        {"math.sqrt(sum(squares))": "math.sqrt(squares[self.communicator.rank])"},
        "each rank clips by the norm of its own pieces (pytorch/xla#4796)",
    ),
    Mutant(
        "sharded-norm-largest",
        AROUND,
        "distributed/sharded_optimizer.py",
        {"math.sqrt(sum(squares))": "math.sqrt(max(squares))"},
        "the norm is the largest of the ranks' norms or their sum, not that of all pieces "
        "together (facebookresearch/fairscale#167)",
        forms=({"math.sqrt(sum(squares))": "sum(map(math.sqrt, squares))"},),
        elsewhere=(
            (
                "distributed/pieces.py",
                {"[global_norm(own)]), np.hypot)": "[global_norm(own)]), np.maximum)"},
            ),
            (
                "distributed/pieces.py",
                {
                    "[global_norm(own)]), np.hypot)": "[global_norm(grads)]), np.maximum)",
                    "float(np.hypot(norms[0], global_norm(whole)))": "float(norms[0])",
                },
            ),
            (
                "distributed/pieces.py",
                {"[global_norm(own)]), np.hypot)": "[global_norm(own)]), np.add)"},
            ),
            (
                "distributed/pieces.py",
                {
                    "[global_norm(own)]), np.hypot)": "[global_norm(own)]), np.add)",
                    "float(np.hypot(norms[0], global_norm(whole)))": (
                        "float(norms[0] + global_norm(whole))"
                    ),
                },
            ),
            (
                "distributed/pieces.py",
                {
                    "[global_norm(own)]), np.hypot)": "[global_norm(grads)]), np.add)",
                    "float(np.hypot(norms[0], global_norm(whole)))": "float(norms[0])",
                },
            ),
        ),
    ),
    Mutant(
        "sharded-state-of-one-rank-saved",
        AROUND,
        "distributed/sharded_optimizer.py",
        {"average: dict(self.whole(pieces))": "average: dict(pieces)"},
        "a checkpoint holds the moments of one rank alone (huggingface/transformers#23034)",
    ),
    Mutant(
        "sharded-steps-not-restored",
        AROUND,
        "distributed/sharded_optimizer.py",
        {"        own.steps = optimizer.steps\n": ""},
        "Adam counts its steps anew after a checkpoint, and corrects a bias that is gone; one "
        "step too many does harm, too (NVIDIA/Megatron-LM#5976)",
    ),
    Mutant(
        "sharded-parameters-not-gathered",
        AROUND,
        "distributed/sharded_optimizer.py",
        {
            "self.optimizer.step(grads, max_norm)\n        self.publish()": (
                "self.optimizer.step(grads, max_norm)"
            )
        },
        "each rank goes on with the pieces that it has stepped itself",
    ),
    Mutant(
        "sharded-recomputed-with-another-dropout",
        AROUND,
        "distributed/sharded_parameters.py",
        {
            "return value if isinstance(value, np.ndarray) else deepcopy(value)": (
                "return value"
            )
        },
        "the forward that is computed again drops other entries (openai/guided-diffusion#167)",
    ),
    Mutant(
        "sharded-layer-not-released",
        AROUND,
        "distributed/sharded_parameters.py",
        {
            "        try:\n            yield\n        finally:\n"
            "            put(layer, bucket.stand_ins)": "        yield"
        },
        "what was gathered stays: every rank ends with all parameters",
    ),
    # Many machines: tensor
    Mutant(
        "f-not-summed-backward",
        AROUND,
        "distributed/tensor_parallel.py",
        {"return f, f.adjoint": "return Collective(f.forward, f.forward), f.adjoint"},
        "each rank goes on with the cotangent from its own columns, as if there were no "
        "others (NovaSky-AI/SkyRL#1886)",
    ),
    Mutant(
        "g-summed-backward-too",
        AROUND,
        "distributed/tensor_parallel.py",
        {"return f, f.adjoint": "return f, Collective(f.backward, f.backward)"},
        "the backward pass of a sum over ranks is taken for another sum, and the gradients "
        "grow N times a branch (tenstorrent/tt-metal#31748)",
    ),
    Mutant(
        "row-parallel-bias-on-every-rank",
        AROUND,
        "distributed/tensor_parallel.py",
        {
            "linear(x, self.weight)": "linear(x, self.weight, self.bias)",
            "return y if self.bias is None else y + self.bias, cache": "return y, cache",
        },
        "the bias is added on every rank before the sum, and so N times "
        "(pytorch/torchtitan#4245, huggingface/text-generation-inference#1036)",
    ),
    Mutant(
        "row-parallel-bias-summed-again",
        AROUND,
        "distributed/tensor_parallel.py",
        {
            "= dy.reshape(-1, dy.shape[-1]).sum(axis=0)": (
                "= self.g.forward(dy.reshape(-1, dy.shape[-1]).sum(axis=0))"
            )
        },
        "a gradient that every rank has the whole of is summed over the ranks once more "
        "(inclusionAI/AReno#496)",
    ),
    Mutant(
        "heads-mask-of-the-first-rank",
        AROUND,
        "distributed/tensor_parallel.py",
        {"keep = pieces[self.communicator.rank]": "keep = pieces[0]"},
        "every rank masks its heads as the first rank does",
    ),
    Mutant(
        "pieces-same-draws",
        AROUND,
        "distributed/tensor_parallel.py",
        {"size, axis=1)[self.communicator.rank]": "size, axis=1)[0]"},
        "all ranks draw from one seed, and drop the same entries of different pieces "
        "(PaddlePaddle/PaddleFleetX#1005)",
    ),
    Mutant(
        "vocabulary-row-of-another-word",
        AROUND,
        "distributed/vocabulary_parallel.py",
        {"self.g.forward(rows * own)": "self.g.forward(rows)"},
        "for a word that it does not have, a rank adds the row of its first one",
    ),
    Mutant(
        "vocabulary-gradient-of-another-word",
        AROUND,
        "distributed/vocabulary_parallel.py",
        {"self.g.backward(drows) * cache.own": "self.g.backward(drows)"},
        "for a word that it does not have, a rank adds to the gradient of its first one",
    ),
    Mutant(
        "vocabulary-readout-not-summed",
        AROUND,
        "distributed/vocabulary_parallel.py",
        {"return self.f.backward(dh), dtable, grads": "return dh, dtable, grads"},
        "each rank goes on with what its own words say of h (apple/ml-cross-entropy#42)",
    ),
    Mutant(
        "vocabulary-own-maximum",
        AROUND,
        "distributed/vocabulary_parallel.py",
        {"top = communicator.all_reduce(top, np.maximum)": "pass"},
        "each rank subtracts its own maximum, and exponentials of different scales are summed",
        forms=(
            {
                "top = communicator.all_reduce(top, np.maximum)": (
                    "greatest = communicator.all_reduce(top, np.maximum)"
                ),
                "np.where(own, z_target, 0)": "np.where(own, z_target + top - greatest, 0)",
            },
        ),
    ),
    Mutant(
        "vocabulary-target-on-every-rank",
        AROUND,
        "distributed/vocabulary_parallel.py",
        {"np.where(own, z_target, 0)": "z_target"},
        "ranks that do not have the target take another word of theirs for it "
        "(apple/ml-cross-entropy#59)",
        forms=(
            {"np.where(own, z_target, 0)": "np.where(own, z_target, z_target + top)"},
            {
                "np.where(own, z_target, 0)": "z_target",
                "np.where(own, ids - words.start, 0), own": (
                    "(ids - words.start) % (words.stop - words.start), own"
                ),
            },
            {
                "np.where(own, z_target, 0)": "np.where(own, z_target, z_target + top)",
                "np.where(own, ids - words.start, 0), own": (
                    "(ids - words.start) % (words.stop - words.start), own"
                ),
            },
            {
                "dlogits[(*np.nonzero(own), targets[own])]": (
                    "dlogits[(*np.indices(own.shape), targets)]"
                )
            },
            {
                "dlogits[(*np.nonzero(own), targets[own])]": (
                    "dlogits[(*np.indices(own.shape), targets)]"
                ),
                "np.where(own, ids - words.start, 0), own": (
                    "(ids - words.start) % (words.stop - words.start), own"
                ),
            },
        ),
    ),
    Mutant(
        "vocabulary-softmax-of-one-rank",
        AROUND,
        "distributed/vocabulary_parallel.py",
        {"p /= total[..., np.newaxis]": "p /= p.sum(axis=-1, keepdims=True)"},
        "the probabilities of each rank's own words sum to 1",
        forms=(
            {
                "total, z_target = communicator.all_reduce(np.stack([p.sum(axis=-1), "
                "z_target]))": (
                    "total, z_target = communicator.all_reduce(\n"
                    "        np.where(own, np.stack([p.sum(axis=-1), z_target]), 0)\n"
                    "    )"
                ),
            },
        ),
    ),
    Mutant(
        "sequence-norms-not-summed",
        AROUND,
        "distributed/sequence_parallel.py",
        {", grads | unflatten(total, parts)": ", grads"},
        "the norms train on each rank's own positions, and drift apart "
        "(NVIDIA/Megatron-LM#1446, EleutherAI/gpt-neox#1257)",
    ),
    Mutant(
        "sequence-gather-cut-backward",
        AROUND,
        "distributed/sequence_parallel.py",
        {
            "return f, f.adjoint": (
                "return Collective(f.forward, join_pieces(communicator).backward), f.adjoint"
            )
        },
        "the backward pass of an all-gather takes its piece, and leaves out what the other "
        "ranks have made of it (NVIDIA/TransformerEngine#1975)",
    ),
    Mutant(
        "sequence-join-summed",
        AROUND,
        "distributed/sequence_parallel.py",
        {
            "super().backward(self.join.backward(dy), cache)": (
                "super().backward(self.communicator.reduce_scatter(dy, axis=1), cache)"
            )
        },
        "a cotangent that is the same on all ranks is summed over them (awslabs/slapo#20)",
    ),
    Mutant(
        "pieces-fused-projection-cut-as-one",
        AROUND,
        "distributed/pieces.py",
        {
            '"query_key_value.weight": (1, 3)': '"query_key_value.weight": (1, 1)',
            '"query_key_value.bias": (0, 3)': '"query_key_value.bias": (0, 1)',
        },
        "the columns of Q, K and V are cut in one piece: the first rank gets queries and no "
        "values (awslabs/slapo#46)",
    ),
    Mutant(
        "norm-counts-copies",
        AROUND,
        "distributed/pieces.py",
        {
            "np.array([global_norm(own)])": "np.array([global_norm(grads)])",
            "float(np.hypot(norms[0], global_norm(whole)))": "float(norms[0])",
        },
        "what every rank has a copy of counts N times in the norm that clips "
        "(NVIDIA-NeMo/RL#3788, ROCm/TransformerEngine#715)",
    ),
    Mutant(
        "norm-of-one-rank",
        AROUND,
        "distributed/pieces.py",
        {
            "return float(np.hypot(norms[0], global_norm(whole)))": "return global_norm(grads)"
        },
        "each rank clips by the norm of what it has, and the copies drift apart "
        "(huggingface/transformers#36132)",
    ),
    # Many machines: carriers
    Mutant(
        "ranks-length-cut-short",
        AROUND,
        "distributed/communicator.py",
        {"length * rank // self.size for rank": "length // self.size * rank for rank"},
        "what is left when the ranks do not divide a length belongs to none of them "
        "(KellerJordan/Muon#28 counts it wrong)",
    ),
    Mutant(
        "ranks-other-fold-forgotten",
        AROUND,
        "distributed/communicator.py",
        {"array.reshape(-1), fold=fold)": "array.reshape(-1))"},
        "the maximum over the ranks is asked for, and their sum is returned",
    ),
    Mutant(
        "ranks-buffer-reused-before-it-is-sent",
        AROUND,
        "distributed/threads.py",
        {"(operation, array.copy())": "(operation, array)"},
        "the sender writes into an array that is still on its way (dealii/dealii#13206)",
    ),
    Mutant(
        "pipeline-mean-of-means",
        AROUND,
        "distributed/pipeline.py",
        {
            "[count / sum(counts) for count in counts]": "[1 / len(counts) for _ in counts]"
        },
        "micro-batches count the same, whatever their number of tokens (pytorch/torchtitan#2206)",
    ),
    Mutant(
        "pipeline-tied-table-not-summed",
        AROUND,
        "distributed/pipeline.py",
        {"if self.tied and last and ranks.rank in ends:": "if False:"},
        "the copies of a tied table on the first and the last stage are stepped apart "
        "(uw-syfi/piper#13)",
    ),
    Mutant(
        "pipeline-norm-counts-the-tied-table-twice",
        AROUND,
        "distributed/pipeline.py",
        {"if self.tied and not self.front:": "if False:"},
        "both stages that have a tied table count it in the norm, and too much is clipped "
        "(NVIDIA/Megatron-LM#7227)",
    ),
    Mutant(
        "pipeline-more-ahead-than-there-is",
        AROUND,
        "distributed/schedules.py",
        {"min(ahead(s), batches)": "ahead(s)"},
        "1F1B begins with as many forward passes as there are stages ahead, even if there are "
        "fewer micro-batches (pytorch/PiPPy#1081, AMD-AGI/Primus#1003)",
    ),
    # Many machines: training
    Mutant(
        "ranks-mean-of-means",
        AROUND,
        "training/data_parallel.py",
        {"self.over_ranks(weight if own": "self.over_ranks(1.0 if own"},
        "the ranks' mean losses count alike, however many tokens each has "
        "(huggingface/transformers#34373)",
    ),
    Mutant(
        "ranks-borrowed-shard-counted",
        AROUND,
        "training/data_parallel.py",
        {"self.over_ranks(weight if own else 0.0,": "self.over_ranks(weight,"},
        "a rank without a token works on another's shard, and counts it twice",
    ),
    Mutant(
        "ranks-the-same-dropout",
        AROUND,
        "training/data_parallel.py",
        {
            "SequenceGenerators(seeds[shard.rows])": (
                "SequenceGenerators(seeds[: shard.rows.stop - shard.rows.start])"
            )
        },
        "every rank drops what the first one drops (huggingface/transformers#31412)",
    ),
    Mutant(
        "ranks-each-its-own-clock",
        AROUND,
        "training/on_disk.py",
        {"float(known[0, 0])": "float(known[communicator.rank, 0])"},
        "each rank ends by its own clock, and the others wait for it",
    ),
    Mutant(
        "ranks-ctrl-c-not-shared",
        AROUND,
        "training/on_disk.py",
        {"known[:, 1].any()": "known[communicator.rank, 1]"},
        "Ctrl-C ends the rank that it came to, and the others wait for it",
    ),
    Mutant(
        "ranks-resumed-on-the-first-alone",
        AROUND,
        "training/on_disk.py",
        {"array[...] = communicator.broadcast(array)": "communicator.broadcast(array)"},
        "rank 0 goes on from the checkpoint, the others from their initial parameters",
    ),
]

MUTANTS = {mutant.name: mutant for mutant in CATALOGUE}

# Tests that kill this one, or do not run at all, tell nothing of the others.
NO_MISTAKE = Mutant(
    "no-mistake",
    BACKWARD,
    "ops/softmax.py",
    {"dx = dweights - coupling": "dx = -coupling + dweights"},
    "none: the same gradient, written otherwise",
)

PLANTABLE = MUTANTS | {NO_MISTAKE.name: NO_MISTAKE}
