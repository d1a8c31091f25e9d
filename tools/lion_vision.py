"""LION vision encoders in PyTorch, in the three equivalent forms of the mixer.

A small reference: the attention form trains models, the chunkwise and recurrent forms cross-check it and serve
as peers in benchmarks. Tensor names are those of the training checkpoints, so `load_state_dict` just works.
Symbols: B images, L tokens, D model width, H heads, d = D / H head width.
"""

import functools
import json
import pathlib

import torch
from torch import nn
from torch.nn import functional as F

import safetensors_file

EPSILON = 1e-6
NAMED_HEADS = {"tiny": 3, "small": 6, "base": 12}


# The mixer.
# Every form takes q, k (after the feature map) and v as [B, H, L, d], and `scans`: a list of (order, log_lambda)
# where order [L] lists the tokens in the order of the scan and log_lambda [B, H, L] is indexed by token. The
# result is the mean over the scans. Without scans (LIT) nothing decays.


def attention_form(q, k, v, scans):
    """O(L^2): the mask is formed whole. In float32 saturated gates cost precision, because the logarithms are
    differences of sums over the whole sequence; the other forms do not have this problem."""
    scores = q @ k.transpose(-1, -2)
    if scans:
        scores = scores * (sum(_mask(*scan) for scan in scans) / len(scans))
    return normalise(scores @ with_ones(v), q.shape[-1])


def _mask(order, log_lambda):
    inclusive = torch.empty_like(log_lambda)
    inclusive[..., order] = log_lambda[..., order].cumsum(-1)
    exclusive = inclusive - log_lambda
    # For i after j the first difference is the (non-positive) log mask, for i before j the second one is; the
    # other one is then non-negative. So the minimum is right on both sides, in any order of the tokens.
    after = exclusive[..., :, None] - exclusive[..., None, :]
    before = inclusive[..., None, :] - inclusive[..., :, None]
    return torch.minimum(after, before).exp()


def chunk_form(q, k, v, scans, chunk_size=64):
    """O(L): the attention form inside a chunk, d x (d + 1) states across chunks."""
    v = with_ones(v)
    if not scans:
        return normalise(q @ (k.transpose(-1, -2) @ v), q.shape[-1])
    sums = torch.zeros_like(v)
    for order, log_lambda in scans:
        chunks = [(part, _Chunk(q[:, :, part], k[:, :, part], v[:, :, part], log_lambda[..., part]))
                  for part in order.split(chunk_size)]
        for part, chunk in chunks:
            sums[:, :, part] += chunk.inside()
        for step, path in ("forward", chunks), ("backward", reversed(chunks)):
            state = v.new_zeros(*v.shape[:2], k.shape[-1], v.shape[-1])
            for part, chunk in path:
                out, state = getattr(chunk, step)(state)
                sums[:, :, part] += out
    return normalise(sums / len(scans), q.shape[-1])


class _Chunk:
    def __init__(self, q, k, v, log_lambda):
        self.q, self.k, self.v, self.log_lambda = q, k, v, log_lambda
        inclusive = log_lambda.cumsum(-1)
        exclusive = inclusive - log_lambda
        self.whole = inclusive[..., -1:, None].exp()
        self.up_to, self.before = inclusive.exp()[..., None], exclusive.exp()[..., None]
        self.after = (inclusive[..., -1:] - inclusive).exp()[..., None]
        self.from_here = (inclusive[..., -1:] - exclusive).exp()[..., None]

    def inside(self):
        in_order = torch.arange(self.q.shape[2])
        return self.q @ self.k.transpose(-1, -2) * _mask(in_order, self.log_lambda) @ self.v

    def forward(self, state):
        added = (self.from_here * self.k).transpose(-1, -2) @ self.v
        return self.before * self.q @ state, self.whole * state + added

    def backward(self, state):
        added = (self.up_to * self.k).transpose(-1, -2) @ self.v
        return self.after * self.q @ state, self.whole * state + added


def recurrent_form(q, k, v, scans):
    """O(L), token by token: the definition of the recurrence, slow in Python."""
    v = with_ones(v)
    scans = scans or [(torch.arange(q.shape[2]), v.new_zeros(v.shape[:3]))]
    sums = torch.zeros_like(v)
    for order, log_lambda in scans:
        for path in order.tolist(), order.tolist()[::-1]:
            state, decay = 0, v.new_ones(1)
            for token in path:
                added = k[:, :, token, :, None] * v[:, :, token, None, :]
                state = decay * state + added
                # Half of the token itself, since both directions see it.
                sums[:, :, token] += (q[:, :, token, None] @ (state - added / 2))[:, :, 0]
                decay = log_lambda[:, :, token, None, None].exp()
    return normalise(sums / len(scans), q.shape[-1])


def with_ones(v):
    """v and a column of ones, which turns into the normaliser."""
    return torch.cat([v, torch.ones_like(v[..., :1])], -1)


def normalise(sums, head_width):
    scale = head_width**-0.5
    return scale * sums[..., :-1] / (scale * sums[..., -1:] + EPSILON)


def feature_map(x, mask_type):
    if mask_type == "Lit":
        return torch.where(x > 0, x + 1, x.clamp(max=0).exp())  # elu(x) + 1 without its cancellation
    return F.normalize(F.silu(x) + 0.5, dim=-1, eps=0)


@functools.lru_cache
def scan_orders(rows, cols, order):
    """The token orders of the scans; the class token (0) always comes first."""
    grid = torch.arange(1, rows * cols + 1).view(rows, cols)
    if order == "Normal":
        paths = [grid]
    else:
        by_rows, by_columns = grid.clone(), grid.t().clone()
        by_rows[1::2] = by_rows[1::2].flip(1)
        by_columns[1::2] = by_columns[1::2].flip(1)
        paths = [by_rows, by_columns]
    first = torch.zeros(1, dtype=torch.long)
    return [torch.cat([first, path.flatten()]) for path in paths]


class Mixer(nn.Module):
    def __init__(self, dim, heads, mask_type, order):
        super().__init__()
        self.heads, self.mask_type, self.order = heads, mask_type, order
        self.form = attention_form
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        gates = {"Decay", "Selective"} & {mask_type}
        if gates:
            self.a_i = self._gate(dim)
        if gates and order == "S":
            self.a2_i = self._gate(dim)

    def _gate(self, dim):
        # Starts with lambda between 0.73 and 0.98: every head sees further than its neighbours.
        logits = torch.linspace(1, 4, self.heads)
        if self.mask_type == "Decay":
            return nn.Parameter(logits)
        gate = nn.Linear(dim, self.heads)
        gate.bias.data = -logits
        return gate

    def _log_lambda(self, x, gate):
        if self.mask_type == "Decay":
            return F.logsigmoid(gate)[None, :, None].expand(x.shape[0], -1, x.shape[1])
        log_lambda = -F.softplus(gate(x)).transpose(1, 2)
        return torch.cat([torch.zeros_like(log_lambda[..., :1]), log_lambda[..., 1:]], -1)  # class token: 1

    def _scans(self, x, rows, cols):
        if self.mask_type == "Lit":
            return []
        gates = [self.a_i] if self.order == "Normal" else [self.a_i, self.a2_i]
        return [(order, self._log_lambda(x, gate))
                for order, gate in zip(scan_orders(rows, cols, self.order), gates)]

    def forward(self, x, rows, cols):
        batch, length, dim = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, dim // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        if self.mask_type == "Softmax":
            y = (q @ k.transpose(-1, -2) * q.shape[-1]**-0.5).softmax(-1) @ v
        else:
            q, k = feature_map(q, self.mask_type), feature_map(k, self.mask_type)
            y = self.form(q, k, v, self._scans(x, rows, cols))
        return self.proj(y.transpose(1, 2).reshape(batch, length, dim))


class Mlp(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.fc2 = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, dim, heads, mask_type, order):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = Mixer(dim, heads, mask_type, order)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = Mlp(dim, 4 * dim)

    def forward(self, x, rows, cols):
        x = x + self.attn(self.norm1(x), rows, cols)
        return x + self.mlp(self.norm2(x))


class PatchEmbed(nn.Module):
    def __init__(self, dim, patch_size):
        super().__init__()
        self.proj = nn.Conv2d(3, dim, patch_size, stride=patch_size)

    def forward(self, images):
        return self.proj(images)


class LionVision(nn.Module):
    def __init__(self, *, img_size, patch_size, embed_dim, depth, num_heads, num_classes,
                 mask_type="Selective", order="Normal", pos_emb=False, cls_tok=False):
        super().__init__()
        self.cls_tok = cls_tok
        self.cls_token = nn.Parameter(torch.zeros(1, 1, embed_dim))
        if pos_emb:
            self.pos_embed = nn.Parameter(torch.zeros(1, 1 + (img_size // patch_size)**2, embed_dim))
        self.patch_embed = PatchEmbed(embed_dim, patch_size)
        self.blocks = nn.ModuleList(Block(embed_dim, num_heads, mask_type, order) for _ in range(depth))
        self.norm = nn.LayerNorm(embed_dim, eps=1e-6)
        if num_classes:
            self.head = nn.Linear(embed_dim, num_classes)
        for name, tensor in self.named_parameters():
            if name in ("cls_token", "pos_embed"):
                nn.init.normal_(tensor, std=0.3)
            elif tensor.dim() > 1:
                nn.init.xavier_uniform_(tensor.flatten(1))

    def use_form(self, form):
        for block in self.blocks:
            block.attn.form = form
        return self

    def _positions(self, rows, cols):
        first, grid = self.pos_embed[:, :1], self.pos_embed[:, 1:]
        side = round(grid.shape[1]**0.5)
        if (rows, cols) != (side, side):
            grid = grid.transpose(1, 2).unflatten(2, (side, side))
            grid = F.interpolate(grid, (rows, cols), mode="bicubic", align_corners=False)
            grid = grid.flatten(2).transpose(1, 2)
        return torch.cat([first, grid], 1)

    def tokens(self, images):
        """[B, 3, height, width], normalised -> [B, L, D] after the last norm."""
        patches = self.patch_embed(images)
        rows, cols = patches.shape[2:]
        x = torch.cat([self.cls_token.expand(len(images), -1, -1), patches.flatten(2).transpose(1, 2)], 1)
        if hasattr(self, "pos_embed"):
            x = x + self._positions(rows, cols)
        for block in self.blocks:
            x = block(x, rows, cols)
        return self.norm(x)

    def pool(self, tokens):
        return tokens[:, 0] if self.cls_tok else tokens.mean(1)

    def forward(self, images):
        return self.head(self.pool(self.tokens(images)))


def load(folder):
    """The model of a folder with checkpoint.pth or model.safetensors, and its configuration: `args` of the
    checkpoint, overridden by config.json."""
    folder = pathlib.Path(folder)
    config = {}
    if (folder / "checkpoint.pth").exists():
        checkpoint = torch.load(folder / "checkpoint.pth", map_location="cpu")
        state = checkpoint.get("model", checkpoint)
        config.update(vars(checkpoint["args"]) if "args" in checkpoint else {})
    else:
        tensors = safetensors_file.read(folder / "model.safetensors")
        state = {name: torch.from_numpy(tensor) for name, tensor in tensors.items()}
    if (folder / "config.json").exists():
        config.update(json.loads((folder / "config.json").read_text()))
    state = {name.removeprefix("module."): tensor for name, tensor in state.items()}
    config.setdefault("img_size", config.get("input_size"))
    dim, _, patch_size, _ = state["patch_embed.proj.weight"].shape
    gate = state.get("blocks.0.attn.a_i.bias", state.get("blocks.0.attn.a_i"))
    heads = len(gate) if gate is not None else config.get("num_heads") or next(
        count for size, count in NAMED_HEADS.items() if size in config["model"])
    model = LionVision(
        img_size=config["img_size"], patch_size=patch_size, embed_dim=dim, num_heads=heads,
        depth=1 + max(int(name.split(".")[1]) for name in state if name.startswith("blocks.")),
        num_classes=len(state.get("head.bias", [])),
        **{key: config[key] for key in ("mask_type", "order", "pos_emb", "cls_tok")})
    model.load_state_dict(state)
    return model.eval(), config
