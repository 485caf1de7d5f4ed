"""Checkpoints are read by the safetensors package as they are by hand, and what the package writes is loaded. Skipped where
the package isn't (scripts/test puts it into build/py)."""
import os
import sys

from support import Folder, check, final_checkpoint, finish, read_safetensors

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

finish()
