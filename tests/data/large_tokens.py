"""A token file larger than memory: training starts within a second and keeps what it needs in memory, not the file."""
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "cli"))
from support import MPC, Folder, check, finish  # noqa: E402

SIZE = 8 << 30
MODEL = """
const time = 64
model m(t: i32[batch, time], u: i32[batch, time]) {
    logits = linear(embedding(t, 512, 16), 512) as head
    loss ce = cross_entropy(logits, u)
}
data {
    train = tokens("train.bin", length = time, format = u16)
    valid = tokens("valid.bin", length = time)
    input t = window
    input u = next(window)
}
train {
    precision = f32
    batch     = 8
    length    = 100 steps
}
"""


def train(f, *words):
    """Seconds, and the most memory in MiB that the process held."""
    begin = time.monotonic()
    p = subprocess.Popen([MPC, "train", "m.mpg", "--overwrite", *words], cwd=f.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = p.stdout.read().decode(), p.stderr.read().decode()
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    return p.returncode, time.monotonic() - begin, usage.ru_maxrss / 1024, out + err


with Folder(MODEL) as f:
    f.put("m.mpg", MODEL)
    f.put("valid.bin", bytes(2000))
    with open(f.at("train.bin"), "wb") as file:
        file.truncate(SIZE)
        file.seek(SIZE - 2)
        file.write(b"\1\0")
    if os.stat(f.at("train.bin")).st_blocks * 512 > 1 << 20:
        print("skipped: this file system makes no sparse files", file=sys.stderr)
        sys.exit(77)
    train(f, "--out", "warm", "--steps", "1")  # compiles the kernels
    status, first, _, text = train(f, "--out", "one", "--steps", "1")
    check(status == 0, text)
    f.put("small.bin", bytes(1 << 20))
    _, little, base, _ = train(f, "--out", "small", "--steps", "1", "--set", 'data.train=tokens("small.bin", length = 64)')
    check(first < little + 1, f"one step on 8 GiB took {first:.2f} s, on 1 MiB {little:.2f} s")
    status, _, memory, text = train(f, "--out", "run")
    check(status == 0, text)
    check(memory < base + 200, f"{memory:.0f} MiB, with a small file {base:.0f} MiB")
    losses = [r["loss"] for r in f.steps("run")]
    check(len(losses) == 100 and losses[-1] < losses[0], losses[:2], losses[-1])
    with open(f.at("train.bin"), "wb") as file:  # too large to be checked beforehand, and wrong in one half
        file.truncate(128 << 20)
        file.seek(64 << 20)
        file.write(b"\xff" * (64 << 20))
    status, _, _, text = train(f, "--out", "wrong")
    check(status == 1 and re.search(r"error\[E201\].* 65535 in the data.*train\.bin, token \d+ \(byte \d+\): `65535`", text, re.S), text)
finish()
