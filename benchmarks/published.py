"""The races of published models, here and in ``transformers``, from the same folder of weights.

A padded batch through BERT at its base size and through MiniLM, and tokens written by GPT-2. Before
a contender is timed, what it returns is compared with what this package returns.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.contenders import Contender
from benchmarks.gpt import check_close
from studies._minilm import minilm_folder
from transformer_core.interop import load, save
from transformer_core.layers import LayerSpec, NormSpec
from transformer_core.models import BertEncoder, Gpt, StackSpec
from transformer_core.ops import padding_keep

LENGTH, PROMPT, WRITTEN = 128, 32, 32
BERT = LayerSpec(768, 12, 3072, "post", NormSpec(eps=1e-12), "gelu")
GPT2 = LayerSpec(768, 12, 3072, "pre", feed_forward="gelu_tanh")
TOKENS = 30522, 50257  # of BERT and of GPT-2


@cache
def bert_base():
    """Return a folder with a BERT of the base size at random weights."""
    model = BertEncoder(
        BERT, StackSpec(TOKENS[0], 512, 12), np.random.default_rng(0), 2, True, False, pooler=True
    )
    return saved(model)


@cache
def gpt2():
    """Return a folder with a GPT-2 of the smallest size at random weights."""
    return saved(Gpt(GPT2, StackSpec(TOKENS[1], 1024, 12), np.random.default_rng(0)))


def saved(model):
    folder = Path(mkdtemp(), "model")
    save(model, None, folder)
    return folder


def padded(batch):
    """Draw ids (B, T) and lengths, from a quarter of T to T."""
    rng = np.random.default_rng(0)
    lengths = np.linspace(LENGTH // 4, LENGTH, batch).astype(int)
    inside = np.arange(LENGTH) < lengths[:, np.newaxis]
    return np.where(inside, rng.integers(1000, TOKENS[0], size=inside.shape), 0), lengths


def encode(model, ids, lengths):
    h, _ = model.forward(ids, padding_keep(lengths, ids.shape[1]), np.zeros_like(ids))
    return h


def package_encoder(folder, shards, batch, threads):
    """Encode with the batch in shards, one a thread, or whole with products on all threads."""
    threadpool_limits(threads // shards)
    model, _ = load(folder(), recompute=True)
    pool = ThreadPoolExecutor(shards)
    parts = list(zip(*(np.array_split(part, shards) for part in padded(batch)), strict=True))

    def step():
        return np.concatenate(list(pool.map(lambda part: encode(model, *part), parts)))

    return step


def package_encoder_by_length(folder, batch, threads):
    """Encode sequences of about one length together, the longest first, two groups a thread."""
    threadpool_limits(1)
    model, _ = load(folder(), recompute=True)
    pool = ThreadPoolExecutor(threads)
    ids, lengths = padded(batch)
    groups = np.array_split(np.argsort(-lengths), 2 * threads)
    parts = [(ids[rows, : lengths[rows].max()], lengths[rows]) for rows in groups]

    def step():
        h = np.zeros((batch, LENGTH, model.spec.width), np.float32)
        found = pool.map(lambda part: encode(model, *part), parts)
        for rows, encoded in zip(groups, found, strict=True):
            h[rows, : encoded.shape[1]] = encoded
        return h

    return step


def torch_encoder(folder, batch, threads):
    import torch
    from transformers import AutoModel

    torch.set_num_threads(threads)
    model = AutoModel.from_pretrained(folder()).eval()
    ids, lengths = padded(batch)
    inside = np.arange(LENGTH) < lengths[:, np.newaxis]
    given = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(inside.astype(int))}

    def step():
        with torch.inference_mode():
            return model(**given).last_hidden_state.numpy()

    return step


def checked(encoder, folder, batch, threads):
    """Build an encoder, and compare what it returns inside the sequences with this package's."""
    step = encoder(folder, batch, threads)
    ids, lengths = padded(batch)
    inside = np.arange(LENGTH) < lengths[:, np.newaxis]
    model, _ = load(folder())
    check_close("hidden states", step()[inside], encode(model, ids, lengths)[inside])
    return step


def prompts(batch):
    return np.random.default_rng(0).integers(TOKENS[1], size=(batch, PROMPT))


def package_writer(folder, batch, threads):
    """Read a prompt and write the most probable tokens."""
    threadpool_limits(threads)
    model, _ = load(folder())

    def step():
        logits, state = model.prefill(prompts(batch))
        tokens = [logits.argmax(axis=-1)]
        while len(tokens) < WRITTEN:
            logits, state = model.step(tokens[-1], state)
            tokens.append(logits.argmax(axis=-1))
        return np.stack(tokens, axis=1)

    return step


def torch_writer(folder, batch, threads):
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(threads)
    model = AutoModelForCausalLM.from_pretrained(folder()).eval()
    ids = torch.tensor(prompts(batch))

    def step():
        with torch.inference_mode():
            written = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=WRITTEN,
                min_new_tokens=WRITTEN,
                do_sample=False,
                pad_token_id=0,
            )
        return written[:, PROMPT:].numpy()

    return step


def encoders(folder):
    return {
        "this package": Contender(partial(package_encoder, folder, 2), "eager, two shards"),
        "this package, whole batch at once": Contender(
            partial(package_encoder, folder, 1), "eager, one shard"
        ),
        "this package, by length": Contender(
            partial(checked, package_encoder_by_length, folder), "eager, four groups"
        ),
        "transformers": Contender(partial(checked, torch_encoder, folder), "eager", "transformers"),
    }


BASE, SENTENCES = encoders(bert_base), encoders(minilm_folder)
WRITE = {
    "this package": Contender(partial(package_writer, gpt2), "eager"),
    "transformers": Contender(partial(torch_writer, gpt2), "eager", "transformers"),
}
