#!/usr/bin/env python3
"""Trains the LION-S digit classifier of models/mnist-lion-s and saves it as DeiT-style training does."""

import argparse
import functools
import math
import pathlib
import time

import numpy
import torch
from torch.nn import functional as F

import lion_vision
import mnist

MODELS = pathlib.Path(__file__).resolve().parents[1] / "models"
MEAN, STD = 0.1307, 0.3081  # of MNIST's training pixels; the same numbers stand in the model's config.json


@functools.lru_cache
def between(order):
    """[L, L * L]: 1 where token t decays what passes between tokens i and j of the order."""
    rank = torch.empty(len(order), dtype=torch.long)
    rank[list(order)] = torch.arange(len(order))
    t, i, j = rank[:, None, None], rank[None, :, None], rank[None, None, :]
    return ((j <= t) & (t < i) | (i < t) & (t <= j)).float().flatten(1)


def short_attention_form(q, k, v, scans):
    """attention_form, with the log mask as one matrix product: faster to train where L^3 numbers fit the cache."""
    mask = 0
    for order, log_lambda in scans:
        mask = mask + (log_lambda.flatten(0, 1) @ between(tuple(order.tolist()))).exp()
    scores = (q @ k.transpose(-1, -2)) * mask.view(*log_lambda.shape, -1) * (1 / len(scans))
    return lion_vision.normalise(scores @ lion_vision.with_ones(v), q.shape[-1])


def normalize(images):
    """[B, 28, 28] uint8 -> [B, 3, 28, 28]: the server expands gray to RGB before normalising, too."""
    return ((images.float() / 255 - MEAN) / STD)[:, None].expand(-1, 3, -1, -1)


def augment(images, degrees=10, shift=1.5, zoom=0.1):
    """Turns, moves and zooms each image by a random amount. The background stays at the value of black."""
    count, _, size, _ = images.shape

    def uniform(limit):
        return (2 * torch.rand(count) - 1) * limit

    angle, scale = torch.deg2rad(uniform(degrees)), 1 + uniform(zoom)
    cos, sin = angle.cos() * scale, angle.sin() * scale
    x, y = uniform(2 * shift / size), uniform(2 * shift / size)
    transform = torch.stack([cos, -sin, x, sin, cos, y], 1).view(count, 2, 3)
    gray = images[:, :1] + MEAN / STD  # black becomes 0, what grid_sample fills with
    grid = F.affine_grid(transform, gray.shape, align_corners=False)
    gray = F.grid_sample(gray, grid, align_corners=False) - MEAN / STD
    return gray.expand(-1, 3, -1, -1)


def accuracy(model, images, labels):
    model.eval()
    with torch.no_grad():
        predicted = torch.cat([model(normalize(part)).argmax(1) for part in images.split(1000)])
    return (predicted == labels).float().mean().item()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mnist", default=mnist.DEFAULT_FOLDER, help="folder of the IDX files")
    parser.add_argument("--output", default=MODELS / "mnist-lion-s" / "checkpoint.pth")
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--batch-size", type=int, default=100)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--weight-decay", type=float, default=0.05)
    parser.add_argument("--smoothing", type=float, default=0.05)
    parser.add_argument("--patch-size", type=int, default=7)
    parser.add_argument("--embed-dim", type=int, default=64)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--num-heads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


def main():
    args = parse_arguments()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    train_images, train_labels, test_images, test_labels = (
        torch.from_numpy(array.astype(numpy.uint8))
        for split in ("train", "t10k") for array in mnist.load(args.mnist, split))
    train_labels, test_labels = train_labels.long(), test_labels.long()

    architecture = dict(mask_type="Selective", order="S", pos_emb=True, cls_tok=False, patch_size=args.patch_size,
                        embed_dim=args.embed_dim, depth=args.depth, num_heads=args.num_heads)
    model = lion_vision.LionVision(img_size=28, num_classes=10, **architecture).use_form(short_attention_form)
    print(f"{sum(p.numel() for p in model.parameters())} parameters", flush=True)
    optimizer = torch.optim.AdamW([
        {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": args.weight_decay},
        {"params": [p for p in model.parameters() if p.dim() <= 1], "weight_decay": 0.0}], lr=args.lr)
    steps_per_epoch = len(train_images) // args.batch_size
    steps, warmup = args.epochs * steps_per_epoch, steps_per_epoch
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warmup, (1 + math.cos(math.pi * step / steps)) / 2))

    start = time.monotonic()
    for epoch in range(args.epochs):
        model.train()
        total = 0
        permutation = torch.randperm(len(train_images))[:steps_per_epoch * args.batch_size]
        for step, batch in enumerate(permutation.split(args.batch_size)):
            logits = model(augment(normalize(train_images[batch])))
            loss = F.cross_entropy(logits, train_labels[batch], label_smoothing=args.smoothing)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            total += loss.item()
            if step % 200 == 0:
                print(f"  epoch {epoch} step {step}/{steps_per_epoch} loss {loss.item():.3f} "
                      f"{time.monotonic() - start:.0f} s", flush=True)
        print(f"epoch {epoch}: loss {total / steps_per_epoch:.4f}, test accuracy "
              f"{accuracy(model, test_images, test_labels):.4f}, {time.monotonic() - start:.0f} s", flush=True)

        # The keys and the Namespace are those of DeiT's training script.
        torch.save({
            "model": model.state_dict(), "optimizer": optimizer.state_dict(),
            "lr_scheduler": scheduler.state_dict(), "epoch": epoch, "scaler": {},
            "args": argparse.Namespace(model="lion_mnist", input_size=28, nb_classes=10, data_set="MNIST",
                                       opt="adamw", lr=args.lr, weight_decay=args.weight_decay,
                                       batch_size=args.batch_size, epochs=args.epochs,
                                       smoothing=args.smoothing, seed=args.seed, **architecture),
        }, args.output)


if __name__ == "__main__":
    main()
