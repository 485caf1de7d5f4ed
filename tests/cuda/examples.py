"""Every kernel of every example, in every precision, compiles for three architectures with the real NVRTC, and its PTX and the assembler's
report are what the design promises: 16-byte accesses or a reason why not, tensor-core instructions in all matmul-class kernels of
16-bit and tf32 models and in none of f32, no spills but in attention."""
import json
import os
import subprocess
import sys
import tempfile

MPC, ROOT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
ARCHITECTURES = "sm_80,sm_90,sm_100"
MATMUL_CLASS = ("conv2d", "attention")
SMALL = 4096  # bytes of a launch for which the width of an access says nothing
failures = kernels = 0


def check(condition, *what):
    global failures
    if not condition:
        failures += 1
        print("failed:", *what, file=sys.stderr)


def compile_example(example, precision, folder):
    command = [MPC, "compile", f"examples/{example}.mpg", "--device", "cuda", "--precision", precision, "--arch",
               ARCHITECTURES, "--emit", "ptx", "--json", "--out", folder]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def is_matmul_class(row):
    return any((row["op"] or "").startswith(name) for name in MATMUL_CLASS)


def check_kernel(row, precision, *where):
    where = (*where, row["program"], row["arch"], row["kernel"], row["op"], row["value"])
    check(row["registers"] > 0, "no report of", *where)
    if row["spill_bytes"]:
        print("spills", row["spill_bytes"], "bytes:", *where)
        check((row["op"] or "").startswith("attention"), "spills:", *where)
    check(row["wide_accesses"] or row["note"] or row["threads"] <= 32, "no 16-byte access and no reason:", *where)
    if precision == "f32":
        check(row["mma"] == 0, "tensor cores in f32:", *where)
    elif is_matmul_class(row):
        check(row["mma"] > 0 or row["note"], "no tensor cores and no reason:", *where)


def check_example(example, precision):
    global kernels
    with tempfile.TemporaryDirectory(prefix="mpc-test-") as folder:
        done = compile_example(example, precision, folder)
        if done.returncode != 0 and "E621" in done.stderr:
            print("skipped: no NVRTC here:", done.stderr.strip())
            sys.exit(77)
        check(done.returncode == 0, example, precision, done.stderr[-2000:])
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    rows = [row for row in rows if "kernel" in row]
    check({row["arch"] for row in rows} == set(ARCHITECTURES.split(",")) or done.returncode, example, precision, "architectures")
    matmul_class = [row for row in rows if is_matmul_class(row)]
    check(bool(matmul_class) == (example in ("digits", "gpt")), example, precision, "matmul-class kernels:", len(matmul_class))
    if precision != "f32" and matmul_class:
        check(any(row["mma"] > 0 for row in matmul_class), example, precision, "no kernel uses tensor cores")
    for row in rows:
        check_kernel(row, precision, example, precision)
    kernels += len(rows)


for name in ("linear", "mlp", "digits", "gpt"):
    for form in ("f32", "tf32", "bf16", "f16"):
        check_example(name, form)
print(kernels, "kernels compiled,", failures, "failures")
sys.exit(failures != 0)
