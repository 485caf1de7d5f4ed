"""Arithmetic in the PTX of generated kernels is what the numerics promise: every division, root, sum and product of floats is rounded to
nearest (`div.rn`, `sqrt.rn`), nothing is approximate, subnormals are not flushed, tensor cores add up in f32, and no atomic adds floats, so
that sums have one order. The rules are tried on lines that break them before they are believed. With the real NVRTC, which runs without a GPU."""
import collections
import os
import re
import subprocess
import sys
import tempfile

MPC, ROOT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
ARCHITECTURE = "sm_80"  # PTX is the same for all: kernels have no branch on the architecture
RUNS = (("linear", "f32"), ("mlp", "f16"), ("digits", "f32"), ("digits", "bf16"), ("gpt", "f32"), ("gpt", "tf32"), ("gpt", "bf16"),
        ("gpt", "f16"))
FLOAT = r"(?:f16|f16x2|bf16|bf16x2|f32|f64)"
RULES = (  # what it breaks, and how such an instruction looks
    ("flushes subnormals", re.compile(r"\.ftz\b")),
    ("is approximate", re.compile(r"\.approx\b|\.full\b|^(?:ex2|lg2|sin|cos|tanh)\.")),
    ("is not rounded to nearest", re.compile(rf"^(?:div|sqrt|rcp|fma|mad|add|sub|mul)(?!\.rn)(?:\.\w+)*?\.{FLOAT}\b")),
    ("adds floats in any order", re.compile(rf"^(?:atom|red|multimem)\..*\b{FLOAT}\b")),
    ("adds up in less than f32", re.compile(r"^(?:wg)?mma\.(?!.*\.row\.col\.f32\.(?:f16\.f16|bf16\.bf16|tf32\.tf32)\.f32$)")),
)
BAD = ("div.full.f32", "div.approx.f32", "div.rn.ftz.f32", "sqrt.approx.f32", "rcp.approx.ftz.f32", "ex2.approx.f32", "add.f32", "fma.rz.f32",
       "mul.rz.f64", "atom.global.add.f32", "red.global.add.noftz.f16", "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16")
GOOD = ("div.rn.f32", "sqrt.rn.f64", "fma.rn.f32", "add.s32", "mul.wide.s32", "div.u32", "mad.lo.s32", "ld.global.f32", "cvt.rn.f16.f32",
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")
EXPECTED = ("div.rn.f32", "sqrt.rn.f32", "fma.rn.f32", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")


def faults_of(instruction):
    return [what for what, pattern in RULES if pattern.search(instruction)]


def instructions_of(text):
    """Names of all instructions, without their guards."""
    return re.findall(r"^\s*(?:@!?%\w+\s+)?([a-z]\w*(?:\.[\w:]+)+)", text, re.MULTILINE)


def compile_example(example, precision, cache, folder):
    command = [MPC, "compile", f"examples/{example}.mpg", "--device", "cuda", "--precision", precision, "--emit", "ptx", "--arch",
               ARCHITECTURE, "--out", folder]
    environment = dict(os.environ, XDG_CACHE_HOME=cache)
    environment.pop("LD_LIBRARY_PATH", None)  # the stand-in's NVRTC makes no PTX
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def faults_of_program(path, seen):
    with open(path, encoding="utf-8") as file:
        counts = collections.Counter(instructions_of(file.read()))
    seen += counts
    return [f"{count} of {name}: {what}" for name, count in sorted(counts.items()) for what in faults_of(name)]


def main():
    failures = [f"{name}: taken for right" for name in BAD if not faults_of(name)]
    failures += [f"{name}: {what}?" for name in GOOD for what in faults_of(name)]
    seen = collections.Counter()
    with tempfile.TemporaryDirectory(prefix="mpc-test-") as cache:
        for example, precision in RUNS:
            folder = os.path.join(cache, f"{example}-{precision}")
            done = compile_example(example, precision, cache, folder)
            if "E620" in done.stderr or "E621" in done.stderr:
                print("skipped: no NVRTC for", ARCHITECTURE, "here:", done.stderr.strip())
                return 77
            if done.returncode != 0:
                failures.append(f"{example} {precision}: {done.stderr[-1000:]}")
                continue
            for program in ("train", "eval"):
                found = faults_of_program(os.path.join(folder, f"{program}.{ARCHITECTURE}.ptx"), seen)
                failures += [f"{example} {precision}, {program}: {fault}" for fault in found]
    failures += [f"{name}: not in any kernel" for name in EXPECTED if not seen[name]]
    print(sum(seen.values()), "instructions,", len(failures), "failures")
    for failure in failures:
        print(failure, file=sys.stderr)
    return bool(failures)


sys.exit(main())
