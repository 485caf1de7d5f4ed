"""What goes wrong in a training: bad data, divergence, full disk, damaged checkpoints, changed settings. Never a crash."""
import os
import json
import random

from support import MODEL, Folder, check, finish

with Folder() as f:
    # labels that start at 1, found before the first step and with the place
    text = f.get("train.csv").decode().splitlines()
    shifted = [line.rsplit(",", 1) for line in text]
    f.put("train.csv", "\n".join(f"{a},{int(b) + 1}" for a, b in shifted) + "\n")
    r = f.mpc("train", "tiny.mpg", status=1)
    check("E201" in r.err and "class 3 in the data, but the model has classes 0 to 2" in r.err and ", column 5: `3`" in r.err, r.err)
    check("columns[4] - 1" in r.err, r.err)
    check(not os.path.exists(f.at("runs")))
    f.put("train.csv", "\n".join(text) + "\n1,2,3\n")
    check("E211" in f.mpc("train", "tiny.mpg", status=1).err)
    f.put("train.csv", "\n".join(text).replace(",1\n", ",nan\n", 1) + "\n")
    check("E213" in f.mpc("train", "tiny.mpg", status=1).err)
    os.remove(f.at("test.csv"))
    f.put("train.csv", "\n".join(text) + "\n")
    check("E210" in f.mpc("train", "tiny.mpg", status=1).err)

with Folder() as f:
    # divergence: status 3, the first value that was not finite, earlier checkpoints whole
    r = f.mpc("train", "tiny.mpg", "--set", "optimizer=sgd(lr = 1e30)", "--set", "clip_norm=0", "--out", "run", status=3)
    check("E360" in r.err and "training stopped at step" in r.err and "tiny.mpg:" in r.err, r.err)
    check(f.log("run")[-1]["reason"] == "diverged")
    last = f.steps("run")[-1]
    check(last["loss"] is None or last["grad_norm"] is None, last)
    check(last.get("nonfinite"), last)

with Folder() as f:
    # a full disk: a message, the old checkpoint stays, and the run can go on afterwards
    f.mpc("train", "tiny.mpg", "--out", "run", "--steps", "28", "--set", "length=4 epochs", status=None)
    size = max(os.path.getsize(f.at("run", "checkpoints", n, "state.safetensors")) for n in os.listdir(f.at("run/checkpoints"))
               if n.startswith("step-"))
    r = f.mpc("train", "tiny.mpg", "--out", "full", status=1, file_size=size - 100)
    check("E420" in r.err and "File too large" in r.err, r.err)
    check(not [n for n in os.listdir(f.at("full/checkpoints")) if n.startswith(("tmp-", "step-"))])
    # a log that fills the disk ends with a whole line
    f.mpc("train", "tiny.mpg", "--out", "log", "--steps", "400", status=1, file_size=20000)
    check(20000 - 400 < len(f.get("log", "log.jsonl")) < 20000 and f.log("log")[-1]["step"] > 20, f.get("log", "log.jsonl")[-400:])

with Folder() as f:
    f.mpc("train", "tiny.mpg", "--out", "run", "--set", "length=3 epochs")
    # changed settings are refused with both values, and allowed one by one
    r = f.mpc("train", "tiny.mpg", "--resume", "run", "--set", "length=5 epochs", "--set", "optimizer.lr=0.5", status=1)
    check("E353" in r.err and "3.0 epochs, now 5.0 epochs" in r.err and "optimizer.lr" in r.err, r.err)
    r = f.mpc("train", "tiny.mpg", "--resume", "run", "--change", "length=5 epochs")
    check("3.0 epochs, now 5.0 epochs" in r.err and "learning rate after step 21: 0.00" in r.err, r.err)
    f.mpc("train", "tiny.mpg", "--resume", "run", "--set", "length=5 epochs")

    # formats that a resumed run would compute in: those it began with, or an error that names the value
    kept = f.get("run", "assignment.txt").decode()
    f.put("run/assignment.txt", kept.replace("\tf32\t", "\tbf16\t", 1))
    r = f.mpc("train", "tiny.mpg", "--resume", "run", "--set", "length=5 epochs", status=1)
    check("E358" in r.err and "before" in r.err, r.err)
    f.put("run/assignment.txt", kept)
    f.mpc("train", "tiny.mpg", "--resume", "run", "--set", "length=5 epochs")
    check(f.log("run")[-1]["step"] == 35)

    # any damage to a checkpoint is a message
    name = f.get("run/checkpoints/last").decode().strip()
    rng = random.Random(5)
    for part in ("weights.safetensors", "state.safetensors"):
        good = f.get("run/checkpoints", name, part)
        for i in range(12):
            bad = bytearray(good)
            if i % 3 == 0:
                bad = bad[:rng.randrange(len(bad))]
            elif i % 3 == 1:
                bad[rng.randrange(min(len(bad), 300))] ^= 1 << rng.randrange(8)
            else:
                bad = b""
            f.put(f"run/checkpoints/{name}/{part}", bytes(bad))
            r = f.mpc("eval", "tiny.mpg", "--from", "run", "--which", "last", status=None)
            check(r.returncode in (0, 1) and (r.returncode == 0 or "error[E4" in r.err), r.returncode, r.err)
        f.put(f"run/checkpoints/{name}/{part}", good)
    check("E352" in f.mpc("train", "tiny.mpg", "--resume", ".", status=1).err)

    # a place in the epoch that the data don't have
    state = f.get("run/checkpoints", name, "state.safetensors")
    length = int.from_bytes(state[:8], "little")
    header = json.loads(state[8:8 + length])
    header["__metadata__"]["row"] = "100000"
    text = json.dumps(header).encode()
    f.put(f"run/checkpoints/{name}/state.safetensors", len(text).to_bytes(8, "little") + text + state[8 + length:])
    r = f.mpc("train", "tiny.mpg", "--resume", "run", "--change", "length=6 epochs", status=1)
    check("E415" in r.err and "row 100000" in r.err, r.err)

finish()
