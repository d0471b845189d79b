"""The doctor, on models of the package with one thing changed."""

import re
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from interop.models import FAMILIES, LLAMA, inputs, make, recording

from transformer_core.interop import record, write_recording
from transformer_core.interop.__main__ import main
from transformer_core.layers import NormSpec
from transformer_core.ops import rotary_frequencies, round_to


@pytest.mark.parametrize(
    "family, dtype",
    [
        *((family, np.float64) for family in FAMILIES),
        ("llama", np.float32),
        ("encoder", np.float32),
        *(
            pytest.param(family, np.float32, marks=pytest.mark.thorough)
            for family in ("qwen", "gpt2", "bert", "qwen windows")
        ),
    ],
)
def test_a_model_is_equal_to_itself_but_for_rounding(doctor, family, dtype):
    ours, theirs = recording(family), recording(family, dtype=dtype)
    findings, report = doctor(ours, theirs)
    assert not findings, report
    steps = sum(not name.startswith("parameter") for name in ours)
    assert "no step differs" in report and report.count("were recomputed") == 2
    judged = sum(int(part.split()[-1]) for part in report.split(" were recomputed")[:2])
    assert judged >= steps - 8, report  # ids, targets, ...


def test_another_place_of_the_norms_is_named(doctor):
    """No norm of the embeddings tells it beforehand."""
    findings, report = doctor(recording("gpt2"), recording("gpt2", placement="post"))
    cause = "norms after the branches (post-norm) instead of before the branches (pre-norm)"
    assert findings[0].causes == (cause,), report


def patched(name, function):
    return mock.patch(f"transformer_core.{name}", function)


def changed_frequencies(model, **settings):
    for layer in model.decoder.layers:
        for part in (layer.attention.branch.query_transform, layer.attention.branch.key_transform):
            part = getattr(part, "rotary", part)
            part.frequencies = rotary_frequencies(2 * len(part.frequencies), **settings)


def other_attention(family, **changes):
    return {"attention": replace(family["attention"], **changes)}


FORWARD = {
    "layout": ("llama", other_attention(LLAMA, transform="rotary"), "pairs (2i, 2i + 1) instead"),
    "eps": ("llama", {"norm": NormSpec("rms_norm", 1e-5)}, "eps 1e-05 instead of eps 1e-06"),
    "norm": ("gpt2", {"norm": NormSpec("rms_norm", 1e-5)}, "RMSNorm instead of LayerNorm"),
    "activation": ("gpt2", {"feed_forward": "silu"}, "SiLU instead of GELU (tanh)"),
    "erf": ("gpt2", {"feed_forward": "gelu"}, "GELU (erf) instead of GELU (tanh)"),
    "geglu": ("llama", {"feed_forward": "geglu"}, "GELU (erf) instead of SiLU"),
    "encoder": ("encoder", {"feed_forward": "gelu_tanh"}, "GELU (tanh) instead of GELU (erf)"),
    "bert eps": ("bert", {"norm": NormSpec("layer_norm", 1e-5)}, "eps 1e-05 instead of eps 1e-12"),
}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=name, marks=[pytest.mark.thorough] * (case[0] in ("bert", "encoder")))
        for name, case in FORWARD.items()
    ],
)
def test_another_specification_is_named(doctor, case):
    family, changes, cause = case
    findings, report = doctor(recording(family), recording(family, **changes))
    assert len(findings[0].causes) == 1 and cause in findings[0].causes[0], report
    assert not {f.causes for f in findings} - {findings[0].causes}, report


LINEAR = {"rope_type": "linear", "factor": 4.0}


@pytest.mark.parametrize(
    "settings, cause",
    [({"base": 123000.0}, "base 123000"), ({"scaling": LINEAR}, "linear scaling by 4")],
)
def test_frequencies_are_measured(doctor, rng, settings, cause):
    model, given = make("qwen"), inputs("qwen", rng)
    ours = record(model, **given)
    changed_frequencies(model, **settings)
    findings, report = doctor(ours, record(model, **given))
    assert len(findings[0].causes) == 1 and f"{cause} instead" in findings[0].causes[0], report


def test_values_that_differ_are_never_called_equal(doctor):
    model, given = make("llama"), inputs("llama", np.random.default_rng(2))
    model.decoder.layers[1].attention.norm.eps = 1e-3  # no other layer has it
    findings, report = doctor(record(model, **given), recording("llama"))
    assert findings and "agree" not in report


def no_mask(length):
    return np.ones((length, length), bool)


def window(length):
    return np.tril(np.ones((length, length), bool)) & ~np.tri(length, k=-4, dtype=bool)


@pytest.mark.parametrize(
    "mask, cause", [(no_mask, "no causal mask"), (window, "causal window of 4")]
)
def test_another_mask_is_named(doctor, mask, cause):
    ours = recording("gpt2")
    with patched("models.gpt.causal_keep", mask), patched("interop.recording.causal_keep", mask):
        theirs = recording("gpt2")
    findings, report = doctor(ours, theirs)
    assert {f.causes for f in findings} == {(f"{cause} instead of causal mask",)}, report


def in_bfloat16(values, order):
    """Round a recording, and compute its norms in one order of casts."""

    def low(a):
        return round_to(np.asarray(a, np.float32), "bfloat16")

    rounded = {n: low(a) if a.ndim and a.dtype.kind == "f" else a for n, a in values.items()}
    for i, source in enumerate(("embedding", "layers.0.feed_forward.residual")):
        x, name = rounded[source], f"layers.{i}.attention.norm"
        weight = rounded[f"parameter.{name}.weight"]
        x_hat = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(1e-6))
        rounded[name] = low(weight * (low(x_hat) if order == "after" else x_hat))
    return rounded


def test_the_order_of_casts_is_named(doctor):
    values = recording("llama")
    after, before = (in_bfloat16(values, order) for order in ("after", "before"))
    assert not doctor(after, after)[0]
    findings, report = doctor(after, before)
    cause = "by the weight before casting back instead of multiplied by the weight after"
    assert {f.name for f in findings} == {f"layers.{i}.attention.norm" for i in (0, 1)}, report
    assert all(cause in f.causes[0] for f in findings)
    findings, report = doctor(values, before)
    assert not findings, report


def without_coupling(dweights, cache):
    return dweights * cache.weights


def without_square_term(dy, cache):
    dgamma = (dy * cache.x_hat).sum(axis=tuple(range(dy.ndim - 1)))
    return cache.inv_rms * dy * cache.gamma, dgamma


def without_gradient(dy, cache):
    from transformer_core.ops.rms_norm import rms_norm_backward

    dx, dgamma = rms_norm_backward(dy, cache)
    return dx, 0 * dgamma


def first_head(doutput, cache):
    from transformer_core.ops.attention import shared_attention_backward

    dquery, dkey, dvalue = shared_attention_backward(doutput, cache)
    return dquery, dkey / 2, dvalue / 2


BACKWARD = {
    "square term": ("llama", "layers.rms_norm.rms_norm_backward", without_square_term, "square"),
    "norm weight": ("llama", "layers.rms_norm.rms_norm_backward", without_gradient, "zero"),
    "group": (
        "llama",
        "layers.multi_head_attention.attention_backward",
        first_head,
        "averaged over them instead of summed",
    ),
}


@pytest.mark.parametrize("case", BACKWARD.values(), ids=BACKWARD)
def test_a_wrong_backward_pass_is_named(doctor, case):
    family, name, function, cause = case
    ours = recording(family)
    with patched(name, function):
        theirs = recording(family)
    findings, report = doctor(ours, theirs)
    assert findings and "no step differs" in report.partition("BACKWARD")[0]
    assert all(len(f.causes) == 1 and cause in f.causes[0] for f in findings), report


def test_a_softmax_without_coupling_is_named_where_scores_are_recorded(doctor):
    ours = recording("gpt2")
    with (
        patched("ops.attention.softmax_backward", without_coupling),
        patched("interop.recording.softmax_backward", without_coupling),
    ):
        theirs = recording("gpt2")
    findings, report = doctor(ours, theirs)
    assert {f.causes for f in findings} == {
        ("without the coupling term instead of with the coupling term of the softmax",)
    }, report


@pytest.mark.slow
@pytest.mark.parametrize(
    "kept", ["residual|final_norm", "residual", "embedding|output", "logits|loss", "loss"]
)
def test_few_values_are_enough_to_name_the_layout(doctor, kept):
    ours = recording("llama")
    theirs = recording("llama", **other_attention(LLAMA, transform="rotary"))

    def few(values):
        always = r"(parameter|ids|targets|loss_weights|heads|key_heads)"
        return {n: a for n, a in values.items() if re.match(always, n) or re.search(kept, n)}

    findings, report = doctor(few(ours) | {"heads": ours["heads"]}, few(theirs))
    assert any("pairs (2i, 2i + 1)" in cause for cause in findings[0].causes), report


def test_what_cannot_be_computed_is_located(doctor):
    ours, theirs = recording("gpt2"), recording("gpt2", feed_forward="silu")
    few = ["embedding", "layers.0.attention.residual", "layers.0.feed_forward.residual"]
    findings, report = doctor({n: ours[n] for n in few}, {n: theirs[n] for n in few})
    assert findings[0].name == few[-1] and not findings[0].causes
    assert "equal up to layers.0.attention.residual" in report
    assert "is not enough" in report and "layers.0.feed_forward.hidden" in report


def test_an_unknown_difference_says_what_was_excluded(doctor):
    ours = recording("gpt2")
    theirs = dict(ours)
    theirs["layers.1.feed_forward.hidden"] = ours["layers.1.feed_forward.hidden"] ** 2
    findings, report = doctor(ours, theirs)
    assert findings[0].name == "layers.1.feed_forward.hidden" and not findings[0].causes
    assert "cause not found" in report and "excluded: " in report and "activation" in report


def test_two_differences_are_both_named(doctor):
    changes = {"norm": NormSpec("rms_norm", 1e-5), "feed_forward": "geglu"}
    findings, report = doctor(recording("llama"), recording("llama", **changes))
    causes = {cause for f in findings for cause in f.causes}
    assert causes == {"eps 1e-05 instead of eps 1e-06", "GELU (erf) instead of SiLU"}, report


def test_a_transposed_parameter_is_named(doctor):
    ours = recording("gpt2")
    name = "parameter.layers.1.attention.output.weight"
    findings, report = doctor(ours, ours | {name: np.ascontiguousarray(ours[name].T)})
    assert findings[0].name == name and findings[0].causes == ("the transpose of ours",)


# The command line


def test_the_exit_status(tmp_path, capsys):
    write_recording(tmp_path / "a", recording("gpt2"))
    write_recording(tmp_path / "b", recording("gpt2", feed_forward="relu"))
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "a")]) == 0
    assert "The two agree to rounding." in capsys.readouterr().out
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 1
    assert "ReLU instead of GELU (tanh)" in capsys.readouterr().out


def nonsense(path, kind):
    """Write a file that is none, and return a part of what is said of it."""
    whole = path.with_name("whole")
    values = recording("gpt2")
    if kind == "missing":
        return "No such file"
    if kind == "folder":
        path.mkdir()
        return "Is a directory"
    if kind == "no common names":
        write_recording(path, {"layers.0.feed_forward.gate": np.ones((3, 9, 24))})
        return "theirs: expected values that ours has too"
    if kind == "checkpoint":
        write_recording(path, {"model.layers.0.self_attn.q_proj.weight": np.ones((3, 3))})
        return (
            "theirs: expected a recording, with values such as 'embedding' and 'logits', got "
            "model.layers.0.self_attn.q_proj.weight"
        )
    if kind == "shapes":
        write_recording(path, values | {"embedding": np.ones((2, 2))})
        return "theirs: embedding: expected shape (3, 9, 16) as ours, got (2, 2)"
    if kind == "NaN":
        write_recording(path, values | {"embedding": values["embedding"] * np.nan})
        return "embedding: expected finite numbers, got NaN"
    write_recording(whole, values)
    content = whole.read_bytes()
    path.write_bytes({"cut": content[:-9], "pickle": b"\x80\x04K\x01.", "empty": b""}[kind])
    return "expected a whole safetensors file"


KINDS = ["missing", "folder", "no common names", "checkpoint", "shapes", "NaN"]
KINDS += ["cut", "pickle", "empty"]


@pytest.mark.parametrize("kind", KINDS)
def test_bad_files_get_one_line(tmp_path, capsys, kind):
    write_recording(tmp_path / "ours", recording("gpt2"))
    message = nonsense(tmp_path / "theirs", kind)
    assert main(["compare", str(tmp_path / "ours"), str(tmp_path / "theirs")]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and err.count("\n") == 1
    assert message in err


def test_a_checkpoint_on_both_sides_is_called_one(tmp_path, capsys):
    write_recording(tmp_path / "a", {"wte.weight": np.ones((3, 3))})
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "a")]) == 1
    assert "ours: expected a recording" in (error := capsys.readouterr().err)
    assert "interop record FOLDER OUT" in error
