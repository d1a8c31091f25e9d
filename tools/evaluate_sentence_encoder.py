#!/usr/bin/env python3
"""How well a small sentence encoder agrees with its teacher on held-out sentences, both in float32."""

import argparse
import json
import pathlib

import torch

import lion_text
import teacher_cache

SENTENCES = 10_000
PAIRS = 100_000
NEIGHBOURS = 10


def spearman(a, b):
    ranks = torch.stack([x.argsort().argsort().double() for x in (a, b)])
    return torch.corrcoef(ranks)[0, 1].item()


def embeddings_of(folder, texts):
    return lion_text.embed(lion_text.load(folder), teacher_cache.Tokenizer(folder / "vocab.txt").ids(texts))


def teacher_embeddings(folder, texts, work):
    """Kept in the work folder: the teacher takes its time."""
    path = work / "held_out.pt"
    known = torch.load(path) if path.exists() else {"texts": None}
    if known["texts"] != texts:
        known = {"texts": texts, "embeddings": embeddings_of(folder, texts)}
        torch.save(known, path)
    return known["embeddings"]


def agreement(student, teacher):
    """Both [n, D], of the same texts."""
    first, second = torch.randint(len(teacher), (2, PAIRS), generator=torch.Generator().manual_seed(0))
    differ = first != second
    first, second = first[differ], second[differ]

    def cosines(x, i, j):
        return (x[i] * x[j]).sum(-1)

    def neighbours(x):
        similarities = x @ x.T
        return similarities.fill_diagonal_(-2).topk(NEIGHBOURS).indices

    near, found = neighbours(teacher), neighbours(student)
    rows = torch.arange(len(teacher))[:, None].expand_as(near).flatten()
    common = (near[:, :, None] == found[:, None, :]).any(-1)
    return {
        "sentences": len(teacher),
        "cosine of student and teacher, mean": (student * teacher).sum(-1).mean().item(),
        f"Spearman, {len(first)} random pairs":
            spearman(cosines(student, first, second), cosines(teacher, first, second)),
        f"Spearman, each sentence and its {NEIGHBOURS} nearest":
            spearman(cosines(student, rows, near.flatten()), cosines(teacher, rows, near.flatten())),
        "same nearest sentence": (near[:, 0] == found[:, 0]).float().mean().item(),
        f"teacher's nearest among the student's {NEIGHBOURS}": common[:, 0].float().mean().item(),
        f"{NEIGHBOURS} nearest in common": common.float().mean().item(),
    }


def report(student, teacher, held_out, work):
    texts = held_out[:SENTENCES]
    figures = agreement(embeddings_of(student, texts), teacher_embeddings(teacher, texts, work))
    for name, value in figures.items():
        print(f"{name}: {value:.4f}" if isinstance(value, float) else f"{name}: {value}", flush=True)
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("student", type=pathlib.Path)
    parser.add_argument("teacher", type=pathlib.Path)
    parser.add_argument("--work", type=pathlib.Path, required=True, help="work folder of distill_sentence_encoder.py")
    parser.add_argument("--threads", type=int, default=2)
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    report(o.student, o.teacher, json.loads((o.work / "corpus.json").read_text())[1], o.work)


if __name__ == "__main__":
    main()
