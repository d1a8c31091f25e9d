"""What a teacher makes of each training sentence, computed once and kept on disk.

A shard holds, for SHARD sentences, the teacher's last hidden states averaged over the pieces of each word ([CLS]
and [SEP] are words, too), and the sentences' embeddings. Words, unlike pieces, are the same under any vocabulary.
"""

import os
import pathlib
import time

import numpy
import torch
from tokenizers import BertWordPieceTokenizer

import lion_text

SHARD = 2048
LONGEST = 256  # pieces; the teacher was not trained beyond


def wait_while(pause_file):
    while pause_file and os.path.exists(pause_file):
        time.sleep(2)


class Tokenizer:
    """BERT's uncased rules with the vocabulary of a folder."""

    def __init__(self, vocabulary):
        self.pieces = BertWordPieceTokenizer(str(vocabulary), lowercase=True)

    def ids(self, texts):
        return [encoding.ids for encoding in self.pieces.encode_batch(texts)]

    def ids_and_words(self, texts):
        """Per text: ids, and for each id the index of its word."""
        for encoding in self.pieces.encode_batch(texts):
            words = [0] + [word + 1 for word in encoding.word_ids[1:-1]]
            yield encoding.ids, words + [words[-1] + 1]


def word_means(tokens, keep, words):
    """tokens [B, L, D], words: lists of word indices -> [all words of all sentences, D]"""
    first, flat, at = 0, [], torch.empty(0)
    for sentence in words:
        flat.append(torch.tensor(sentence) + first)
        first += sentence[-1] + 1
    at = torch.cat(flat)
    counts = torch.bincount(at, minlength=first).to(tokens.dtype)
    sums = torch.zeros(first, tokens.shape[-1], dtype=tokens.dtype).index_add(0, at, tokens[keep])
    return sums / counts[:, None]


class Cache:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def path(self, shard):
        return self.folder / f"{shard:05d}.npz"

    def shards(self):
        """How many there are, counted without a gap."""
        count = 0
        while self.path(count).exists():
            count += 1
        return count

    def fill(self, teacher, tokenizer, texts, pause_file=None, workers=1):
        """Makes the shards that are missing, in `workers` processes of one thread each: on a busy machine that is several
        times as fast as one process with as many threads, which wait for the slowest of them."""
        missing = [shard for shard in range(len(texts) // SHARD) if not self.path(shard).exists()]
        if missing:
            teacher.share_memory()
            torch.multiprocessing.spawn(self._work, (teacher, tokenizer, texts, missing, workers, pause_file), workers)

    @torch.inference_mode()
    def _work(self, rank, teacher, tokenizer, texts, shards, workers, pause_file):
        torch.set_num_threads(1)
        for shard in shards[rank::workers]:
            start = time.monotonic()
            part = list(tokenizer.ids_and_words(texts[shard * SHARD:(shard + 1) * SHARD]))
            states, embeddings = [None] * len(part), torch.empty(len(part), teacher.config["hidden_size"])
            for batch in lion_text.batches_by_length([ids for ids, _ in part], 2048):
                wait_while(pause_file)
                ids, keep = lion_text.pad([part[i][0] for i in batch])
                ids, keep = ids[:, :LONGEST], keep[:, :LONGEST]
                with torch.autocast("cpu", torch.bfloat16, enabled=lion_text.HAS_FAST_BFLOAT16):
                    tokens = teacher(ids, keep).float()
                embeddings[batch] = lion_text.mean_pool(tokens, keep)
                words = [part[i][1][:LONGEST] for i in batch]
                sizes = [sentence[-1] + 1 for sentence in words]
                for i, rows in zip(batch, word_means(tokens, keep, words).half().split(sizes)):
                    states[i] = rows.numpy()
            temporary = self.folder / f"unfinished-{rank}.npz"
            numpy.savez(temporary, words=numpy.concatenate(states), embeddings=embeddings.half().numpy(),
                        ends=numpy.cumsum([len(rows) for rows in states]))
            temporary.rename(self.path(shard))
            print(f"teacher: shard {shard} of {len(texts) // SHARD}, {time.monotonic() - start:.0f} s", flush=True)
