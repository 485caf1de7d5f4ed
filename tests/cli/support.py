"""What the command line tests share: a small model with data, running mpc, reading its files. Standard library only."""
import json
import os
import random
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import traceback

MPC = os.path.abspath(sys.argv[1])
DEVICE = sys.argv[2] if len(sys.argv) > 2 else "ref"
failures = 0
checks = 0
if DEVICE == "cuda" and not os.path.exists(os.path.join(sys.argv[3], "libcuda.so.1")):
    print("skipped: the stand-in for the CUDA libraries is not built", file=sys.stderr)
    sys.exit(77)

MODEL = """
model tiny(x: f32[batch, 4], y: i32[batch]) {
    h = relu(linear(x, 8) as fc1)
    h = dropout(h, 0.1)
    logits = linear(h, 3) as fc2
    loss ce = cross_entropy(logits, y)
    metric accuracy = accuracy(logits, y)
    output p = softmax(logits)
    output y = argmax_of(logits)
}
data {
    train = csv("train.csv")
    valid = split(train, 0.2, seed = 1)
    test  = csv("test.csv")
    input x = columns[0:4]
    input y = columns[4]
}
train {
    precision = f32
    optimizer = adamw(lr = 1e-2)
    schedule  = cosine(warmup = 5 steps)
    batch     = 16
    length    = 4 epochs
    monitor   = valid.accuracy
}
""".replace("    output y = argmax_of(logits)\n", "")


def check(condition, *what):
    global failures, checks
    checks += 1
    if not condition:
        failures += 1
        frame = sys._getframe(1)
        print(f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}: failed", *what, file=sys.stderr)


def finish():
    print(f"{checks} checks, {failures} failed", file=sys.stderr)
    sys.exit(1 if failures or not checks else 0)


def rows(n, seed, classes=3):
    rng = random.Random(seed)
    lines = []
    for _ in range(n):
        label = rng.randrange(classes)
        values = [rng.gauss(label if i == label else 0, 0.5) for i in range(4)]
        lines.append(",".join(f"{v:.4f}" for v in values) + f",{label}")
    return "\n".join(lines) + "\n"


class Folder:
    """A temporary folder with model and data; removed at the end."""

    def __init__(self, model=MODEL, train=130, test=40):
        self.path = tempfile.mkdtemp(prefix="mpc-cli-")
        self.put("tiny.mpg", model)
        self.put("train.csv", rows(train, 1))
        self.put("test.csv", rows(test, 2))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def put(self, name, text):
        with open(os.path.join(self.path, name), "wb") as f:
            f.write(text if isinstance(text, bytes) else text.encode())

    def at(self, *names):
        return os.path.join(self.path, *names)

    def get(self, *names):
        with open(self.at(*names), "rb") as f:
            return f.read()

    def command(self, *args, device=DEVICE):
        words = [MPC, *args]
        if device and any(a.endswith(".mpg") for a in args):
            words += ["--device", device]
        return words

    def mpc(self, *args, status=0, device=DEVICE, file_size=None, stdin=None, env=None):
        def limit():
            if file_size is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))

        r = subprocess.run(self.command(*args, device=device), cwd=self.path, capture_output=True, preexec_fn=limit, input=stdin,
                           env=dict(os.environ, **(env or {})), timeout=300)
        r.out, r.err = r.stdout.decode(), r.stderr.decode()
        if status is not None and r.returncode != status:
            check(False, f"{args}: exit status {r.returncode}, not {status}\n{r.err}")
        return r

    def log(self, run):
        return [json.loads(line) for line in self.get(run, "log.jsonl").decode().splitlines()]

    def steps(self, run="run"):
        """The log's records of training steps."""
        return [r for r in self.log(run) if r["type"] == "step"]


def device_profile(name, f32=1e12, low=2e13, setup=1e-6, gap=2e-6, convert=2e10, lacks=()):
    """The text of a device profile: the flops/s of products, whatever their kind, and the seconds that each of them begins with."""
    lines = ["mpc device profile 1", f"name {name}", "attention expanded", *(f"lacks {format}" for format in lacks), "bandwidth 1e11",
             "cache_bandwidth 4e11", "cache_bytes 4e6", f"gap {gap:g}", f"convert {convert:g}"]
    lines += [f"{kind} {format} {f32 if format == 'f32' else low:g} {setup:g} 1 1 1 1 1" for kind in ("matmul", "conv", "attention")
              for format in ("f32", "bf16", "f16")]
    return "\n".join(lines) + "\n"


TIMES = {"samples_per_s", "step_ms", "wait_ms", "time_s"}


def without_times(records):
    """Records of a log that two equal runs share."""
    return [{k: v for k, v in r.items() if k not in TIMES} for r in records if r["type"] != "end"]


def read_safetensors(data):
    n, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + n])
    metadata = header.pop("__metadata__", {})
    tensors = {k: (v["dtype"], v["shape"], data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]) for k, v in header.items()}
    return tensors, metadata, n


def final_checkpoint(folder, run):
    name = folder.get(run, "checkpoints", "last").decode().strip()
    return name, {f: folder.get(run, "checkpoints", name, f) for f in ("weights.safetensors", "state.safetensors")}


def run_all(cases):
    """Every case, also after one that failed; then `finish`."""
    for case in cases:
        try:
            case()
        except Exception as error:
            traceback.print_exc()
            check(False, case.__name__, repr(error))
    finish()
