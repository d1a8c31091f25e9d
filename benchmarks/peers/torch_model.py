"""LION and softmax vision encoders in PyTorch, as fast as plain PyTorch runs them: what our engine is compared with.

tools/lion_vision.py is the reference that this is checked against; here the chunkwise form has no loop over chunks, and
with bfloat16 weights all that concerns decays and normalisers stays in float32.
Symbols: B images, L tokens, D model width, H heads, d head width, C chunk length, N chunks.
"""

import json
import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional as F

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))

import lion_vision  # noqa: E402
import safetensors_file  # noqa: E402

CHUNK = 64


def normalise(sums, weights, head_width):
    """sums [B, H, L, d] over the sums of their weights [B, H, L, 1], in float32."""
    scale = head_width**-0.5
    return scale * sums / (scale * weights.float() + lion_vision.EPSILON)


# The forms take q, k (after the feature map), v [B, H, L, d], and for each scan (none for LIT) its order [L] and the
# inverse of it, both None where tokens stand in order already, and log_lambda [B, H, L] in that order, float32.


def attention_form(q, k, v, scans):
    scores = q @ k.transpose(-1, -2)
    if scans:
        masks = []
        for _, inverse, log_lambda in scans:
            sums = inclusive_and_exclusive(log_lambda)
            masks.append(mask(*(sums if inverse is None else (x[..., inverse] for x in sums))))
        scores = scores * (masks[0] if len(masks) == 1 else (masks[0] + masks[1]) / 2).to(scores.dtype)
    return normalise(scores @ v, scores.sum(-1, keepdim=True), q.shape[-1])


def inclusive_and_exclusive(log_lambda):
    inclusive = log_lambda.cumsum(-1)
    return inclusive, inclusive - log_lambda


def mask(inclusive, exclusive):
    """M [..., L, L] from prefix sums of log lambda, in whatever order the tokens stand: of the two differences the one
    on the wrong side of the diagonal is not negative."""
    return torch.minimum(exclusive[..., :, None] - exclusive[..., None, :],
                         inclusive[..., None, :] - inclusive[..., :, None]).exp()


def chunk_form(q, k, v, scans):
    if not scans:
        return normalise(q @ (k.transpose(-1, -2) @ v), q @ k.sum(-2)[..., None], q.shape[-1])
    sums = 0
    for order, inverse, log_lambda in scans:
        if order is None:
            sums = chunked_scan(q, k, v, log_lambda)
        else:
            sums = sums + chunked_scan(*(x[:, :, order] for x in (q, k, v)), log_lambda)[:, :, inverse] / len(scans)
    return normalise(sums[..., :-1], sums[..., -1:], q.shape[-1])


def chunked_scan(q, k, v, log_lambda):
    """[B, H, L, d + 1]: the weighted sums of v and of ones."""
    length, dtype = q.shape[2], q.dtype
    size = min(CHUNK, length)
    padding = -length % size
    v = F.pad(v, (0, 1), value=1.0)
    # Padding has k = 0: it adds nothing, and its own outputs are dropped.
    q, k, v = (F.pad(x, (0, 0, 0, padding)).unflatten(2, (-1, size)) for x in (q, k, v))
    log_lambda = F.pad(log_lambda, (0, padding)).unflatten(2, (-1, size))  # [B, H, N, C]
    inclusive, exclusive = inclusive_and_exclusive(log_lambda)
    whole = inclusive[..., -1:]
    inside = (q @ k.transpose(-1, -2)) * mask(inclusive, exclusive).to(dtype) @ v
    if q.shape[2] == 1:
        return inside.flatten(2, 3)[:, :, :length]
    decay_in = torch.stack([exclusive, whole - inclusive]).exp()[..., None]  # of the states where they enter
    decay_out = torch.stack([whole - exclusive, inclusive]).exp()[..., None]  # of k v^T where it leaves
    added = (k * decay_out.to(dtype)).transpose(-1, -2) @ v  # [2, B, H, N, d, d + 1]
    entering = between_chunks(whole[..., 0]).to(dtype) @ added.flatten(-2)
    across = (q * decay_in.to(dtype)) @ entering.unflatten(-1, added.shape[-2:])
    return (inside + across[0] + across[1]).flatten(2, 3)[:, :, :length]


def between_chunks(log_whole):
    """[2, B, H, N, N]: what is left of chunk m's state (last index) where it enters chunk n, in each direction."""
    count = log_whole.shape[-1]
    # Sums over the whole sequence: float32 would lose the digits of their differences.
    inclusive = log_whole.double().cumsum(-1)
    decay = (F.pad(inclusive[..., :-1], (1, 0))[..., :, None] - inclusive[..., None, :]).float()
    earlier = torch.ones(count, count, dtype=torch.bool).tril(-1)
    forward = torch.where(earlier, decay.clamp(max=0).exp(), 0.0)
    return torch.stack([forward, forward.transpose(-1, -2)])


def recurrent_form(q, k, v, scans):
    in_order = torch.arange(q.shape[2])
    return lion_vision.recurrent_form(
        q, k, v, [(in_order, log_lambda) if order is None else (order, log_lambda[..., inverse])
                  for order, inverse, log_lambda in scans])


# The softmax model has but one form, which is PyTorch's own.
FORMS = {"attention": attention_form, "chunk": chunk_form, "recurrent": recurrent_form, "softmax": None}


class Mixer(nn.Module):
    def __init__(self, tensors, prefix, heads, mask_type, orders, form, dtype):
        super().__init__()
        self.heads, self.mask_type, self.form = heads, mask_type, FORMS[form]
        self.orders = [(None, None)] if len(orders) == 1 else [(order, order.argsort()) for order in orders]
        self.qkv = linear(tensors, f"{prefix}.qkv", dtype)
        self.proj = linear(tensors, f"{prefix}.proj", dtype)
        names = [f"{prefix}.a_i", f"{prefix}.a2_i"][:len(orders)]
        if mask_type == "Decay":
            self.log_decays = [F.logsigmoid(tensors[name].float())[None, :, None] for name in names]
        if mask_type == "Selective":
            self.gates = nn.ModuleList(linear(tensors, name, torch.float32) for name in names)

    def scans(self, x):
        if self.mask_type == "Decay":
            logs = [log.expand(x.shape[0], -1, x.shape[1]) for log in self.log_decays]
        elif self.mask_type == "Selective":
            logs = []
            for (order, _), gate in zip(self.orders, self.gates):
                log = -F.softplus(gate(x.float())).transpose(1, 2)[..., 1:]
                log = F.pad(log, (1, 0))  # the class token's lambda is 1
                logs.append(log if order is None else log[..., order])
        else:
            return []
        return [(order, inverse, log) for (order, inverse), log in zip(self.orders, logs)]

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if self.mask_type == "Softmax":
            y = F.scaled_dot_product_attention(q, k, v)
        else:
            q, k = (F.elu(u) + 1 if self.mask_type == "Lit" else F.normalize(F.silu(u) + 0.5, dim=-1) for u in (q, k))
            y = self.form(q, k, v, self.scans(x)).to(x.dtype)
        return self.proj(y.transpose(1, 2).flatten(2))


class Encoder(nn.Module):
    """Images [B, 3, side, side], normalised -> embeddings [B, D], float32."""

    def __init__(self, folder, side, form, dtype):
        super().__init__()
        config = json.loads((pathlib.Path(folder) / "config.json").read_text())
        if config["pos_emb"] or config["cls_tok"]:
            raise SystemExit("the peers have neither position embeddings nor class token pooling")
        arrays = safetensors_file.read(pathlib.Path(folder) / "model.safetensors")
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        rows = side // config["patch_size"]
        orders = lion_vision.scan_orders(rows, rows, config["order"])
        self.dtype = dtype
        self.cls_token = nn.Parameter(tensors["cls_token"].to(dtype))
        self.patches = nn.Conv2d(3, config["embed_dim"], config["patch_size"], stride=config["patch_size"])
        fill(self.patches, tensors, "patch_embed.proj", dtype)
        self.blocks = nn.ModuleList()
        for n in range(config["depth"]):
            name = f"blocks.{n}"
            self.blocks.append(nn.ModuleList([
                norm(tensors, f"{name}.norm1", dtype),
                Mixer(tensors, f"{name}.attn", config["num_heads"], config["mask_type"], orders, form, dtype),
                norm(tensors, f"{name}.norm2", dtype),
                nn.Sequential(linear(tensors, f"{name}.mlp.fc1", dtype), nn.GELU(),
                              linear(tensors, f"{name}.mlp.fc2", dtype))]))
        self.norm = norm(tensors, "norm", dtype)
        self.requires_grad_(False)

    def forward(self, images):
        x = self.patches(images.to(self.dtype)).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1)
        for norm1, mixer, norm2, mlp in self.blocks:
            x = x + mixer(norm1(x))
            x = x + mlp(norm2(x))
        return self.norm(x).float().mean(1)


def fill(module, tensors, name, dtype):
    module.to(dtype)
    module.weight.data.copy_(tensors[f"{name}.weight"])
    module.bias.data.copy_(tensors[f"{name}.bias"])
    return module


def linear(tensors, name, dtype):
    out_width, width = tensors[f"{name}.weight"].shape
    return fill(nn.Linear(width, out_width), tensors, name, dtype)


def norm(tensors, name, dtype):
    return fill(nn.LayerNorm(len(tensors[f"{name}.weight"]), eps=1e-6), tensors, name, dtype)
