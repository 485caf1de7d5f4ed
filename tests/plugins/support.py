"""What the tests of plugins share: a model with an op of one, running mpc, counting checks."""
import os
import subprocess
import sys

MPC, ROOT, BUILT = (os.path.abspath(a) for a in sys.argv[1:4])
MODEL = """model m(image: f32[batch, 64], digit: i32[batch]) {
    h = softsign(linear(image, 32) as hidden)
    logits = linear(h, 10) as head
    loss ce = cross_entropy(logits, digit)
    metric accuracy = accuracy(logits, digit)
}
data {
    train = csv("DATA/digits-train.csv")
    test = csv("DATA/digits-test.csv")
    input image = columns[0:64] / 16
    input digit = columns[64]
}
train {
    precision = f32
    solver = list
    optimizer = sgd(lr = 0.1)
    batch = 32
    length = 20 steps
}
"""
counts = {"checks": 0, "failed": 0}


def check(condition, *what):
    counts["checks"] += 1
    if not condition:
        counts["failed"] += 1
        print("failed:", *what, file=sys.stderr)
    return condition


def mpc(*words, cwd=None):
    return subprocess.run([MPC, *words], cwd=cwd, capture_output=True, text=True, timeout=250)


def plugin(name):
    return ["--load-plugin", os.path.join(BUILT, "examples", name + ".so")]


def result():
    print(f"{counts['checks']} checks, {counts['failed']} failed", file=sys.stderr)
    sys.exit(1 if counts["failed"] or not counts["checks"] else 0)
