#!/usr/bin/env python3
"""The default plan makes the processor do no more than f32 and list-pytorch do: instructions of one step, on one thread, counted one by one.

    instructions.py BENCH_STEP

Counts repeat exactly, whatever else the machine does, so they say what times say only on a quiet one. They bound overhead (launches, casts, copies, packing), not
time: a bf16 tile instruction multiplies as much as hundreds of others. So these are models of few rows, where overhead is what a step consists of."""
import os
import subprocess
import sys

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench")
CASES = ["bf16", "f32", "bf16:list-pytorch"]
ODD = "odd.mpg"
MODELS = [("tiny, batch 4", "tiny.mpg", ["--batch", "4"]),
          ("odd 7, batch 5", ODD, ["--const", "width=7", "--batch", "5"]),
          ("odd 33, batch 4", ODD, ["--const", "width=33", "--batch", "4"]),
          ("odd 50, batch 3", ODD, ["--const", "width=50", "--batch", "3"]),
          ("linear", "../examples/linear.mpg", [])]
MOST = 1.02  # of f32, and of list-pytorch


def counts(bench_step, file, options):
    """Of the default, of it again, of f32 and of list-pytorch."""
    command = [bench_step, "--count", os.path.join(BENCH, file), *CASES, "--", "--threads", "1", "--cost-target", "cpu-amx", *options]
    r = subprocess.run(command, capture_output=True, text=True)
    if r.returncode == 77:
        print("skipped: " + r.stderr.strip())
        sys.exit(77)
    if r.returncode:
        sys.exit(r.stderr)
    return [int(line.split()[2]) for line in r.stdout.splitlines() if line.startswith("instructions ")]


def main():
    with open("/proc/cpuinfo") as f:
        if "avx512_bf16" not in f.read():
            print("skipped: this processor has no bf16 instructions")
            return 77
    failed = False
    for name, file, options in MODELS:
        default, again, f32, pytorch = counts(sys.argv[1], file, options)
        ok = default == again and default <= MOST * min(f32, pytorch)
        failed = failed or not ok
        print(f"{name:16} {default:9} {again:9} of f32 {default / f32:6.3f} of list-pytorch {default / pytorch:6.3f} {'' if ok else 'TOO MANY'}", flush=True)
    return 1 if failed else 0


sys.exit(main())
