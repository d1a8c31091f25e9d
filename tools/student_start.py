"""A LION-S student that begins as near to a softmax BERT teacher as closed forms get it.

LION's text mixer has neither exp nor a normaliser. Of exp(score) it keeps 1 + score, which is the best straight line
where scores are normal around 0: the keys are centred, each head is turned so that its weakest direction comes last,
and that direction becomes the constant. `layer_norm` makes up for the missing normaliser, and a least-squares fit of
`output.dense` for what is left. The mean position embedding goes into the token type's. Of an MLP that must become
narrower, the neurons that add most to its output stay, fitted in the same way.
"""

import torch
from torch.nn import functional as F

import lion_text

FIRST_DECAYS = (-3.0, -6.0)  # gate biases of the first and last head: lambda 0.953 to 0.998
POSITIONS = 32  # of the length of the calibration texts


def copy_linear(target, source):
    target.load_state_dict(source.state_dict())


def turn_head(mixer, head, q, k):
    """Rewrites one head's query and key given its outputs q, k [n, d] on calibration tokens, k centred."""
    d = q.shape[-1]
    rq, rk = (torch.linalg.qr(x.double()).R for x in (q, k))
    a, s, b = torch.linalg.svd(rq @ rk.T)
    root = s.sqrt()
    rows = slice(head * d, (head + 1) * d)
    for linear, r, turn in (mixer.query, rq, a), (mixer.key, rk, b.T):
        matrix = (torch.linalg.solve(r, turn) * root).T
        linear.weight.data[rows] = (matrix @ linear.weight[rows].double()).float()
        linear.bias.data[rows] = (matrix @ linear.bias[rows].double()).float()
        linear.weight.data[rows.stop - 1] = 0
        linear.bias.data[rows.stop - 1] = d**0.25  # squared and scaled by d^-1/2: 1


def start_mixer(mixer, teacher, x, keep):
    """Queries, keys and values of the student from the teacher's and its layer's input x [B, L, D]."""
    for name in "query", "key", "value":
        copy_linear(getattr(mixer, name), getattr(teacher, name))
    mixer.key.bias.data -= mixer.key(x[keep]).mean(0)
    q, k = mixer.query(x[keep]), mixer.key(x[keep])
    for head, (q_head, k_head) in enumerate(zip(q.chunk(mixer.heads, -1), k.chunk(mixer.heads, -1))):
        turn_head(mixer, head, q_head, k_head)
    mixer.Wa_i.weight.data.zero_()
    mixer.Wa_i.bias.data = torch.linspace(*FIRST_DECAYS, mixer.heads)


def fit(linear, x, y, ridge=1e-3):
    """The linear layer nearest to x [n, D] -> y [n, D]."""
    mean_x, mean_y = x.mean(0), y.mean(0)
    x, y = (x - mean_x).double(), (y - mean_y).double()
    gram = x.T @ x
    gram += ridge * gram.diagonal().mean() * torch.eye(len(gram))
    linear.weight.data = torch.linalg.solve(gram, x.T @ y).T.float()
    linear.bias.data = mean_y - linear.weight.data @ mean_x


def start_mlp(new, old, x):
    """The student's MLP from the teacher's and its input x [n, D]."""
    active = F.gelu(old.intermediate["dense"](x))
    weights = active.std(0) * old.output.dense.weight.norm(dim=0)
    neurons = weights.topk(new.intermediate["dense"].out_features).indices.sort().values
    new.intermediate["dense"].weight.data = old.intermediate["dense"].weight[neurons].clone()
    new.intermediate["dense"].bias.data = old.intermediate["dense"].bias[neurons].clone()
    fit(new.output.dense, active[:, neurons], old.output.dense(active))
    new.output.LayerNorm.load_state_dict(old.output.LayerNorm.state_dict())


@torch.no_grad()
def start_from(teacher, layers, rows, config, calibration):
    """The student: `layers` are the teacher's to keep, `rows` the rows of its vocabulary, `calibration` lists of the
    teacher's ids."""
    student = lion_text.TextEncoder(config)
    student.embeddings.word_embeddings.weight.data = teacher.embeddings.word_embeddings.weight[rows].clone()
    student.embeddings.LayerNorm.load_state_dict(teacher.embeddings.LayerNorm.state_dict())
    types = teacher.embeddings.token_type_embeddings.weight.clone()
    types[0] += teacher.embeddings.position_embeddings.weight[:POSITIONS].mean(0)
    student.embeddings.token_type_embeddings.weight.data = types

    ids, keep = lion_text.pad(calibration)
    x, wanted = teacher.embeddings(ids), dict(zip(layers, student.encoder["layer"]))
    for number, old in enumerate(teacher.encoder["layer"]):
        if (new := wanted.get(number)) is not None:
            old_mixer, mixer = old.attention["self"], new.attention["self"]
            start_mixer(mixer, old_mixer, x, keep)
            context = old_mixer(x, keep)[keep]
            mixer.layer_norm.weight.data.fill_(context.std())
            fit(new.attention["output"].dense, mixer(x, keep)[keep], old.attention["output"].dense(context))
            new.attention["output"].LayerNorm.load_state_dict(old.attention["output"].LayerNorm.state_dict())
            start_mlp(new, old, old.attention["output"](old_mixer(x, keep), x)[keep])
        x = old(x, keep)
    return student
