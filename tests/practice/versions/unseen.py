"""Mistakes that were planted after the last form was added: no form is made for these.

They say how well the examiner does on what it has not been taught.
"""

from practice.versions import (
    activations,
    answers,
    attention,
    cross_entropy,
    embedding,
    layer_norm,
    layers,
    linear,
    optimizers,
    rearranging,
    softmax,
)

UNSEEN = answers(
    [
        (
            linear.Contraction,
            "linear-last-sequence-alone",
            {
                "np.tensordot(x, dy, axes=(leading, leading))": (
                    "np.tensordot(x[:1], dy[:1], axes=(leading, leading))"
                )
            },
        ),
        (
            linear.Einsum,
            "linear-bias-averaged",
            {'np.einsum("nk->k", drows)': 'np.einsum("nk->k", drows) / len(dy)'},
        ),
        (
            linear.Loops,
            "linear-bias-averaged",
            {"dbias += dy[at]": "dbias += dy[at] * dy.shape[-1] / dy.size"},
        ),
        (
            linear.Sequences,
            "linear-weight-not-transposed",
            {"dy @ W.T": "dy @ W.reshape(W.shape[::-1])"},
        ),
        (
            linear.Sequences,
            "linear-batch-and-time-scrambled",
            {"x_b.T @ dy_b": "x_b.reshape(x_b.shape[::-1]) @ dy_b"},
        ),
        (
            linear.Einsum,
            "linear-batch-and-time-scrambled",
            {
                "drows = dy.reshape(-1, dy.shape[-1])": "drows = dy.reshape(dy.shape[-1], -1).T"
            },
        ),
        (
            linear.Sequences,
            "linear-mean-taken-twice",
            {"return dx, dW,": "return dx / len(x), dW / len(x),"},
        ),
        (
            softmax.Jacobian,
            "softmax-mask-inverted",
            {"np.where(keep, x, -np.inf)": "np.where(~keep, x, -np.inf)"},
        ),
        (
            softmax.Whole,
            "softmax-no-shift",
            {"np.where(keep, x - top, 0)": "np.where(keep, x, 0)"},
        ),
        (
            softmax.Rows,
            "softmax-no-coupling",
            {"for j in range(a.shape[-1]):": "for j in [i]:"},
        ),
        (
            softmax.Whole,
            "softmax-row-sum",
            {
                "a * dx.sum(axis=-1, keepdims=True)": (
                    "a * da.mean(axis=-1, keepdims=True) * da.shape[-1]"
                )
            },
        ),
        (
            softmax.Rows,
            "softmax-mask-finite",
            {
                "if keep[at][j] and score > -np.inf": "if score > -np.inf",
                "keep = np.broadcast_to(": (
                    "x = np.where(True if keep is None else keep, "
                    "x, -1e6)\n"
                    "        keep = np.broadcast_to("
                ),
            },
        ),
        (
            cross_entropy.Flat,
            "cross-entropy-mean-over-everything",
            {
                "np.average(surprise[counted], weights=w[counted])": "np.mean(w * surprise)"
            },
        ),
        (
            cross_entropy.Flat,
            "cross-entropy-logarithm-of-softmax",
            {
                "surprise = log_total - at_target": (
                    "p = np.exp(z - log_total[:, None])\n"
                    "        surprise = -np.log(p[np.arange(len(z)), t])"
                )
            },
        ),
        (
            cross_entropy.Loops,
            "cross-entropy-gradient-of-the-sum",
            {"/ weights.sum() * (p": "/ weights.mean() * (p"},
        ),
        (
            cross_entropy.OneHot,
            "cross-entropy-gradient-unmasked",
            {
                'dloss * cache["share"][..., np.newaxis]': 'dloss * cache["share"].mean()'
            },
        ),
        (
            layer_norm.Einsum,
            "layer-norm-no-mean-term",
            {'first = np.einsum("...d->...", g)[..., None]': "first = 0"},
        ),
        (
            layer_norm.Staged,
            "layer-norm-eps-outside-the-root",
            {"xhat = xmu / std": "xhat = xmu / (np.sqrt(var) + eps)"},
        ),
        (
            layer_norm.Einsum,
            "layer-norm-two-axes-assumed",
            {
                'np.einsum("nd,nd->d", flat, flat_hat)': 'np.einsum("btd,btd->d", dy, x_hat)'
            },
        ),
        (
            layer_norm.Loops,
            "layer-norm-no-variance-term",
            {"sum(g[i] * x_hat[at][i] for i in range(D)) / D": "0.0"},
        ),
        (
            layer_norm.Loops,
            "layer-norm-mean-not-summed",
            {
                "mean_g = sum(g) / D": "mean_g = 0.0",
                "(g[i] - mean_g": "(g[i] - g[i] / D",
            },
        ),
        (
            layer_norm.Staged,
            "layer-norm-gamma-outside",
            {
                "dxhat / std + dvar": 'cache["gamma"] * dy / std + dvar',
                'dxhat = dy * cache["gamma"]': "dxhat = dy",
            },
        ),
        (
            activations.ReluLoops,
            "relu-passes-everything",
            {
                "            if x[at] > 0:\n                dx[at] = dy[at]": (
                    "            if x[at] != 0:\n                dx[at] = dy[at]"
                )
            },
        ),
        (
            activations.ReluCopy,
            "relu-passes-everything",
            {"        dx[silent] = 0\n": ""},
        ),
        (
            activations.GeluStored,
            "gelu-at-the-output",
            {
                "slope = gate + x *": "x = gate * x\n        slope = gate + x *",
                "return gate * x, slope": "return x, slope",
            },
        ),
        (
            activations.TanhSigmoid,
            "gelu-forms-mixed",
            {
                (
                    "slope = np.sqrt(8 / np.pi) * (1 + 0.134145 * x**2)\n"
                    "        return dy * (gate + x * gate * (1 - gate) * slope)"
                ): ("return dy * (norm.cdf(x) + x * norm.pdf(x))")
            },
        ),
        (
            activations.TanhSigmoid,
            "gelu-slope-inverted",
            {"u = np.sqrt(8 / np.pi)": "u = np.sqrt(2 * np.pi)"},
        ),
        (
            attention.Queries,
            "attention-scale-forgotten-backward",
            {"dkey[head] += scale *": "dkey[head] +="},
        ),
        (
            attention.Einsum,
            "softmax-no-coupling",
            {"A * (dA - coupling[..., None])": "A * (1 - A) * dA"},
        ),
        (
            attention.Matrices,
            "softmax-mask-after",
            {
                "bias = 0.0 if keep is None else np.where(keep, 0.0, -np.inf)": "bias = 0.0",
                "p = p / p.sum(axis=-1, keepdims=True) * alive": (
                    "p = p / p.sum(axis=-1, "
                    "keepdims=True) * (1 if keep is None "
                    "else keep)"
                ),
            },
        ),
        (
            attention.Matrices,
            "softmax-over-the-queries",
            {"p / p.sum(axis=-1": "p / p.sum(axis=-2"},
        ),
        (
            attention.Matrices,
            "attention-key-not-transposed",
            {"np.swapaxes(ds, -1, -2) @ q": "(ds @ q)[..., : key.shape[-2], :]"},
        ),
        (
            embedding.LookUpLoops,
            "embedding-repeats-lost",
            {
                "dtable[ids[at]] += drows[at]": "dtable[ids[at]] = dtable[ids[at]] * 0 + drows[at]"
            },
        ),
        (
            embedding.ReadOutEinsum,
            "linear-bias-for-each-position",
            {'np.einsum("nv->v", dz)': "dlogits.sum(axis=0)"},
        ),
        (
            rearranging.SplitAxes,
            "heads-reshaped",
            {
                "x.reshape(batch, length, heads, width // heads)": (
                    "x.reshape(batch, heads, width // heads, length)"
                ),
                "(0, 2, 1, 3)": "(0, 1, 3, 2)",
            },
        ),
        (
            rearranging.CausalCompare,
            "causal-mask-sees-the-next",
            {"<= positions[:, None]": "< positions[:, None] + 2"},
        ),
        (
            rearranging.PositionWaves,
            "positions-exponent-doubled",
            {"10000.0 **": "1e8 **"},
        ),
        (
            layers.MultiHeadSelfAttention,
            "heads-joined-by-reshape",
            {"o = o.reshape(B, T, -1)": "o = o.swapaxes(1, 2).reshape(B, T, -1)"},
        ),
        (
            layers.MultiHeadCrossAttention,
            "attention-keys-path-lost",
            {
                "np.concatenate([dk, dv], axis=-1)": "np.concatenate([0 * dk, dv], axis=-1)"
            },
        ),
        (
            layers.Residual,
            "residual-dropout-forgotten",
            {"(dsum * factor, branch)": "(dsum * (1 if self.pre else factor), branch)"},
            "ResidualWithDropout",
        ),
        (
            layers.DecoderLayer,
            "attention-source-forgotten",
            {"return dx, dsource,": "return dx, 0 * dsource,"},
        ),
        (
            optimizers.Adam,
            "adam-corrects-its-state",
            {
                "v_hat = v / (1 - self.beta2**t)": "v /= 1 - self.beta2**t\n        v_hat = v"
            },
        ),
        (
            optimizers.AdamW,
            "adamw-decay-without-the-rate",
            {
                "direction = direction + self.weight_decay * parameter": (
                    "parameter *= 1 - self.weight_decay"
                )
            },
        ),
        (
            optimizers.Clipping,
            "clipping-each-array",
            {
                "grad * (max_norm / norm) if norm > max_norm else 1.0 * grad": (
                    "grad * min(1.0, max_norm / (np.linalg.norm(grad) or 1.0))"
                )
            },
        ),
    ]
)
