#!/usr/bin/env python3
"""sentence_transformers_compare.py texts WORK: writes the texts, one a line, into WORK/texts.txt.
sentence_transformers_compare.py compare WORK MODEL: embeds them with sentence-transformers and compares with what the
server gave, WORK/TYPE.npy."""

import pathlib
import sys

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPECIAL = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
LEAST_COSINE = {"float32": 0.99999, "bfloat16": 0.999}


def texts():
    """Hard lines of many scripts, the documentation's lines, and its pages whole: far over the model's 256 tokens."""
    hard = (ROOT / "tests/golden/tokenizer/lines.txt").read_bytes().decode().split("\n")
    pages = [path.read_bytes().decode() for path in sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])]
    lines = hard + [line for page in pages for line in page.split("\n")] + [" ".join(page.split()) for page in pages]
    # A line of the file is a text: what ends a line for one of the readers cannot stand in it. Special tokens written
    # out are ordinary text to this server (but [MASK] in FillMask) and special to Hugging Face's tokenizers.
    return [line for line in lines if line.strip() and not any(piece in line for piece in ("\r", "\0", *SPECIAL))]


def compare(work, model):
    import sentence_transformers
    import torch

    torch.set_num_threads(2)
    lines = (work / "texts.txt").read_bytes().decode().split("\n")[:-1]
    encoder = sentence_transformers.SentenceTransformer(str(model), device="cpu")
    wanted = encoder.encode(lines, normalize_embeddings=True, batch_size=16).astype(numpy.float64)
    good = True
    for name, least in LEAST_COSINE.items():
        path = work / f"{name}.npy"
        if not path.exists():
            continue
        found = numpy.load(path).astype(numpy.float64)
        cosines = (found * wanted).sum(1) / numpy.linalg.norm(found, axis=1) / numpy.linalg.norm(wanted, axis=1)
        worst = cosines.argmin()
        print(f"{name}: {len(lines)} texts, cosine with sentence-transformers {sentence_transformers.__version__}: "
              f"least {cosines[worst]:.7f} (want {least}), median {numpy.median(cosines):.7f}; "
              f"largest difference {abs(found - wanted).max():.2e}")
        if not cosines[worst] >= least:
            print(f"  line {worst + 1}: {lines[worst][:100]!r}")
            good = False
    return good


def main():
    work = pathlib.Path(sys.argv[2])
    if sys.argv[1] == "texts":
        (work / "texts.txt").write_bytes("".join(text + "\n" for text in texts()).encode())
    elif not compare(work, sys.argv[3]):
        sys.exit(1)


if __name__ == "__main__":
    main()
