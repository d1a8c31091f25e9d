"""The training loop of distill_sentence_encoder.py: bounded by time, resumable, and it pauses on request."""

import os
import random
import time

import numpy
import torch
from torch.nn import functional as F

import lion_text
import teacher_cache

WARM_UP = 0.02  # of the time
SHARDS_AT_ONCE = 4
SAVE_SECONDS = 180


def losses(tokens, keep, words, target_words, target):
    """Three views of the difference: of every word, of the sentence, and of the similarities within the batch."""
    found_words = teacher_cache.word_means(tokens, keep, words)
    word = (found_words - target_words).square().sum() / target_words.square().sum()
    found = lion_text.mean_pool(tokens, keep)
    sentence = 1 - (found * target).sum(-1).mean()
    similarity = F.mse_loss(found @ found.T, target @ target.T)
    return word, sentence, similarity


class Batches:
    """Endless batches of cached shards; every round takes the shards that were met least."""

    def __init__(self, texts, cache, shards, tokenizer, tokens, met):
        self.texts, self.cache, self.shards, self.tokenizer, self.tokens = texts, cache, shards, tokenizer, tokens
        self.met = met  # how often each shard was met

    def __iter__(self):
        while True:
            random_ = random.Random(sum(self.met.values()))
            shards = sorted(self.shards, key=lambda shard: (self.met.get(shard, 0), random_.random()))[:SHARDS_AT_ONCE]
            yield from self.round(shards, random_)
            for shard in shards:
                self.met[shard] = self.met.get(shard, 0) + 1

    def round(self, shards, random_):
        sentences, words, targets = [], [], []
        for shard in shards:
            first = shard * teacher_cache.SHARD
            content = numpy.load(self.cache.path(shard))
            states = numpy.split(content["words"], content["ends"][:-1])
            texts = self.texts[first:first + teacher_cache.SHARD]
            for sentence, state, target in zip(self.tokenizer.ids_and_words(texts), states, content["embeddings"]):
                if sentence[1][-1] + 1 == len(state):  # not of a text that was too long for the teacher
                    sentences.append(sentence)
                    words.append(state)
                    targets.append(target)
        batches = list(lion_text.batches_by_length([ids for ids, _ in sentences], self.tokens))
        random_.shuffle(batches)
        for batch in batches:
            ids, keep = lion_text.pad([sentences[i][0] for i in batch])
            yield (ids, keep, [sentences[i][1] for i in batch],
                   torch.from_numpy(numpy.concatenate([words[i] for i in batch])).float(),
                   F.normalize(torch.from_numpy(numpy.stack([targets[i] for i in batch])).float(), dim=-1))


def learning_rate(progress, highest):
    return highest * min(progress / WARM_UP, (1 - progress) / (1 - WARM_UP))


def make_optimizer(student, lr, weight_decay):
    matrices = [p for name, p in student.named_parameters() if p.dim() > 1 and "embeddings" not in name]
    others = [p for name, p in student.named_parameters() if p.dim() <= 1 or "embeddings" in name]
    return torch.optim.AdamW([{"params": matrices, "weight_decay": weight_decay},
                              {"params": others, "weight_decay": 0.0}], lr=lr, betas=(0.9, 0.98), fused=True)


def save(path, content):
    temporary = path.with_suffix(".tmp")
    torch.save(content, temporary)
    os.replace(temporary, path)


def train(student, texts, cache, tokenizer, folder, o):
    """Trains for o.minutes of processor time in each worker, those of earlier runs in `folder` included.

    o.workers processes of one thread each change the same weights without waiting for each other: on a busy machine
    that is faster than one process with as many threads, whose matrix products wait for the slowest of them."""
    checkpoint = folder / "training-0.pt"
    if checkpoint.exists():
        student.load_state_dict(torch.load(checkpoint)["student"])
    student.share_memory()
    arguments = student, texts, cache, tokenizer, folder, o
    torch.multiprocessing.spawn(work, arguments, nprocs=o.workers)


def work(rank, student, texts, cache, tokenizer, folder, o):
    torch.set_num_threads(1)
    checkpoint = folder / f"training-{rank}.pt"
    optimizer = make_optimizer(student, o.lr, o.weight_decay)
    spent, step, met = 0.0, 0, {}
    if checkpoint.exists():
        state = torch.load(checkpoint)
        optimizer.load_state_dict(state["optimizer"])
        spent, step, met = state["spent"], state["step"], state["met"]
        print(f"worker {rank}: resumed after {spent / 60:.1f} minutes, {step} steps", flush=True)
    shards = range(rank, cache.shards(), o.workers)
    batches = Batches(texts, cache, shards, tokenizer, o.batch_tokens, met)
    saved, shown, sums = spent, step, numpy.zeros(4)
    student.train()
    for ids, keep, words, target_words, target in batches:
        teacher_cache.wait_while(o.pause_file)
        start = time.process_time()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(min(spent / (60 * o.minutes), 1), o.lr)
        with torch.autocast("cpu", torch.bfloat16, enabled=lion_text.HAS_FAST_BFLOAT16):
            tokens = student(ids, keep).float()
        parts = losses(tokens, keep, words, target_words, target)
        loss = sum(weight * part for weight, part in zip((o.word, o.sentence, o.similarity), parts))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        optimizer.step()
        spent += time.process_time() - start
        step += 1
        sums += [part.item() for part in parts] + [keep.sum().item()]
        if step - shown == 100:
            print("worker {}: {} steps, {:.1f} minutes: words {:.4f}, sentences {:.4f}, similarities {:.5f}, "
                  "{:.0f} tokens a step".format(rank, step, spent / 60, *sums / 100), flush=True)
            shown, sums = step, numpy.zeros(4)
        finished = spent >= 60 * o.minutes
        if finished or spent - saved > SAVE_SECONDS:
            save(checkpoint, {"student": student.state_dict() if rank == 0 else None,
                              "optimizer": optimizer.state_dict(), "spent": spent, "step": step, "met": batches.met})
            saved = spent
        if finished:
            return
