#!/usr/bin/env python3
"""Times training steps of the GPU benchmark models in PyTorch: one JSON line. scripts/gpu_check runs it.

  torch_peer_gpu.py MODEL PRECISION [--compile] [--batch N]
  MODEL: tiny, mlp1024, gpt2, gpt2-medium; PRECISION: f32, tf32, bf16, f16

The models are those of bench/*.mpg: same shapes, f32 parameters, fused AdamW, autocast for bf16 and f16, GradScaler for f16,
gradient clipping for the GPT-2 shapes, the library's flash attention. Compiled: mode "max-autotune" (which records CUDA graphs).
Inputs stay on the device, and the loss is read once per round: nothing waits for the host inside a round."""
import json
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

ROUNDS, ROUND_SECONDS = 5, 0.4
VOCABULARY, LENGTH = 50304, 1024
SHAPES = {"gpt2": (768, 12, 12), "gpt2-medium": (1024, 24, 16)}


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.reshape(batch, length, self.heads, -1).transpose(1, 2)
                   for t in self.qkv(self.norm1(x)).split(width, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt2(nn.Module):
    def __init__(self, width, depth, heads):
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, width)
        self.wpe = nn.Parameter(0.02 * torch.randn(LENGTH, width))
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens):
        return F.linear(self.norm(self.blocks(self.wte(tokens) + self.wpe)), self.wte.weight)


def make(name, batch):
    if name in SHAPES:
        ids = torch.randint(0, VOCABULARY, (2, batch or 16, LENGTH))
        return Gpt2(*SHAPES[name]), ids[0], ids[1], 1.0
    sizes, default = ([64, 64, 64, 10], 32) if name == "tiny" else ([1024] * 5 + [10], 512)
    layers = []
    for i in range(len(sizes) - 1):
        layers += [nn.Linear(sizes[i], sizes[i + 1])] + ([nn.ReLU()] if i < len(sizes) - 2 else [])
    rows = batch or default
    return nn.Sequential(*layers), torch.rand(rows, sizes[0]), torch.randint(0, 10, (rows,)), None


def main():
    name, precision = sys.argv[1], sys.argv[2]
    batch = int(sys.argv[sys.argv.index("--batch") + 1]) if "--batch" in sys.argv else None
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    model, x, y, clip = make(name, batch)
    model, x, y = model.cuda(), x.cuda(), y.cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    scaler = torch.amp.GradScaler("cuda", enabled=precision == "f16")
    compiled = "--compile" in sys.argv
    run = torch.compile(model, mode="max-autotune") if compiled else model
    low = {"bf16": torch.bfloat16, "f16": torch.float16}.get(precision)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=low or torch.bfloat16, enabled=low is not None):
            loss = F.cross_entropy(run(x).flatten(0, -2), y.flatten())
        scaler.scale(loss).backward()
        if clip:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        scaler.step(optimizer)
        scaler.update()
        return loss

    for _ in range(5):
        step()
    torch.cuda.synchronize()
    start = time.perf_counter()
    step()
    torch.cuda.synchronize()
    steps = max(2, min(500, int(ROUND_SECONDS / (time.perf_counter() - start))))
    rounds = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(steps):
            loss = step()
        torch.cuda.synchronize()
        rounds.append((time.perf_counter() - begin) / steps * 1e3)
    print(json.dumps({"model": name, "precision": precision, "compiled": compiled, "torch": torch.__version__,
                      "device": torch.cuda.get_device_name(), "ms": statistics.median(rounds), "best_ms": min(rounds),
                      "loss": float(loss)}))


if __name__ == "__main__":
    main()
