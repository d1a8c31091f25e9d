"""Writes a sentence encoder as Hugging Face and sentence-transformers lay one out."""

import numpy

import checkpoint_files

MODULES = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
           {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
           {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}]
TOKENIZER = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "tokenize_chinese_chars": True,
             "strip_accents": None, "unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]",
             "cls_token": "[CLS]", "mask_token": "[MASK]"}


class HalfTensor:
    """What checkpoint_files.write_safetensors asks of a tensor."""

    dtype = "f16"

    def __init__(self, tensor):
        self.values = tensor.detach().numpy().astype(numpy.float16)
        self.shape, self.size = list(self.values.shape), self.values.nbytes

    def bytes(self):
        return self.values.tobytes()


def write_vocabulary(folder, pieces):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("".join(piece + "\n" for piece in pieces), encoding="utf-8")


def write(folder, model):
    """Everything but the vocabulary; values are rounded to float16."""
    (folder / "1_Pooling").mkdir(parents=True, exist_ok=True)
    checkpoint_files.write_json(folder / "config.json", model.config)
    checkpoint_files.write_json(folder / "modules.json", MODULES)
    checkpoint_files.write_json(folder / "tokenizer_config.json", TOKENIZER)
    checkpoint_files.write_json(folder / "1_Pooling" / "config.json", {
        "word_embedding_dimension": model.config["hidden_size"], "pooling_mode_cls_token": False,
        "pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False,
        "pooling_mode_mean_sqrt_len_tokens": False})
    checkpoint_files.write_safetensors(folder / "model.safetensors", {
        f"bert.{name}": HalfTensor(tensor) for name, tensor in model.state_dict().items()})
