#!/usr/bin/env python3
"""Writes a LION model with random weights, in any layout that the server reads, for tests and benchmarks.

Needs nothing but Python 3.9 or later. The same arguments give the same bytes.
"""

import argparse
import pathlib
import string

from checkpoint_files import write_composer, write_deit, write_json, write_safetensors, write_shards
from model_tensors import text_tensors, vision_tensors
import torch_zip

SIZES = {"tiny": (192, 12, 3), "small": (384, 12, 6), "base": (768, 12, 12), "large": (1024, 24, 16)}
MASK_TYPES = {"lit": "Lit", "d": "Decay", "s": "Selective", "softmax": "Softmax"}
# The first is what text training writes today, the others what it wrote before.
ARCH_TYPES = {"lit": ("lion-lit", "linear_attention"), "d": ("lion-d", "nova", "lion-retnet"),
              "s": ("lion-s", "nova-inputdep"), "softmax": ("attention",)}
LAYOUTS = {
    "safetensors": "model.safetensors, or its shards: what Hugging Face writes",
    "bin": "pytorch_model.bin, or its shards: what Hugging Face wrote before",
    "pth": "checkpoint.pth of DeiT-style training, with its arguments",
    "state-dict": "state_dict.pth, torch.save(model.state_dict())",
    "composer": "latest-rank0.pt of MosaicML Composer",
}
ARCHITECTURES = {"mlm": "BertForMaskedLM", "classify": "BertForSequenceClassification",
                 "regress": "BertForSequenceClassification", "embed": "BertModel", "sentence": "BertModel"}
TORCH_TYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def vision_config(o):
    return {"mask_type": MASK_TYPES[o.variant], "order": {"normal": "Normal", "s": "S"}[o.order], "pos_emb": o.pos_emb,
            "cls_tok": o.cls_tok, "num_heads": o.heads, "depth": o.depth, "patch_size": o.patch_size,
            "embed_dim": o.width, "num_classes": o.num_classes, "img_size": o.img_size}


def vision_arguments(o):
    """What DeiT-style training keeps of its command line. There is no num_heads: the model's name stands for it."""
    config = vision_config(o)
    return {"model": f"lion_{o.size or 'custom'}_patch{o.patch_size}_{o.img_size}", "input_size": o.img_size,
            "nb_classes": o.num_classes, "batch_size": 64, "lr": 5e-4, "resume": "",
            **{key: config[key] for key in ("mask_type", "order", "pos_emb", "cls_tok")}}


def text_config(o):
    has_positions = o.variant in ("lit", "softmax")
    config = {
        "model_type": "bert", "architectures": [ARCHITECTURES[o.task]], "vocab_size": o.vocabulary,
        "hidden_size": o.width, "num_hidden_layers": o.depth, "num_attention_heads": o.heads,
        "intermediate_size": o.mlp_width, "hidden_act": "gelu", "max_position_embeddings": o.max_positions,
        "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0, "torch_dtype": TORCH_TYPES[o.dtype],
        "position_embedding_type": "absolute" if has_positions else "relative_key_query",
        "layer_norm_after": o.layer_norm_after}
    if o.task != "sentence":
        config["arch_type"] = o.spelling
    if o.task == "classify":
        config["id2label"] = {str(n): f"label {n}" for n in range(o.num_classes)}
    return config


def vocabulary(size):
    """WordPiece: ASCII text needs no [UNK]. The rest is made-up syllables, so that text gets longer pieces too."""
    characters = string.ascii_lowercase + string.digits + string.punctuation
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *characters, *(f"##{c}" for c in characters)]
    for length in range(2, 5):
        for number in range(min(26**length, size)):
            letters = "".join(string.ascii_lowercase[number // 26**place % 26] for place in reversed(range(length)))
            words += [letters, f"##{letters}"]
    return words[:size]


def write_sidecars(o):
    if o.modality == "text":
        (o.output / "vocab.txt").write_text("".join(f"{word}\n" for word in vocabulary(o.vocabulary)))
    if o.config:
        write_json(o.output / "config.json", vision_config(o) if o.modality == "vision" else text_config(o))
    if o.task == "sentence":
        module = "sentence_transformers.models."
        write_json(o.output / "modules.json", [
            {"idx": 0, "name": "0", "path": "", "type": f"{module}Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{module}Pooling"},
            {"idx": 2, "name": "2", "path": "2_Normalize", "type": f"{module}Normalize"}])
        (o.output / "1_Pooling").mkdir(exist_ok=True)
        write_json(o.output / "1_Pooling" / "config.json",
                   {"word_embedding_dimension": o.width, "pooling_mode_cls_token": False,
                    "pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False})
        write_json(o.output / "sentence_bert_config.json", {"max_seq_length": o.max_positions, "do_lower_case": False})


def write_weights(o, tensors, average):
    if o.layout == "safetensors":
        write_shards(o.output, "model", "safetensors", write_safetensors, tensors, o.shards)
    elif o.layout == "bin":
        write_shards(o.output, "pytorch_model", "bin", torch_zip.save, tensors, o.shards)
    elif o.layout == "pth":
        write_deit(o.output / "checkpoint.pth", tensors, average, vision_arguments(o))
    elif o.layout == "composer":
        write_composer(o.output / "latest-rank0.pt", tensors)
    else:
        torch_zip.save(o.output / "state_dict.pth", tensors)


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("output", type=pathlib.Path, help="folder, made if need be")
    add("--modality", choices=("vision", "text"), default="vision")
    add("--size", choices=SIZES, help="a named size; the three numbers below change it")
    add("--width", "--embed-dim", type=int)
    add("--depth", type=int)
    add("--heads", "--num-heads", type=int)
    add("--mlp-width", type=int, help="four times the width unless given")
    add("--variant", choices=MASK_TYPES, default="s")
    add("--layout", choices=LAYOUTS, default="safetensors", help="; ".join(f"{k}: {v}" for k, v in LAYOUTS.items()))
    add("--shards", type=int, default=1, help="of the layouts safetensors and bin")
    add("--ema", action="store_true", help="pth: a second set of weights, the average")
    add("--prefix", default="", help='before every name: "module." (DataParallel), "_orig_mod." (torch.compile)')
    add("--no-config", dest="config", action="store_false", help="no config.json")
    add("--dtype", choices=TORCH_TYPES, default="f32")
    add("--seed", type=int, default=0)
    add("--num-classes", type=int, help="1000 for vision, 3 for text that classifies unless given; 0: no head")
    vision = parser.add_argument_group("vision")
    vision.add_argument("--order", choices=("normal", "s"), default="normal")
    vision.add_argument("--pos-emb", action="store_true", help="position embeddings")
    vision.add_argument("--cls-tok", action="store_true", help="the class token is the embedding, not the mean")
    vision.add_argument("--patch-size", type=int, default=16)
    vision.add_argument("--img-size", type=int, default=224)
    text = parser.add_argument_group("text")
    text.add_argument("--task", choices=ARCHITECTURES, default="mlm", help="sentence: softmax, as a sentence encoder's folder")
    text.add_argument("--spelling", help="arch_type in config.json: " +
                      "; ".join(f"{variant}: {', '.join(names)}" for variant, names in ARCH_TYPES.items()))
    text.add_argument("--vocabulary", type=int, default=30522)
    text.add_argument("--vocabulary-rows", type=int, help="rows of the table, where it has more than the vocabulary")
    text.add_argument("--max-positions", type=int, default=512)
    text.add_argument("--layer-norm-after", action="store_true")
    text.add_argument("--untied", action="store_true", help="mlm: a decoder of its own")
    text.add_argument("--no-bert", action="store_true", help='names without "bert."')
    text.add_argument("--old-norm-names", action="store_true", help="LayerNorm.gamma and beta, as TensorFlow had them")
    text.add_argument("--leftovers", action="store_true", help="tensors that nothing uses: position_ids and the like")
    o = parser.parse_args(arguments)
    for name, value in zip(("width", "depth", "heads"), SIZES.get(o.size, (None,) * 3)):
        if getattr(o, name) is None:
            setattr(o, name, value)
    check(o, parser.error)
    return o


def check(o, error):
    """Completes the options, and refuses those that do not go together."""
    if None in (o.width, o.depth, o.heads):
        error("give --size, or --width, --depth and --heads")
    if o.width < 1 or o.depth < 1 or o.heads < 1 or o.width % o.heads:
        error("--width must be a multiple of --heads, and all three at least 1")
    o.mlp_width = o.mlp_width or 4 * o.width
    if o.shards < 1 or (o.shards > 1 and o.layout not in ("safetensors", "bin")):
        error("--shards goes with --layout safetensors or bin")
    if o.ema and o.layout != "pth":
        error("--ema goes with --layout pth")
    if o.modality == "vision":
        o.num_classes = 1000 if o.num_classes is None else o.num_classes
        o.task = None
        return
    if o.layout == "pth":
        error("--layout pth is for vision")
    if o.task == "sentence" and o.variant != "softmax":
        error("--task sentence goes with --variant softmax")
    if o.task == "regress" and o.num_classes not in (None, 1):
        error("--task regress has one output")
    if o.num_classes is None:
        o.num_classes = {"classify": 3, "regress": 1}.get(o.task, 0)
    o.spelling = o.spelling or ARCH_TYPES[o.variant][0]
    if o.spelling not in ARCH_TYPES[o.variant]:
        error(f"--spelling of {o.variant} is one of {', '.join(ARCH_TYPES[o.variant])}")
    o.vocabulary_rows = o.vocabulary_rows or o.vocabulary
    if o.vocabulary_rows < o.vocabulary or len(vocabulary(o.vocabulary)) < o.vocabulary:
        error("--vocabulary is larger than its table, or than the words there are")
    o.encoder_prefix = "" if o.no_bert else "bert."


def main(arguments=None):
    o = parse_arguments(arguments)
    make = vision_tensors if o.modality == "vision" else text_tensors
    tensors, average = ({o.prefix + name: tensor for name, tensor in make(o, seed).items()}
                        for seed in (o.seed, o.seed + 1))
    o.output.mkdir(parents=True, exist_ok=True)
    write_sidecars(o)
    write_weights(o, tensors, average if o.ema else None)
    print(f"{o.output}: {sum(tensor.elements for tensor in tensors.values()):,} parameters")


if __name__ == "__main__":
    main()
