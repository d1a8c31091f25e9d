"""Writes a model as ONNX for one size of input: export_onnx.py MODEL OUTPUT --form FORM --side PIXELS --batch IMAGES"""

import argparse
import pathlib

import torch

import torch_model


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--form", choices=("chunk", "attention", "softmax"), required=True)
    parser.add_argument("--side", type=int, required=True)
    parser.add_argument("--batch", type=int, default=1)
    o = parser.parse_args()
    encoder = torch_model.Encoder(o.model, o.side, o.form, torch.float32).eval()
    torch.onnx.export(encoder, (torch.zeros(o.batch, 3, o.side, o.side),), o.output, dynamo=True, verbose=False,
                      input_names=["images"], output_names=["embeddings"])


if __name__ == "__main__":
    main()
