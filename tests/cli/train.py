"""A training from the command line: folder, log, figures, evaluation and prediction of the same weights."""
import json
import os
import struct

from support import DEVICE, MODEL, Folder, check, final_checkpoint, finish, read_safetensors, without_times

with Folder() as f:
    r = f.mpc("train", "tiny.mpg", "--seed", "3")
    run = "runs/tiny-001"
    lines = r.out.splitlines()
    check(lines[-1].startswith("test accuracy ") and lines[-1].endswith(" %"), r.out)
    check(lines[0].startswith("valid loss "), r.out)
    check("tiny: 67 parameters, f32 on " + DEVICE in r.err, r.err)
    check("\033" not in r.err and "\r" not in r.err)
    for name in ("model.mpg", "used", "resolved.mpg", "run.json", "assignment.txt", "log.jsonl", "metrics.json", "profile.json", "checkpoints/best",
                 "checkpoints/last"):
        check(os.path.exists(f.at(run, name)), name)
    check(f.get(run, "model.mpg") == f.get("tiny.mpg"))
    check(json.loads(f.get(run, "run.json"))["settings"]["seed"] == 3)

    log = f.log(run)
    check(log[0]["type"] == "run" and log[0]["schema"] == 1)
    steps = [e for e in log if e["type"] == "step"]
    evals = [e for e in log if e["type"] == "eval"]
    check(len(steps) == 4 * 7, len(steps))  # 104 rows in batches of 16: six and a smaller one
    check([e["step"] for e in steps] == list(range(1, 29)))
    check(steps[6]["epoch"] == 1 and steps[6]["samples"] == 104, steps[6])
    for key in ("applied", "loss", "loss.ce", "lr", "grad_norm", "samples_per_s", "step_ms", "wait_ms", "time_s"):
        check(key in steps[0], key)
    check(abs(steps[0]["lr"] - 0.002) < 1e-6, steps[0]["lr"])
    check([e["split"] for e in evals] == ["valid"] * 4 + ["test"], evals)
    check(evals[0]["n"] == 26 and evals[0]["best"] is True)
    check(log[-1]["type"] == "end" and log[-1]["reason"] == "length" and log[-1]["step"] == 28)
    check(steps[-1]["loss"] < steps[0]["loss"])
    metrics = json.loads(f.get(run, "metrics.json"))
    check(abs(metrics["test"]["accuracy"] - evals[-1]["accuracy"]) < 1e-6 and metrics["monitor"] == "valid.accuracy")

    name, files = final_checkpoint(f, run)
    check(name == "step-00000028")
    weights, metadata, header = read_safetensors(files["weights.safetensors"])
    check(sorted(weights) == ["fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"], weights.keys())
    check(weights["fc1.weight"][:2] == ("F32", [4, 8]) and header % 8 == 0)
    state, metadata, _ = read_safetensors(files["state.safetensors"])
    check(metadata["step"] == "28" and metadata["epoch"] == "4" and metadata["seed"] == "3")
    check("fc1.weight/m" in state and "fc1.weight" not in state)

    # the same seed is the same run, another one isn't
    f.mpc("train", "tiny.mpg", "--seed", "3", "--out", "again")
    check(final_checkpoint(f, "again")[1] == files)
    check(without_times(f.log("again")) == without_times(log))
    f.mpc("train", "tiny.mpg", "--seed", "4", "--steps", "28", "--out", "other")
    check(final_checkpoint(f, "other")[1] != files)

    # folders
    check("E351" in f.mpc("train", "tiny.mpg", "--out", "again", status=1).err)
    f.mpc("train", "tiny.mpg", "--out", "again", "--overwrite", "--steps", "2")
    check(len(f.steps("again")) == 2)
    f.mpc("train", "tiny.mpg", "--steps", "1")
    check(os.path.exists(f.at("runs/tiny-002")))

    # evaluation of the saved weights gives the figures of the training
    r = f.mpc("eval", "tiny.mpg", "--from", run)
    check(r.out.splitlines() == [line for line in lines if line.startswith("test ")], r.out)
    best = json.loads(f.mpc("eval", "tiny.mpg", "--from", run, "--json").out)
    check(abs(best["loss"] - evals[-1]["loss"]) < 1e-6 and best["n"] == 40, best)
    f.mpc("eval", "tiny.mpg", "--from", run, "--which", "last", "--split", "valid")
    check("E352" in f.mpc("eval", "tiny.mpg", "--from", run, "--which", "5", status=1).err)
    r = f.mpc("eval", "tiny.mpg", "--from", run, "--split", "predict", status=1)
    check("E355" in r.err and "say --split train or --split valid or --split test" in r.err, r.err)
    r = f.mpc("eval", "tiny.mpg", "--from", "runs/nowhere", status=1)
    check("E352" in r.err and "there is no runs/nowhere\n" in r.err, r.err)
    for words in (("--prompt", "a"), ("--top-k", "3")):
        r = f.mpc("predict", "tiny.mpg", "--from", run, *words, status=1)
        check("E387" in r.err and words[0] + " is for models that write" in r.err, r.err)

    # prediction: a column per output, whatever the form
    f.mpc("predict", "tiny.mpg", "--from", run, "--out", "p.csv")
    table = [line.split(",") for line in f.get("p.csv").decode().splitlines()]
    check(table[0] == ["p.0", "p.1", "p.2"] and len(table) == 41, table[0])
    check(all(abs(sum(map(float, row)) - 1) < 1e-5 for row in table[1:]))
    labels = [int(line.split(",")[4]) for line in f.get("test.csv").decode().splitlines()]
    right = sum(max(range(3), key=lambda i: float(row[i])) == label for row, label in zip(table[1:], labels))
    check(f"test accuracy {100 * right / 40:.1f} %" == lines[-1], right, lines[-1])
    f.mpc("predict", "tiny.mpg", "--from", run, "--out", "p.jsonl")
    objects = [json.loads(line) for line in f.get("p.jsonl").decode().splitlines()]
    check([str(o["p"]) for o in objects][:3] == [str([float(v) for v in row]) for row in table[1:4]])
    f.mpc("predict", "tiny.mpg", "--from", run, "--out", "p.npy")
    array = f.get("p.npy")
    check(array[:6] == b"\x93NUMPY" and len(array) == 128 + 40 * 3 * 4 and b"(40, 3)" in array[:128])
    check(abs(struct.unpack("<f", array[128:132])[0] - float(table[1][0])) < 1e-7)
    three = "".join(line.rsplit(",", 1)[0] + "\n" for line in f.get("test.csv").decode().splitlines()[:3])
    r = f.mpc("predict", "tiny.mpg", "--from", run, "--input", "-", stdin=three.encode())
    check(r.out.splitlines() == f.get("p.csv").decode().splitlines()[:4], r.out, r.err)

    # in low precision, evaluation and prediction find the masters of what they read
    low = ("--precision", "bf16")
    r = f.mpc("train", "tiny.mpg", *low, "--out", "low")
    figures = [line for line in r.out.splitlines() if line.startswith("test ")]
    check(f.mpc("eval", "tiny.mpg", *low, "--from", "low").out.splitlines() == figures)
    f.mpc("predict", "tiny.mpg", *low, "--from", "low", "--out", "low.csv")
    table = [[float(v) for v in line.split(",")] for line in f.get("low.csv").decode().splitlines()[1:]]
    right = sum(max(range(3), key=lambda i: row[i]) == label for row, label in zip(table, labels))
    check(f"test accuracy {100 * right / 40:.1f} %" == figures[-1], right, figures)

    # --init: names must fit, or be allowed not to
    f.mpc("train", "tiny.mpg", "--init", run, "--steps", "1", "--out", "init")
    f.put("renamed.mpg", MODEL.replace("as fc2", "as head"))
    r = f.mpc("train", "renamed.mpg", "--init", run, "--steps", "1", "--out", "i2", status=1)
    check("E401" in r.err and "head.weight" in r.err and "fc2.weight" in r.err, r.err)
    r = f.mpc("train", "renamed.mpg", "--init", run, "--rename", "fc2.*=head.*", "--steps", "1", "--out", "i3")
    check("4 parameters" in r.err, r.err)
    f.mpc("train", "renamed.mpg", "--init", run, "--allow-missing", "head.*", "--steps", "1", "--out", "i4")

    # without valid and test rows the last line is the monitored figure of the training rows, by its name
    f.put("alone.mpg", "\n".join(line for line in MODEL.replace("valid.accuracy", "train.top").splitlines()
                                 if not line.startswith(("    valid", "    test ", "    metric")))
          .replace("    output p", "    metric top = top_k(logits, y, k = 2)\n    output p"))
    check(f.mpc("train", "alone.mpg", "--out", "alone").out.startswith("train top 0."))

finish()
