"""A text model in PyTorch, in a process of its own: answers commands like lion_runner (README.md).

The softmax model runs in its own library, transformers; LION models as they are trained, in attention form
(tools/lion_text.py). Texts are padded to the longest of their batch; both sort them into batches of similar length first,
as sentence-transformers does.
"""

import argparse
import pathlib
import sys

import numpy
import torch

from peer import serve

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import lion_text  # noqa: E402

PADDED_TOKENS = 4096  # of a batch


def transformers_encoder(folder, dtype):
    import transformers

    model = transformers.BertModel.from_pretrained(folder, add_pooling_layer=False, dtype=dtype).eval()
    return lambda ids, keep: model(input_ids=ids, attention_mask=keep.long()).last_hidden_state


def lion_encoder(folder, dtype):
    return lion_text.load(folder).to(dtype)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--texts", type=pathlib.Path, required=True, help="token ids, a text a line")
    parser.add_argument("--form", choices=("attention", "softmax"), required=True)
    parser.add_argument("--type", choices=("float32", "bfloat16"), required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turn-ms", type=float, default=0)
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    texts = [list(map(int, line.split())) for line in o.texts.read_text().splitlines()]
    encode = (transformers_encoder if o.form == "softmax" else lion_encoder)(o.model, getattr(torch, o.type))

    @torch.inference_mode()
    def run():
        embeddings = numpy.empty((len(texts), lion_text.width(o.model)), numpy.float32)
        for batch in lion_text.batches_by_length(texts, PADDED_TOKENS):
            ids, keep = lion_text.pad([texts[i] for i in batch])
            weights = keep[..., None].float()
            embeddings[batch] = (encode(ids, keep).float() * weights).sum(1) / weights.sum(1)
        return embeddings

    serve(run, o.turn_ms)


if __name__ == "__main__":
    main()
