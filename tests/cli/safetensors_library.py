"""Checkpoints are read by the safetensors package as they are by hand, and what the package writes is loaded. Skipped where
the package isn't (scripts/test puts it into build/py)."""
import os
import sys

from support import MODEL, Folder, check, final_checkpoint, finish, read_safetensors

try:
    import numpy
    from safetensors.numpy import load_file, save_file
    from safetensors import safe_open
except ImportError as missing:
    print(f"skipped: {missing}", file=sys.stderr)
    sys.exit(77)

DTYPES = {"F32": "float32", "F64": "float64", "F16": "float16", "I32": "int32", "I64": "int64", "U8": "uint8", "BOOL": "bool"}

with Folder() as f:
    f.mpc("train", "tiny.mpg", "--steps", "5", "--out", "run")
    name, parts = final_checkpoint(f, "run")
    for part, data in parts.items():
        path = f.at("run", "checkpoints", name, part)
        by_hand, metadata, _ = read_safetensors(data)
        loaded = load_file(path)
        check(set(loaded) == set(by_hand) and len(loaded) >= 4, part, set(loaded) ^ set(by_hand))
        for key, (dtype, shape, raw) in by_hand.items():
            check(loaded[key].dtype == DTYPES[dtype] and list(loaded[key].shape) == shape and loaded[key].tobytes() == raw, part, key)
        with safe_open(path, framework="numpy") as file:
            check((file.metadata() or {}) == metadata, part, file.metadata(), metadata)

    # the other way: weights made elsewhere
    weights = {key: numpy.full_like(value, i + 0.5) for i, (key, value) in
               enumerate(load_file(f.at("run", "checkpoints", name, "weights.safetensors")).items())}
    save_file(weights, f.at("other.safetensors"), metadata={"made by": "somebody"})
    f.mpc("train", "tiny.mpg", "--init", "other.safetensors", "--set", "optimizer=sgd(lr = 0)", "--steps", "1", "--out", "same")
    _, parts = final_checkpoint(f, "same")
    for key, (_, _, raw) in read_safetensors(parts["weights.safetensors"])[0].items():
        check(raw == weights[key].tobytes(), key)

    # a run in bf16 starts from them as well, and its file is an f32 run's start again
    low = ("--precision", "bf16", "--set", "solver=list")
    for out, source, words in (("low", "other.safetensors", low), ("wide", "low", ())):
        r = f.mpc("train", "tiny.mpg", *words, "--init", source, "--set", "optimizer=sgd(lr = 0)", "--steps", "1", "--out", out)
        check("4 of 4 parameters from " + source in r.err, r.err)
        _, parts = final_checkpoint(f, out)
        check(all(raw == weights[key].tobytes() for key, (_, _, raw) in read_safetensors(parts["weights.safetensors"])[0].items()), out)

    # names that numbers tell apart, without a word of how many there are
    f.put("two.mpg", MODEL.replace("    h = relu(linear(x, 8) as fc1)\n", "    h = relu(linear(x, 4))\n    h = relu(linear(h, 4))\n"))
    f.put("three.mpg", f.get("two.mpg").decode().replace("    h = relu(linear(h, 4))\n", "    h = relu(linear(h, 4))\n" * 2))
    f.mpc("train", "two.mpg", "--steps", "1", "--out", "two")
    name, _ = final_checkpoint(f, "two")
    save_file(load_file(f.at("two", "checkpoints", name, "weights.safetensors")), f.at("two.safetensors"))
    r = f.mpc("train", "two.mpg", "--init", "two.safetensors", "--steps", "1", "--out", "again")
    check("6 of 6 parameters" in r.err, r.err)
    for words in ((), ("--allow-missing", "linear.2.*")):
        r = f.mpc("train", "three.mpg", "--init", "two.safetensors", *words, "--steps", "1", "--out", "no", status=1)
        check("E402" in r.err and "3 calls are numbered under `linear` in this model, 2 in two.safetensors" in r.err, r.err)

finish()
