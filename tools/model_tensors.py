"""Names and shapes of LION encoders with random weights (docs/mathematics.md, sections 3 and 4).

Weights are scaled so that activations stay near 1 at any width and depth. Decays lie between 0.73 and 0.993.
"""

import math

from random_tensors import TensorMaker


class Tensors(TensorMaker):
    def __init__(self, seed, dtype):
        super().__init__(seed, dtype)
        self.all = {}

    def add(self, name, *shape, std, mean=0.0):
        self.all[name] = self.normal(*shape, std=std, mean=mean)

    def linear(self, name, out_width, *in_shape, gain=1.0):
        self.add(f"{name}.weight", out_width, *in_shape, std=gain * math.prod(in_shape)**-0.5)
        self.add(f"{name}.bias", out_width, std=0.02)

    def layer_norm(self, name, dim, weight="weight", bias="bias"):
        self.add(f"{name}.{weight}", dim, std=0.1, mean=1.0)
        self.add(f"{name}.{bias}", dim, std=0.02)

    def decay(self, name, heads, sign):
        logits = [1 + 4 * head / max(heads - 1, 1) for head in range(heads)]
        self.all[name] = self.values([sign * logit for logit in logits])

    def gate(self, name, heads, dim):
        self.add(f"{name}.weight", heads, dim, std=dim**-0.5)
        self.decay(f"{name}.bias", heads, -1)


def vision_tensors(o, seed):
    t = Tensors(seed, o.dtype)
    t.add("cls_token", 1, 1, o.width, std=0.3)
    if o.pos_emb:
        t.add("pos_embed", 1, 1 + (o.img_size // o.patch_size)**2, o.width, std=0.3)
    t.linear("patch_embed.proj", o.width, 3, o.patch_size, o.patch_size)
    residual = (2 * o.depth)**-0.5
    for n in range(o.depth):
        block = f"blocks.{n}"
        t.layer_norm(f"{block}.norm1", o.width)
        for name in ("a_i", "a2_i") if o.order == "s" else ("a_i",):
            if o.variant == "d":
                t.decay(f"{block}.attn.{name}", o.heads, 1)
            if o.variant == "s":
                t.gate(f"{block}.attn.{name}", o.heads, o.width)
        t.linear(f"{block}.attn.qkv", 3 * o.width, o.width)
        t.linear(f"{block}.attn.proj", o.width, o.width, gain=residual)
        t.layer_norm(f"{block}.norm2", o.width)
        t.linear(f"{block}.mlp.fc1", o.mlp_width, o.width)
        t.linear(f"{block}.mlp.fc2", o.width, o.mlp_width, gain=residual)
    t.layer_norm("norm", o.width)
    if o.num_classes:
        t.linear("head", o.num_classes, o.width)
    return t.all


def text_tensors(o, seed):
    t = Tensors(seed, o.dtype)
    norm = ("gamma", "beta") if o.old_norm_names else ("weight", "bias")
    embeddings = f"{o.encoder_prefix}embeddings"
    t.add(f"{embeddings}.word_embeddings.weight", o.vocabulary_rows, o.width, std=0.5)
    # LION-D and LION-S files hold these too; only their config.json says that nothing uses them.
    t.add(f"{embeddings}.position_embeddings.weight", o.max_positions, o.width, std=0.3)
    t.add(f"{embeddings}.token_type_embeddings.weight", 2, o.width, std=0.3)
    t.layer_norm(f"{embeddings}.LayerNorm", o.width, *norm)
    if o.leftovers:
        t.all[f"{embeddings}.position_ids"] = t.values(range(o.max_positions), "i64", (1, o.max_positions))
    for n in range(o.depth):
        layer = f"{o.encoder_prefix}encoder.layer.{n}"
        attention = f"{layer}.attention.self"
        for name in ("query", "key", "value"):
            t.linear(f"{attention}.{name}", o.width, o.width)
        if o.variant == "d":
            t.decay(f"{attention}.ai", o.heads, 1)
        if o.variant == "s":
            t.gate(f"{attention}.Wa_i", o.heads, o.width)
        if o.leftovers:
            t.add(f"{attention}.distance_embedding.weight", 2 * o.max_positions - 1, o.width // o.heads, std=0.02)
        if o.layer_norm_after:
            t.layer_norm(f"{attention}.layer_norm", o.width)
        t.linear(f"{layer}.attention.output.dense", o.width, o.width)
        t.layer_norm(f"{layer}.attention.output.LayerNorm", o.width, *norm)
        t.linear(f"{layer}.intermediate.dense", o.mlp_width, o.width)
        t.linear(f"{layer}.output.dense", o.width, o.mlp_width)
        t.layer_norm(f"{layer}.output.LayerNorm", o.width, *norm)
    if o.task != "mlm":
        t.linear(f"{o.encoder_prefix}pooler.dense", o.width, o.width)
    if o.task == "mlm":
        t.linear("cls.predictions.transform.dense", o.width, o.width)
        t.layer_norm("cls.predictions.transform.LayerNorm", o.width, *norm)
        t.add("cls.predictions.bias", o.vocabulary_rows, std=0.02)
        if o.untied:
            t.add("cls.predictions.decoder.weight", o.vocabulary_rows, o.width, std=o.width**-0.5)
            t.all["cls.predictions.decoder.bias"] = t.all["cls.predictions.bias"]
    if o.task in ("classify", "regress"):
        t.linear("classifier", o.num_classes, o.width)
    if o.leftovers:
        t.linear("cls.seq_relationship", 2, o.width)
    return t.all
