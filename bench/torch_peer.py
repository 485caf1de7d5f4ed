#!/usr/bin/env python3
"""Times training steps of the benchmark models in PyTorch: one JSON line per model and mode. bench/compare runs it.

  torch_peer.py MODEL PRECISION THREADS [--compile]     MODEL: tiny, mlp1024, gpt; PRECISION: f32, bf16

The models are those of bench/tiny.mpg, bench/mlp1024.mpg and examples/gpt.mpg (width 128): same shapes, same optimizer
with its fused implementation where there is one, f32 parameters, autocast for bf16, gradient clipping for gpt."""
import json
import os
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

ROUNDS = 7


class Gpt(nn.Module):
    def __init__(self, vocabulary=75, width=128, depth=4, heads=4, length=128):
        super().__init__()
        self.heads = heads
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Parameter(0.02 * torch.randn(length, width))
        self.blocks = nn.ModuleList(
            nn.ModuleDict({
                "norm1": nn.LayerNorm(width), "qkv": nn.Linear(width, 3 * width), "out": nn.Linear(width, width),
                "norm2": nn.LayerNorm(width), "up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width),
            }) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe
        batch, time_, width = x.shape
        for b in self.blocks:
            q, k, v = b["qkv"](b["norm1"](x)).split(width, dim=-1)
            q, k, v = (t.reshape(batch, time_, self.heads, -1).transpose(1, 2) for t in (q, k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + b["out"](y.transpose(1, 2).reshape(batch, time_, width))
            x = x + b["down"](F.gelu(b["up"](b["norm2"](x))))
        return F.linear(self.norm(x), self.wte.weight)


def make(name):
    if name == "gpt":
        return Gpt(), torch.randint(0, 75, (16, 128)), torch.randint(0, 75, (16, 128)), 1.0
    sizes, batch = ([64, 64, 64, 10], 32) if name == "tiny" else ([1024] * 5 + [10], 512)
    layers = []
    for i in range(len(sizes) - 1):
        layers.append(nn.Linear(sizes[i], sizes[i + 1]))
        if i < len(sizes) - 2:
            layers.append(nn.ReLU())
    return nn.Sequential(*layers), torch.rand(batch, sizes[0]), torch.randint(0, 10, (batch,)), None


def optimizer_of(model):
    try:
        return torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    except (RuntimeError, TypeError):
        return torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)


def main():
    name, precision, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model, x, y, clip = make(name)
    optimizer = optimizer_of(model)
    run = torch.compile(model) if "--compile" in sys.argv else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
            out = run(x)
            loss = F.cross_entropy(out.flatten(0, -2).float(), y.flatten())
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()

    for _ in range(5):
        step()
    start = time.perf_counter()
    step()
    steps = max(1, min(200, int(0.3 / (time.perf_counter() - start))))
    wall, processor = [], []
    for _ in range(ROUNDS):
        a, b = time.perf_counter(), time.process_time()
        for _ in range(steps):
            step()
        wall.append((time.perf_counter() - a) / steps * 1e3)
        processor.append((time.process_time() - b) / steps / threads * 1e3)
    print(json.dumps({"model": name, "precision": precision, "threads": threads, "compiled": "--compile" in sys.argv,
                      "torch": torch.__version__, "wall_ms": statistics.median(wall), "wall_best_ms": min(wall),
                      "cpu_ms": statistics.median(processor), "cpu_best_ms": min(processor)}))


if __name__ == "__main__":
    os.environ.pop("OPENBLAS_CORETYPE", None)
    main()
