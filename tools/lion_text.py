"""BERT-shaped text encoders in PyTorch: LION-S, LION-D, LION-LIT and softmax (docs/mathematics.md, sections 1, 2, 4).

The attention form, for training and for reference. Tensor names are those of the checkpoints. Sequences are padded
on the right; padding contributes nothing. Symbols: B sequences, L tokens, D width, H heads, d = D / H.
"""

import json
import pathlib
import re

import torch
from torch import nn
from torch.nn import functional as F

import safetensors_file

GATE_FLOOR = 1e-7
# Where the processor has no units for it, bfloat16 is far slower than float32.
HAS_FAST_BFLOAT16 = re.search(r"\b(avx512_bf16|amx_bf16)\b", pathlib.Path("/proc/cpuinfo").read_text()) is not None
WITHOUT_DECAY = "lion-lit", "linear_attention"


def log_mask(log_lambda):
    """log_lambda [B, H, L] -> [B, H, L, L]: the sum of what lies between two tokens, seen from the query."""
    inclusive = log_lambda.cumsum(-1)
    exclusive = inclusive - log_lambda
    after = exclusive[..., :, None] - exclusive[..., None, :]
    before = inclusive[..., None, :] - inclusive[..., :, None]
    return torch.where(torch.ones_like(after, dtype=torch.bool).tril(), after, before)


class Mixer(nn.Module):
    def __init__(self, width, heads, variant, layer_norm_after):
        super().__init__()
        self.heads, self.variant = heads, variant
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        if variant == "lion-s":
            self.Wa_i = nn.Linear(width, heads)
        if variant == "lion-d":
            self.ai = nn.Parameter(torch.zeros(heads))
        if layer_norm_after:
            self.layer_norm = nn.LayerNorm(width, eps=1e-5)

    def log_lambda(self, x):
        if self.variant == "lion-s":
            return torch.log(torch.sigmoid(-self.Wa_i(x).float()) + GATE_FLOOR).transpose(1, 2)
        return F.logsigmoid(self.ai)[None, :, None].expand(x.shape[0], -1, x.shape[1])

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, keep):
        """x [B, L, D]; keep [B, L] is False at padding."""
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        if self.variant == "attention":
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep[:, None, None, :])
        else:
            scores = q @ k.transpose(-1, -2) * q.shape[-1]**-0.5
            if self.variant not in WITHOUT_DECAY:
                # Padding lies on the right: it decays nothing that passes between two real tokens.
                scores = scores * log_mask(self.log_lambda(x)).exp().to(scores.dtype)
            y = scores.masked_fill(~keep[:, None, None, :], 0) @ v
        y = y.transpose(1, 2).flatten(2)
        return self.layer_norm(y) if hasattr(self, "layer_norm") else y


class Residual(nn.Module):
    """dense, then LayerNorm of the sum with the residual."""

    def __init__(self, width_in, width, eps):
        super().__init__()
        self.dense, self.LayerNorm = nn.Linear(width_in, width), nn.LayerNorm(width, eps=eps)

    def forward(self, x, residual):
        return self.LayerNorm(self.dense(x) + residual)


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        width, eps = c["hidden_size"], c["layer_norm_eps"]
        mixer = Mixer(width, c["num_attention_heads"], c.get("arch_type", "attention"), c.get("layer_norm_after"))
        self.attention = nn.ModuleDict({"self": mixer, "output": Residual(width, width, eps)})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, c["intermediate_size"])})
        self.output = Residual(c["intermediate_size"], width, eps)

    def forward(self, x, keep):
        x = self.attention["output"](self.attention["self"](x, keep), x)
        return self.output(F.gelu(self.intermediate["dense"](x)), x)


class Embeddings(nn.Module):
    def __init__(self, c):
        super().__init__()
        width = c["hidden_size"]
        self.word_embeddings = nn.Embedding(c["vocab_size"], width)
        if c["position_embedding_type"] == "absolute":
            self.position_embeddings = nn.Embedding(c["max_position_embeddings"], width)
        self.token_type_embeddings = nn.Embedding(c["type_vocab_size"], width)
        self.LayerNorm = nn.LayerNorm(width, eps=c["layer_norm_eps"])

    def forward(self, ids):
        x = self.word_embeddings(ids) + self.token_type_embeddings.weight[0]
        if hasattr(self, "position_embeddings"):
            x = x + self.position_embeddings.weight[:ids.shape[1]]
        return self.LayerNorm(x)


class TextEncoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.encoder = nn.ModuleDict({
            "layer": nn.ModuleList(Layer(config) for _ in range(config["num_hidden_layers"]))})

    def forward(self, ids, keep):
        """ids, keep [B, L] -> [B, L, D]"""
        x = self.embeddings(ids)
        for layer in self.encoder["layer"]:
            x = layer(x, keep)
        return x


def pad(sequences):
    """Lists of ids -> ids, keep [B, L]"""
    ids = torch.zeros(len(sequences), max(map(len, sequences)), dtype=torch.long)
    keep = torch.zeros_like(ids, dtype=torch.bool)
    for row, sequence in enumerate(sequences):
        ids[row, :len(sequence)] = torch.tensor(sequence)
        keep[row, :len(sequence)] = True
    return ids, keep


def mean_pool(tokens, keep):
    """The mean over real tokens, [CLS] and [SEP] included, scaled to length 1."""
    weights = keep[..., None].to(tokens.dtype)
    return F.normalize((tokens * weights).sum(1) / weights.sum(1), dim=-1)


def batches_by_length(sequences, tokens):
    """Indices in batches of about `tokens` tokens of similar length, padding counted."""
    batch = []
    for index in sorted(range(len(sequences)), key=lambda i: len(sequences[i])):
        if batch and (len(batch) + 1) * len(sequences[index]) > tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


@torch.inference_mode()
def embed(model, sequences, tokens_per_batch=4096, dtype=torch.float32):
    """Unit-length embeddings [n, D] of lists of ids."""
    result = torch.empty(len(sequences), model.config["hidden_size"])
    for batch in batches_by_length(sequences, tokens_per_batch):
        ids, keep = pad([sequences[i] for i in batch])
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            tokens = model(ids, keep)
        result[batch] = mean_pool(tokens.float(), keep)
    return result


def width(folder):
    """Of the embeddings of the model in a folder."""
    return json.loads((pathlib.Path(folder) / "config.json").read_text())["hidden_size"]


def load(folder):
    folder = pathlib.Path(folder)
    config = json.loads((folder / "config.json").read_text())
    config.setdefault("position_embedding_type", "absolute")
    model = TextEncoder(config)
    tensors = safetensors_file.read(folder / "model.safetensors")
    own = model.state_dict()
    state = {name.removeprefix("bert."): torch.from_numpy(tensor).float() for name, tensor in tensors.items()
             if name.removeprefix("bert.") in own}
    model.load_state_dict(state)
    return model.eval()
