"""Writes the embeddings that all peers must agree with: reference.py MODEL IMAGES OUTPUT --side PIXELS --batch IMAGES

Up to 1,100 tokens an image in float64 by the attention form of tools/lion_vision.py, and up to 30,000 by its chunkwise
form (softmax: up to 5,000). Longer ones in float32 by torch_model.py, which is then one of those compared.
"""

import argparse
import pathlib

import numpy
import torch

import torch_model
from torch_model import lion_vision


@torch.inference_mode()
def embeddings(o, images):
    model, config = lion_vision.load(o.model)
    tokens = (o.side // config["patch_size"])**2 + 1
    is_softmax = config["mask_type"] == "Softmax"
    if tokens > (5000 if is_softmax else 30_000):
        form = "softmax" if is_softmax else "chunk"
        return torch_model.Encoder(o.model, o.side, form, torch.float32).eval()(images)
    model.use_form(lion_vision.attention_form if tokens <= 1100 else lion_vision.chunk_form)
    model = model.double()
    return torch.cat([model.pool(model.tokens(image[None].double())) for image in images])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("model", "images", "output"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--side", type=int, required=True)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    images = numpy.fromfile(o.images, numpy.float32).reshape(o.batch, 3, o.side, o.side)
    embeddings(o, torch.from_numpy(images)).double().numpy().tofile(o.output)


if __name__ == "__main__":
    main()
