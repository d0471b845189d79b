"""Small PyTorch programs for the doctor, as other people write them.

They have mistakes that can be switched on.
"""

from parity.twins import F, torch


class Coupled(torch.autograd.Function):
    """A softmax whose gradient lacks the coupling term."""

    @staticmethod
    def forward(context, x):
        weights = x.softmax(-1)
        context.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(context, dy):
        return dy * context.saved_tensors[0]


class Averaged(torch.autograd.Function):
    """Key heads repeated, whose gradient is the mean over the group."""

    @staticmethod
    def forward(context, x, group):
        context.group = group
        return x.repeat_interleave(group, 1)

    @staticmethod
    def backward(context, dy):
        return dy.unflatten(1, (-1, context.group)).mean(2), None


class Net:
    """A decoder of one of the families, or an encoder like BERT, of tensors alone.

    ``settings`` says how the right one is made; ``wrong`` names the mistakes.
    """

    def __init__(self, parameters, settings, wrong=()):
        self.p, self.s, self.wrong = parameters, settings, {wrong} if wrong else set()

    def linear(self, name, x):
        if "other layer" in self.wrong and name == "layers.1.feed_forward.up":
            name = "layers.0.feed_forward.up"
        weight = self.p[name + ".weight"]
        if "transposed" in self.wrong and name.endswith("layers.1.attention.output"):
            weight = weight.T
        bias = self.p.get(name + ".bias")
        if "bias forgotten" in self.wrong and name.endswith("0.feed_forward.output"):
            bias = None
        return F.linear(x, weight, bias)

    def norm(self, name, x):
        if "other norm" in self.wrong and name == "layers.1.feed_forward.norm":
            name = "layers.0.feed_forward.norm"
        weight, bias, eps = self.p[name + ".weight"], self.p.get(name + ".bias"), self.s["eps"]
        if "eps" in self.wrong:
            eps = 1e-6 if eps != 1e-6 else 1e-5
        if "norm weight detached" in self.wrong and name == "layers.1.feed_forward.norm":
            weight = weight.detach()
        if bias is not None:
            mean, variance = x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True)
            if "unbiased" in self.wrong:
                variance = x.var(-1, keepdim=True)
            if "mean detached" in self.wrong:
                mean = mean.detach()
            if "not centred" in self.wrong:
                mean, variance = 0, x.square().mean(-1, keepdim=True)
            return (x - mean) / torch.sqrt(variance + eps) * weight + bias
        wide = x.float() if x.dtype == torch.bfloat16 else x
        if "centred" in self.wrong:
            wide = wide - wide.mean(-1, keepdim=True)
        square = wide.square().mean(-1, keepdim=True)
        if "square detached" in self.wrong:
            square = square.detach()
        inverse = torch.rsqrt(square + eps)
        if "eps outside" in self.wrong:
            inverse = 1 / (square.sqrt() + eps)
        if "1 + weight" in self.wrong:
            return (wide * inverse).to(x) * (1 + weight)
        if "cast late" in self.wrong:
            return (wide * inverse * weight.float()).to(x)
        return (wide * inverse).to(x) * weight

    def rotate(self, x, first=0, name=""):
        if not self.s.get("rotary") or "keys not rotated" in self.wrong and name == "key":
            return x
        if "partial" in self.wrong:
            x, rest = x.chunk(2, -1)
            return torch.cat([self.turned(x, first, name), rest], -1)
        return self.turned(x, first, name)

    def turned(self, x, first, name):
        width, length = x.shape[-1], x.shape[2]
        base = 500000.0 if "base" in self.wrong else 10000.0
        wide = x.dtype if x.dtype != torch.bfloat16 else torch.float32
        frequencies = base ** -(torch.arange(0, width, 2, dtype=wide) / width)
        if "interpolated" in self.wrong:
            frequencies = frequencies / 4
        positions = torch.arange(first, first + length, dtype=wide)
        if "from 1" in self.wrong:
            positions = positions + 1
        if "offset forgotten" in self.wrong:
            positions = torch.arange(length, dtype=wide)
        if "without padding" in self.wrong:
            positions = (self.s["mask"].cumsum(1) - 1).clip(0).to(wide)[:, None]
        angles = positions[..., None] * frequencies
        if "low angles" in self.wrong:
            angles = (positions.bfloat16()[..., None] * frequencies.bfloat16()).to(wide)
        cos, sin = angles.cos(), angles.sin()
        if "reversed" in self.wrong:
            sin = -sin
        if "pairs" in self.wrong:
            a, b = x[..., ::2], x[..., 1::2]
            return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2).to(x)
        cos, sin = torch.cat([cos, cos], -1), torch.cat([sin, sin], -1)
        one, other = x.chunk(2, -1)
        return (x * cos + torch.cat([-other, one], -1) * sin).to(x)

    def attention(self, p, x, note, past):
        heads, groups = self.s["heads"], self.s["key_heads"]
        q = note(p + "query", self.linear(p + "query", x), heads)
        k = note(p + "key", self.linear(p + "key", x), groups)
        v = note(p + "value", self.linear(p + "value", x), groups)
        q, k, v = (
            a.unflatten(-1, (n, -1)).transpose(1, 2)
            for a, n in zip((q, k, v), (heads, groups, groups), strict=True)
        )
        first = past[0].shape[2] if past else 0
        transform = {"query": q, "key": k}
        for name, a in transform.items():
            if not self.s.get("qk_norm"):
                a = self.rotate(a, first, name)
            elif "norm after rotation" in self.wrong:
                a = self.norm(f"{p}{name}_norm", self.rotate(a, first))
            elif "norm over heads" in self.wrong:
                flat = a.transpose(1, 2).flatten(2)
                root = flat.square().mean(-1, keepdim=True)[:, None].add(self.s["eps"]).rsqrt()
                a = note(f"{p}{name}_norm", a * root * self.p[f"{p}{name}_norm.weight"])
                a = self.rotate(a, first)
            else:
                a = self.rotate(note(f"{p}{name}_norm", self.norm(f"{p}{name}_norm", a)), first)
            transform[name] = a
        q, k = transform["query"], transform["key"]
        if self.s.get("rotary"):
            q, k = note(p + "query_rotated", q), note(p + "key_rotated", k)
        if past:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        kept = k, v
        group = heads // groups
        if "tiled" in self.wrong:
            k, v = k.repeat(1, group, 1, 1), v.repeat(1, group, 1, 1)
        elif "group mean" in self.wrong:
            k, v = Averaged.apply(k, group), Averaged.apply(v, group)
        else:
            k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        scale = q.shape[-1] ** -0.5
        if "not scaled" in self.wrong:
            scale = 1
        if "scaled by D" in self.wrong:
            scale = x.shape[-1] ** -0.5
        scores = note(p + "scores", q @ k.transpose(-1, -2) * scale)
        keep = self.keep(scores.shape[-2], scores.shape[-1], p)
        if "masked late" in self.wrong:
            weights = scores.softmax(-1) * keep
        elif "coupling" in self.wrong:
            weights = Coupled.apply(scores.masked_fill(~keep, torch.finfo(scores.dtype).min))
        else:
            hidden = scores.masked_fill(~keep, torch.finfo(scores.dtype).min)
            weights = hidden.float().softmax(-1) if hidden.dtype == torch.bfloat16 else hidden
            weights = weights.to(x) if hidden.dtype == torch.bfloat16 else weights.softmax(-1)
        weights = note(p + "weights", weights)
        if "weights dropped" in self.wrong:
            weights = F.dropout(weights, 0.3)
        context = note(p + "context", (weights @ v).transpose(1, 2).flatten(2))
        return self.linear(p + "output", context), kept

    def keep(self, length, source, p):
        lag = torch.arange(source - length, source)[:, None] - torch.arange(source)
        keep = torch.ones_like(lag, dtype=bool)
        if self.s.get("causal", True) and "no mask" not in self.wrong:
            keep = lag >= (source - length if "corner" in self.wrong else 0)
        windowed = p in self.s.get("windowed", [p]) or "window everywhere" in self.wrong
        if "strict" in self.wrong:
            keep = lag > 0
        window = self.s.get("window") if windowed else None
        if window and "no window" not in self.wrong:
            keep = keep & (lag < window + ("window" in self.wrong))
        mask = self.s.get("mask")
        if mask is not None and "padding seen" not in self.wrong:
            keep = keep & mask.bool()[:, None, None]
        return keep

    def feed_forward(self, p, x, note):
        up = note(p + "up", self.linear(p + "up", x))
        activate = {"silu": F.silu, "tanh": lambda x: F.gelu(x, approximate="tanh"), "erf": F.gelu}
        name = self.s["activation"]
        name = next((wrong[4:] for wrong in self.wrong if wrong.startswith("act ")), name)
        act = activate[name]
        if self.s.get("gated"):
            gate = note(p + "gate", self.linear(p + "gate", x))
            if "gate detached" in self.wrong:
                gate = gate.detach()
            hidden = gate * act(up) if "exchanged" in self.wrong else act(gate) * up
        else:
            hidden = act(up)
        if "clipped" in self.wrong:
            hidden = hidden.clip(-0.3, 0.3)
        return self.linear(p + "output", note(p + "hidden", hidden))

    def forward(self, ids, note, past=None, segments=None):
        x = self.p["token_embedding.weight"][ids]
        if "padding row" in self.wrong:
            x = F.embedding(ids, self.p["token_embedding.weight"], padding_idx=0)
        if "times sqrt(D)" in self.wrong:
            x = x * x.shape[-1] ** 0.5
        if "position_embedding.weight" in self.p:
            first = 1 if "from 1" in self.wrong else 0
            x = x + self.p["position_embedding.weight"][first : first + ids.shape[1]]
        if segments is not None:
            x = x + self.p["segment_embedding.weight"][segments]
            x = self.norm("embedding", note("embedding_sum", x))
        x = note("embedding", x)
        caches = []
        for i in range(2):
            for kind in ("attention", "feed_forward"):
                p = f"layers.{i}.{kind}."
                pre = self.s["pre"] != ("placement" in self.wrong)
                inner = note(p + "norm", self.norm(p + "norm", x)) if pre else x
                if kind == "attention":
                    out, cache = self.attention(p, inner, note, past and past[i])
                    caches.append(cache)
                else:
                    out = self.feed_forward(p, inner, note)
                out = note(p + "output", out)
                if "branch detached" in self.wrong and p == "layers.1.feed_forward.":
                    out = out.detach()
                skip = 0 if "no residual" in self.wrong and p == "layers.1.attention." else x
                skip = inner if "residual from norm" in self.wrong else skip
                x = note(p + "residual", skip + out)
                x = x if pre else note(p + "norm", self.norm(p + "norm", x))
        if "final_norm.weight" in self.p and "no final norm" not in self.wrong:
            x = note("final_norm", self.norm("final_norm", x))
        table = self.p.get("logits.weight", self.p["token_embedding.weight"])
        logits = F.linear(x, table, self.p.get("logits.bias"))
        return note("logits", logits), caches

    def loss(self, logits, ids, targets, weights):
        if "not shifted" in self.wrong:
            targets = ids
        if "shifted twice" in self.wrong:
            logits, targets, weights = logits[:, :-1], targets[:, 1:], weights[:, 1:]
        smoothing = 0.07 if "smoothed" in self.wrong else 0.0
        each = F.cross_entropy(
            logits.flatten(0, 1), targets.flatten(), reduction="none", label_smoothing=smoothing
        )
        counted = each * weights.flatten()
        total = counted.sum() / (1 if "summed" in self.wrong else weights.sum())
        if "per sequence" in self.wrong:
            return counted.sum() / len(ids)
        return counted.mean() if "all tokens" in self.wrong else total
