"""A model of a token file reads and writes token numbers; --top-k cuts, and its mistakes are told."""
import json
import os
import struct

from support import Folder, check, run_all

MODEL = """
const time  = 8
const words = 12
model lm(tokens: i32[batch, time], targets: i32[batch, time]) {
    logits = linear(embedding(tokens, words, 16), words) as head
    loss nll = cross_entropy(logits, targets)
    output logits = logits
}
data {
    train = tokens("train.bin", length = time, format = u16)
    input tokens  = window
    input targets = next(window)
}
train {
    precision = f32
    optimizer = adamw(lr = 3e-2)
    batch     = 8
    length    = 12 epochs
}
"""
WORDS = [5, 2, 11, 7]


def folder():
    f = Folder()
    f.put("lm.mpg", MODEL)
    f.put("train.bin", b"".join(struct.pack("<H", WORDS[i % 4]) for i in range(800)))
    f.mpc("train", "lm.mpg", "--out", "run")
    return f


def predict(f, *args, **more):
    return f.mpc("predict", "lm.mpg", "--from", "run", *args, **more)


def numbers_in_and_out():
    with folder() as f:
        check(predict(f, "--prompt", "5 2", "--length", "4", "--temperature", "0").out == "5 2 11 7 5 2\n")
        r = predict(f, "--prompt", "[5, 2]", "--length", "3", "--top-k", "1", "--json")
        check(json.loads(r.out) == {"prompt": [5, 2], "tokens": [11, 7, 5]}, r.out)
        r = predict(f, "--length", "5", "--json", "--temperature", "9")
        check(json.loads(r.out)["prompt"] == [] and len(json.loads(r.out)["tokens"]) == 5, r.out)
        predict(f, "--length", "3", "--out", "out.txt", "--prompt", "7")
        check(len(f.get("out.txt").split()) == 4)
        os.unlink(f.at("train.bin"))  # the model knows its tokens
        check(predict(f, "--prompt", "5", "--length", "2", "--temperature", "0").out == "5 2 11\n")


def seeds_and_cuts():
    with folder() as f:
        args = ("--length", "60", "--temperature", "20", "--prompt", "5")
        a, b, c = (predict(f, *args, "--seed", s).out for s in ("1", "1", "2"))
        check(a == b != c and len(set(a.split())) > 8, a)
        check(predict(f, *args, "--seed", "1", "--top-k", "12").out == a)
        check(predict(f, *args, "--seed", "1", "--top-k", "99").out == a)
        two = predict(f, *args, "--seed", "1", "--top-k", "2").out
        check(two != a and two == predict(f, *args, "--seed", "1", "--top-k", "2").out)


def mistakes():
    with folder() as f:
        r = predict(f, "--top-k", "0", status=2)
        check("--top-k takes a number from 1" in r.err, r.err)
        for prompt in ("12", "-1", "1x", "5 zwei"):
            r = predict(f, "--prompt", prompt, status=1)
            check("E217" in r.err and "0 to 11" in r.err, prompt, r.err)


run_all((numbers_in_and_out, seeds_and_cuts, mistakes))
