"""Every kernel of every example, in every precision, compiles with the real NVRTC (the four first examples for three architectures, the
others for one, another in each precision), and what the compiler told of it is what the design promises: tensor-core instructions in all
matmul-class kernels of 16-bit and tf32 models and in none of f32; in the four first also 16-byte accesses or a reason why not and no spills
but in attention, where in the others a kernel may spill 512 bytes (long fused rows, such as the dice loss of the U-Net). Kernels that
several programs share are compiled once, through the cache."""
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

MPC, ROOT, ONLY = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3:]  # names of examples; none: all
ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
EXAMPLES = ("gpt", "digits", "mlp", "linear")
PRECISIONS = ("f32", "tf32", "bf16", "f16")
MODELS = ("resnet", "vit", "unet", "llama", "lstm", "moe", "vae", "gan", "clip")
MODEL_RUNS = {"f32": ("sm_80",), "bf16": ("sm_90",), "f16": ("sm_100",)}
MATMUL_CLASS = ("conv2d", "attention")
WITH_MATMUL_CLASS = ("digits", "gpt", "resnet", "vit", "unet", "llama")
failures = 0


def check(condition, *what):
    global failures
    if not condition:
        failures += 1
        print("failed:", *what, file=sys.stderr)


def jobs_of(example):
    """(example, precision, architectures)"""
    if example in MODELS:
        return [(example, precision, archs) for precision, archs in MODEL_RUNS.items()]
    return [(example, precision, ARCHITECTURES) for precision in PRECISIONS]


def compile_example(example, precision, architectures, cache):
    """All kernels as rows of the report; the texts themselves go to a folder of their own and are not looked at."""
    folder = os.path.join(cache, f"{example}-{precision}")
    command = [MPC, "compile", f"examples/{example}.mpg", "--device", "cuda", "--precision", precision, "--arch",
               ",".join(architectures), "--json", "--out", folder]
    environment = dict(os.environ, XDG_CACHE_HOME=cache)
    environment.pop("LD_LIBRARY_PATH", None)  # the stand-in's NVRTC knows no PTX
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def is_matmul_class(row):
    return any((row["op"] or "").startswith(name) for name in MATMUL_CLASS)


def check_kernel(row, precision, *where):
    where = (*where, row["program"], row["arch"], row["kernel"], row["op"], row["value"])
    check(row["registers"] > 0, "no report of", *where)
    small_data = where[0] in MODELS
    if row["spill_bytes"]:
        print("spills", row["spill_bytes"], "bytes:", *where)
        check(row["spill_bytes"] <= 512 if small_data else (row["op"] or "").startswith("attention"), "spills:", *where)
    check(small_data or row["wide_accesses"] or row["note"] or row["threads"] <= 32, "no 16-byte access and no reason:", *where)
    if precision == "f32":
        check(row["mma"] == 0, "tensor cores in f32:", *where)
    elif is_matmul_class(row):
        check(row["mma"] > 0 or row["note"], "no tensor cores and no reason:", *where)


def check_example(example, precision, architectures, done):
    check(done.returncode == 0, example, precision, done.stderr[-2000:])
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    rows = [row for row in rows if "kernel" in row]
    check({row["arch"] for row in rows} == set(architectures), example, precision, "architectures")
    matmul_class = [row for row in rows if is_matmul_class(row)]
    check(bool(matmul_class) == (example in WITH_MATMUL_CLASS), example, precision, "matmul-class kernels:", len(matmul_class))
    if precision != "f32" and matmul_class:
        check(any(row["mma"] > 0 for row in matmul_class), example, precision, "no kernel uses tensor cores")
    for row in rows:
        check_kernel(row, precision, example, precision)
    return len(rows)


def main():
    jobs = [job for example in ONLY or EXAMPLES + MODELS for job in jobs_of(example)]
    with tempfile.TemporaryDirectory(prefix="mpc-test-") as cache, concurrent.futures.ThreadPoolExecutor(2) as pool:
        runs = {job: pool.submit(compile_example, *job, cache) for job in jobs}
        results = {job: run.result() for job, run in runs.items()}
    if any("E620" in done.stderr or "E621" in done.stderr for done in results.values()):
        print("skipped: no NVRTC for these architectures here:", results[jobs[0]].stderr.strip())
        return 77
    kernels = sum(check_example(*job, done) for job, done in results.items())
    print(kernels, "kernels,", failures, "failures")
    return failures != 0


sys.exit(main())
