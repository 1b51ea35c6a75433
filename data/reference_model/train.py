# SPDX-License-Identifier: Apache-2.0
"""Trains the reference model: a small Llama-layout language model that retrieves over 16,384 tokens.

    train.py --corpus DIR --out DIR [--minutes 7.9] [--samples 96]

DIR of --corpus is what prepare_corpus.py wrote. One GPU; the minutes are training alone, evaluation and export come on top. Sequences are prose with
lines of synthetic tasks in between (recipe/tasks.py); their length is drawn per step and grows with the time spent. Muon trains the value, output
and MLP matrices, AdamW the rest: with AdamW for queries and keys, heads grow sharper and attention sinks form, as in large models.

Writes a Hugging Face folder and evaluation.json. Needs torch, tokenizers, safetensors, numpy. A trial on a CPU:
    train.py --corpus DIR --out DIR --steps 3 --tokens 1024 --longest 512 --samples 2 --workers 1 --set num_hidden_layers=2 hidden_size=64
"""
import argparse
import json
import multiprocessing
import time

import numpy as np
import torch

from recipe.corpus import Corpus
from recipe.export import export
from recipe.model import Model, Muon
from recipe.settings import CONFIG, KIND, LENGTHS, WEIGHTS
from recipe.tasks import EVALUATIONS, evaluation_set, training_sequence

WARM_UP_STEPS = 120


def make_batches(pipe, folder, tokens, seed):
    """A process of its own: answers each length with a batch of TOKENS tokens."""
    corpus, rng = Corpus(folder, "train"), np.random.default_rng([7, seed])
    while True:
        try:
            length = pipe.recv()
        except (EOFError, ConnectionResetError):  # the training has ended
            return
        rows = [training_sequence(corpus, rng, length) for _ in range(tokens // length)]
        pipe.send((np.stack([ids for ids, _ in rows]), np.stack([kinds for _, kinds in rows])))


class Batches:
    """Batches from several processes in turn, each asked one batch ahead."""

    def __init__(self, options):
        self._longest, self._rng, self._next = options.longest, np.random.default_rng(11), 0
        context = multiprocessing.get_context("spawn")
        self._pipes = []
        for seed in range(options.workers):
            mine, theirs = context.Pipe()
            context.Process(target=make_batches, args=(theirs, options.corpus, options.tokens, seed), daemon=True).start()
            mine.send(self._length(0.0))
            self._pipes.append(mine)

    def _length(self, share):
        weights = next(weights for until, weights in LENGTHS if share < until or until == 1)
        weights = {length: weight for length, weight in weights.items() if length <= self._longest} or {self._longest: 1}
        p = np.array(list(weights.values()), float)
        return int(self._rng.choice(list(weights), p=p / p.sum()))

    def take(self, share, device):
        pipe = self._pipes[self._next % len(self._pipes)]
        self._next += 1
        ids, kinds = pipe.recv()
        pipe.send(self._length(share))
        return torch.from_numpy(ids.astype(np.int64)).to(device), torch.from_numpy(kinds.astype(np.int64)).to(device)


class Trainer:
    def __init__(self, model, options, device):
        self.model, self.options = model, options
        self._losses = torch.compile(model.losses) if device.type == "cuda" else model.losses
        self._weights = torch.tensor(list(WEIGHTS.values()), device=device)
        named = dict(model.named_parameters())
        queries_keys = [p for name, p in named.items() if "q_proj" in name or "k_proj" in name]
        matrices = [p for name, p in named.items() if p.dim() == 2 and not any(part in name for part in ("embed", "q_proj", "k_proj"))]
        self.muon = Muon(matrices, options.lr, weight_decay=options.weight_decay)
        groups = [[p for p in named.values() if p.dim() == 1], [model.model.embed_tokens.weight], queries_keys]
        self.adam = torch.optim.AdamW([dict(params=group) for group in groups], lr=options.adam_lr, betas=(0.9, 0.95), weight_decay=0.0)

    def set_rates(self, share, steps):
        """Warm-up, flat to 45 % of the time, then linear to 0.02."""
        factor = min(1.0, (steps + 1) / WARM_UP_STEPS) * min(1.0, max(0.02, (1 - share) / 0.55))
        self.muon.param_groups[0].update(lr=self.options.lr * factor, momentum=0.85 + 0.10 * min(1.0, steps / 300))
        for group, portion in zip(self.adam.param_groups, (1.0, 0.5, 0.5)):
            group["lr"] = self.options.adam_lr * portion * factor

    def step(self, ids, kinds):
        losses = self._losses(ids[:, :-1].contiguous(), ids[:, 1:].contiguous())
        kinds = kinds[:, 1:].flatten()
        (losses * self._weights[kinds]).mean().backward()
        torch.nn.utils.clip_grad_norm_([self.model.model.embed_tokens.weight], 1.0)
        for optimizer in (self.muon, self.adam):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return losses.detach()[kinds == KIND["prose"]].mean()


@torch.no_grad()
def accuracy(model, ids, kinds, tokens_per_pass=131072):
    """Share of sequences whose whole answer is the greedy one, and share of answer tokens."""
    device, whole, parts = model.model.norm.weight.device, [], []
    at_once = max(1, tokens_per_pass // ids.shape[1])
    for i in range(0, len(ids), at_once):
        x = torch.from_numpy(ids[i:i + at_once].astype(np.int64)).to(device)
        kind = torch.from_numpy(kinds[i:i + at_once, 1:].astype(np.int64)).to(device)
        answer = (kind >= KIND["needle"]) & (kind < KIND["asked"])
        right = torch.zeros_like(answer)
        right[answer] = model.logits(model(x[:, :-1])[answer.flatten()]).argmax(-1) == x[:, 1:][answer]
        whole.append((right | ~answer).all(1))
        parts.append(right[answer])
    return torch.cat(whole).float().mean().item(), torch.cat(parts).float().mean().item()


@torch.no_grad()
def prose_loss(model, corpus, length, windows):
    """Mean loss on held-out text in nats per token."""
    rng, device = np.random.default_rng(5), model.model.norm.weight.device
    rows = [torch.from_numpy(corpus.sequence(rng, length, [])[0].astype(np.int64)).to(device)[None] for _ in range(windows)]
    return float(np.mean([model.losses(row[:, :-1], row[:, 1:]).mean().item() for row in rows]))


def evaluate(model, options):
    corpus = Corpus(options.corpus, "valid")
    lengths = [n for n in (4096, 8192, 16384) if n <= options.longest] or [options.longest]
    result = dict(prose={n: prose_loss(model, corpus, n, max(4, 2**18 // n) if options.samples > 8 else 2) for n in {min(2048, options.longest), lengths[-1]}}, scores={})
    for name in EVALUATIONS:
        fitting = [n for n in lengths if n >= (4096 if "128 pairs" in name else 2048 if "32 pairs" in name else 512)]
        result["scores"][name] = {n: accuracy(model, *evaluation_set(corpus, name, n, options.samples)) for n in fitting}
        print(f"{name:40s}" + "".join(f"{n:7d}: {whole:.3f} ({part:.3f})" for n, (whole, part) in result["scores"][name].items()), flush=True)
    return result


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--minutes", type=float, default=7.9, help="of training")
    parser.add_argument("--steps", type=int, help="train so many steps instead of minutes")
    parser.add_argument("--tokens", type=int, default=65536, help="per step")
    parser.add_argument("--longest", type=int, default=16384, help="longest sequence")
    parser.add_argument("--samples", type=int, default=96, help="per evaluation")
    parser.add_argument("--workers", type=int, default=max(2, multiprocessing.cpu_count() - 2), help="processes that make batches")
    parser.add_argument("--lr", type=float, default=0.02, help="of Muon")
    parser.add_argument("--adam-lr", type=float, default=0.003, help="of the norms; embedding, queries and keys get half")
    parser.add_argument("--weight-decay", type=float, default=0.1, help="of Muon's matrices")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=NUMBER", help="changes of the model's shape")
    return parser.parse_args()


def main():
    options = parse_options()
    CONFIG.update({name: type(CONFIG[name])(value) for name, value in (pair.split("=") for pair in options.set)})
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Model().to(device)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters on {device}, torch {torch.__version__}", flush=True)
    trainer, batches = Trainer(model, options, device), Batches(options)
    begin, steps, shown = None, 0, time.time()
    while True:
        # The clock starts after the first step, which compiles.
        elapsed = 0.0 if begin is None else time.time() - begin
        share = steps / options.steps if options.steps else elapsed / (60 * options.minutes)
        if share >= 1:
            break
        trainer.set_rates(share, steps)
        loss = trainer.step(*batches.take(share, device))
        steps += 1
        begin = begin or time.time()
        if time.time() - shown > 15:
            shown = time.time()
            print(f"step {steps}, {steps * options.tokens / 1e6:.0f} M tokens, {100 * share:.0f} %, prose {loss.item():.3f} nats", flush=True)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.to(torch.bfloat16))  # what is exported is what is scored
    export(model, options.out, options.corpus + "/tokenizer.json")
    result = dict(parameters=sum(p.numel() for p in model.parameters()), steps=steps, tokens=steps * options.tokens, config=CONFIG, **evaluate(model, options))
    with open(options.out + "/evaluation.json", "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
