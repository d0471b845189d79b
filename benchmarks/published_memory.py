"""What a published model holds: ``python -m benchmarks.published_memory RACE NAME FOLDER B``.

Prints the growth of the process's peak in bytes, from its imports on, while it reads the folder and
takes one step.
"""

import json
import sys
from functools import partial

from benchmarks.memory import peak
from benchmarks.published import (
    bert_base,
    gpt2,
    minilm_folder,
    package_encoder,
    package_writer,
    torch_encoder,
    torch_writer,
)

ENCODERS = {"this package": partial(package_encoder, shards=1), "transformers": torch_encoder}
MODELS = {
    "BERT-base, a padded batch": (bert_base, ENCODERS),
    "MiniLM, a padded batch": (minilm_folder, ENCODERS),
    "GPT-2, tokens written": (gpt2, {"this package": package_writer, "transformers": torch_writer}),
}
THREADS = 2


def main(race, name, folder, batch):
    if name == "transformers":
        # It imports the code of a model when it first reads one: imports do not count.
        from transformers.models.bert import modeling_bert  # noqa: F401
        from transformers.models.gpt2 import modeling_gpt2  # noqa: F401
    build = MODELS[race][1][name]
    before = peak()
    build(lambda: folder, batch=int(batch), threads=THREADS)()
    print(json.dumps(peak() - before))


if __name__ == "__main__":
    main(*sys.argv[1:])
