"""Looks at a folder of pictures through a LION model: what each shows, and which are most alike.

    build/release/bin/lion-server --model models/mnist-lion-s      # scripts/quickstart.sh has built it
    pip install ./client/python
    python client/python/examples/embed_images.py                  # or with a folder of your own

The parts between "# %%" are cells for editors that run a file like a notebook.
"""

# %% Connect, and see what is served.
import pathlib
import sys

import numpy as np

from lion_client import Client

folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "models/mnist-lion-s/digits")
paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png", ".webp"))
client = Client()  # localhost:8001, or what the variable LION_SERVER says
model = client.get_model()
print(f"{model.name}: {model.variant}, {model.parameters:,} parameters, {model.compute_type} on {model.device}")

# %% One vector for each picture. Any number of them: files are read as they are sent, a line shows how far it is.
vectors, embedded = [], []
for path, result in zip(paths, client.embed_many(paths, normalize=True, progress=True)):
    if result.ok:
        vectors.append(result.vector)
        embedded.append(path)
    else:
        print(f"{path}: {result.error}", file=sys.stderr)
if len(embedded) < 2:
    sys.exit(f"{folder} holds {len(embedded)} pictures that could be embedded; expected 2 or more")
embeddings = np.stack(vectors)
print(f"{len(embedded)} pictures: embeddings {embeddings.shape}, {embeddings.dtype}")

# %% The vectors have length 1: their products are cosines.
cosines = embeddings @ embeddings.T
np.fill_diagonal(cosines, -1)
for path, row in zip(embedded, cosines):
    nearest = int(row.argmax())
    print(f"{path.name:24} is most like {embedded[nearest].name:24} cosine {row[nearest]:.3f}")

# %% What they show, where the model can tell.
if "classify" in model.tasks:
    for path, result in zip(embedded, client.classify_many(embedded, top_k=2)):
        print(f"{path.name:24}", "   ".join(f"{score.label} {score.score:.1%}" for score in result.scores))

# %% A vector finds its picture again, also when that comes as an array with noise on it (Pillow reads pictures here).
try:
    from PIL import Image
except ImportError:
    print("With Pillow (pip install pillow) this would also look for a noisy picture.")
else:
    noise = np.random.default_rng(0).normal(0, 25, np.asarray(Image.open(embedded[0]).convert("RGB")).shape)
    noisy = np.clip(np.asarray(Image.open(embedded[0]).convert("RGB")) + noise, 0, 255).astype(np.uint8)
    found = embeddings @ client.embed([noisy], normalize=True)[0].vector
    print(f"{embedded[0].name} with noise is most like {embedded[int(found.argmax())].name}, cosine {found.max():.3f}")
client.close()
