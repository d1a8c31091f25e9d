#!/usr/bin/env python3
"""Writes a LION vision model with random weights, for tests and benchmarks. Needs NumPy; PyTorch only for .pth."""

import argparse
import json
import pathlib

import numpy

import safetensors_file

SIZES = {"tiny": (192, 12, 3), "small": (384, 12, 6), "base": (768, 12, 12), "large": (1024, 24, 16)}
MASK_TYPES = {"lit": "Lit", "d": "Decay", "s": "Selective", "softmax": "Softmax"}


class Weights:
    """Random tensors, scaled so that activations stay near 1 at any width and depth."""

    def __init__(self, seed):
        self.random = numpy.random.default_rng(seed)
        self.tensors = {}

    def normal(self, name, *shape, std, mean=0.0):
        values = self.random.standard_normal(shape, numpy.float32)
        self.tensors[name] = values * numpy.float32(std) + numpy.float32(mean)

    def linear(self, name, out_width, in_shape, gain=1.0):
        in_shape = in_shape if isinstance(in_shape, tuple) else (in_shape,)
        self.normal(f"{name}.weight", out_width, *in_shape, std=gain * numpy.prod(in_shape)**-0.5)
        self.normal(f"{name}.bias", out_width, std=0.02)

    def layer_norm(self, name, dim):
        self.normal(f"{name}.weight", dim, std=0.1, mean=1.0)
        self.normal(f"{name}.bias", dim, std=0.02)

    def gate(self, name, config):
        heads, dim = config["num_heads"], config["embed_dim"]
        logits = numpy.linspace(1, 5, heads, dtype=numpy.float32)  # lambda from 0.73 to 0.993
        if config["mask_type"] == "Decay":
            self.tensors[name] = logits
        else:
            self.linear(name, heads, dim)
            self.tensors[f"{name}.bias"] -= logits


def make(config, seed):
    weights = Weights(seed)
    dim, depth, patch = config["embed_dim"], config["depth"], config["patch_size"]
    weights.normal("cls_token", 1, 1, dim, std=0.3)
    if config["pos_emb"]:
        weights.normal("pos_embed", 1, 1 + (config["img_size"] // patch)**2, dim, std=0.3)
    weights.linear("patch_embed.proj", dim, (3, patch, patch))
    residual = (2 * depth)**-0.5
    for n in range(depth):
        block = f"blocks.{n}"
        weights.layer_norm(f"{block}.norm1", dim)
        if config["mask_type"] in ("Decay", "Selective"):
            weights.gate(f"{block}.attn.a_i", config)
            if config["order"] == "S":
                weights.gate(f"{block}.attn.a2_i", config)
        weights.linear(f"{block}.attn.qkv", 3 * dim, dim)
        weights.linear(f"{block}.attn.proj", dim, dim, residual)
        weights.layer_norm(f"{block}.norm2", dim)
        weights.linear(f"{block}.mlp.fc1", 4 * dim, dim)
        weights.linear(f"{block}.mlp.fc2", dim, 4 * dim, residual)
    weights.layer_norm("norm", dim)
    if config["num_classes"]:
        weights.linear("head", config["num_classes"], dim)
    return weights.tensors


def save_pth(path, tensors, config, size):
    import torch
    args = argparse.Namespace(
        model=f"lion_{size or 'custom'}_patch{config['patch_size']}_{config['img_size']}",
        input_size=config["img_size"], nb_classes=config["num_classes"],
        **{key: config[key] for key in ("mask_type", "order", "pos_emb", "cls_tok")})
    state = {name: torch.from_numpy(tensor) for name, tensor in tensors.items()}
    torch.save({"model": state, "optimizer": {}, "lr_scheduler": {}, "epoch": 0, "scaler": {}, "args": args}, path)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=pathlib.Path, help="folder, made if need be")
    parser.add_argument("--size", choices=SIZES, help="a named size, in place of the three numbers")
    parser.add_argument("--embed-dim", type=int)
    parser.add_argument("--depth", type=int)
    parser.add_argument("--num-heads", "--heads", type=int)
    parser.add_argument("--variant", choices=MASK_TYPES, default="s")
    parser.add_argument("--order", choices=("normal", "s"), default="normal")
    parser.add_argument("--pos-emb", action="store_true", help="position embeddings")
    parser.add_argument("--cls-tok", action="store_true", help="the class token is the embedding, not the mean")
    parser.add_argument("--patch-size", type=int, default=16)
    parser.add_argument("--img-size", type=int, default=224)
    parser.add_argument("--num-classes", type=int, default=1000)
    parser.add_argument("--layout", choices=("folder", "pth"), default="folder",
                        help="model.safetensors or DeiT's checkpoint.pth; config.json stands beside either")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for name, value in zip(("embed_dim", "depth", "num_heads"), SIZES.get(args.size, ())):
        if getattr(args, name) is not None:
            parser.error(f"--size already says {name}")
        setattr(args, name, value)
    if None in (args.embed_dim, args.depth, args.num_heads):
        parser.error("give --size, or --embed-dim, --depth and --num-heads")
    if args.embed_dim % args.num_heads:
        parser.error("--embed-dim must be a multiple of --num-heads")
    return args


def main():
    args = parse_arguments()
    config = {"mask_type": MASK_TYPES[args.variant], "order": {"normal": "Normal", "s": "S"}[args.order],
              **{key: getattr(args, key) for key in ("pos_emb", "cls_tok", "num_heads", "depth", "patch_size",
                                                     "embed_dim", "num_classes", "img_size")}}
    tensors = make(config, args.seed)
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    if args.layout == "pth":
        save_pth(args.output / "checkpoint.pth", tensors, config, args.size)
    else:
        safetensors_file.write(args.output / "model.safetensors", tensors)
    print(f"{args.output}: {sum(tensor.size for tensor in tensors.values()):,} parameters")


if __name__ == "__main__":
    main()
