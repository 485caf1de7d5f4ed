"""Files that a model uses: a run keeps copies and their hashes, its completed file repeats it to the bit when the originals have changed or
gone, messages name the right file, and what can't be read is refused."""
import json
import os
import re
import shutil

from support import MODEL as TINY, Folder, check, finish

MAIN = TINY.replace("h = relu(linear(x, 8) as fc1)", "h = lora(tower(x) as body, 8) as more")
USES = 'use tower, width from "lib/blocks.mpg"\nuse "std/lora.mpg"\n'
BLOCKS = """use relu_of from "../other/blocks.mpg"
const width = 2 * half
const half = 4
block tower(x) {
    return relu_of(linear(x, width) as fc1)
}
model unrelated(x: f32[batch, 1]) { loss l = mean(x) }
data { train = csv("nowhere.csv") }
train { batch = 1 }
"""
INNER = "block relu_of(x) { return relu(x) }\n"


def weights(f, run):
    step = f.get(run, "checkpoints", "last").decode().strip()
    return f.get(run, "checkpoints", step, "weights.safetensors"), f.get(run, "checkpoints", step, "state.safetensors")


def figures(r):
    return [line for line in r.out.splitlines() if line.startswith("test ")]


with Folder(model=USES + MAIN) as f:
    for folder in ("lib", "other"):
        os.mkdir(f.at(folder))
    f.put("lib/blocks.mpg", BLOCKS)
    f.put("other/blocks.mpg", INNER)
    made = ("--const", "width=half + 2", "--precision", "bf16", "--seed", "3")
    r = f.mpc("train", "tiny.mpg", *made, "--out", "run")
    want = figures(r)
    check(want and "W103" not in r.err, r.err)

    # copies with what the command line says, under names of their own; hashes of what was used
    check(sorted(os.listdir(f.at("run", "used"))) == ["blocks-2.mpg", "blocks.mpg", "lora.mpg"], os.listdir(f.at("run", "used")))
    check(f.get("run", "used", "blocks-2.mpg").decode() == INNER)
    copy = BLOCKS.replace("../other/blocks.mpg", "blocks-2.mpg").replace("2 * half", "half + 2")
    check(f.get("run", "used", "blocks.mpg").decode() == copy, f.get("run", "used", "blocks.mpg"))
    used = json.loads(f.get("run", "run.json"))["used"]
    check([u["file"] for u in used] == ["lib/blocks.mpg", "lib/../other/blocks.mpg", "std/lora.mpg"], used)
    check([u["copy"] for u in used] == ["used/blocks.mpg", "used/blocks-2.mpg", "used/lora.mpg"], used)
    check(all(re.fullmatch("[0-9a-f]{16}", u["hash"]) for u in used) and len({u["hash"] for u in used}) == 3, used)
    check("of lib/blocks.mpg  # --const width=half + 2" in f.mpc("config", "tiny.mpg", *made[:2]).out)

    # a recalled constant of a used file is taken and said; one that is gone is not
    r = f.mpc("eval", "tiny.mpg", "--from", "run")
    check(figures(r) == want and "--const width=half + 2" in r.err and "W174" not in r.err, r.err)

    # messages and listings name the file where it is
    r = f.mpc("explain", "tiny.mpg", "body.fc1")
    check("lib/blocks.mpg:5" in r.out and "relu_of(linear(x, width) as fc1)" in r.out, r.out)
    f.put("lib/blocks.mpg", BLOCKS.replace("relu_of(linear", "relu_off(linear"))
    r = f.mpc("train", "tiny.mpg", "--out", "no", status=1)
    check("--> lib/blocks.mpg:5:12" in r.err and "called from tiny.mpg:" in r.err and "did you mean `relu_of`" in r.err, r.err)
    f.put("lib/blocks.mpg", BLOCKS + "const half = 5\n")
    r = f.mpc("train", "tiny.mpg", "--out", "no", status=1)
    check("E049" in r.err and "--> lib/blocks.mpg:10:7" in r.err and not os.path.exists(f.at("no")), r.err)

    # without the originals: the run's completed file evaluates, predicts, goes on and repeats the run to the bit
    shutil.rmtree(f.at("other"))
    f.put("lib/blocks.mpg", BLOCKS.replace("half = 4", "half = 7").replace('use relu_of from "../other/blocks.mpg"\n', INNER))
    r = f.mpc("eval", "tiny.mpg", "--from", "run", status=1)
    check("E401" in r.err and "W174" in r.err and "lib/blocks.mpg has changed" in r.err and "run/resolved.mpg" in r.err, r.err)
    shutil.rmtree(f.at("lib"))
    r = f.mpc("eval", "run/resolved.mpg", "--from", "run")
    check(figures(r) == want, r.out, r.err)
    check(len(f.mpc("predict", "run/resolved.mpg", "--from", "run").out.splitlines()) == 41)
    f.mpc("train", "run/resolved.mpg", "--out", "again")
    check(weights(f, "again") == weights(f, "run"))
    f.mpc("train", "again/resolved.mpg", "--out", "thrice")
    check(weights(f, "thrice") == weights(f, "run"))
    check(f.get("thrice", "used", "blocks.mpg") == f.get("run", "used", "blocks.mpg"))
    f.mpc("train", "run/resolved.mpg", "--out", "half", "--steps", "26")
    f.mpc("train", "half/resolved.mpg", "--resume", "half", "--change", "length=4 epochs")
    check(len(weights(f, "half")[0]) == len(weights(f, "run")[0]))
    r = f.mpc("eval", "run/model.mpg", "--from", "run", status=1)
    check("E060" in r.err and "run/resolved.mpg uses the copies of its run" in r.err, r.err)
    f.mpc("train", "run/resolved.mpg", "--out", "run", "--overwrite")
    check(weights(f, "again") == weights(f, "run"))

# the same without `use`
with Folder() as f:
    r = f.mpc("train", "tiny.mpg", "--precision", "bf16", "--seed", "5", "--batch", "8", "--out", "run")
    f.mpc("train", "run/resolved.mpg", "--out", "again")
    check(weights(f, "again") == weights(f, "run"))
    check(json.loads(f.get("run", "run.json"))["used"] == [])

# links, folders, devices, size
with Folder(model='use tower from "a.mpg"\n' + TINY) as f:
    tower = "block tower(x) { return x }\n"
    os.symlink("b.mpg", f.at("a.mpg"))
    os.symlink("a.mpg", f.at("b.mpg"))
    r = f.mpc("config", "tiny.mpg", status=1)
    check("E060" in r.err and "can't open a.mpg: Too many levels of symbolic links" in r.err, r.err)
    os.remove(f.at("b.mpg"))
    f.put("b.mpg", tower)
    f.mpc("config", "tiny.mpg")
    f.put("b.mpg", 'use "down/b.mpg"\n' + tower)  # the same file by another way
    os.symlink(".", f.at("down"))
    r = f.mpc("config", "tiny.mpg", status=1)
    check("error[E061]: a.mpg uses itself" in r.err and "--> a.mpg:1:5" in r.err, r.err)
    for name, words in (("down", "down is a folder"), ("/dev/zero", "/dev/zero is a pipe or a device"), ("", "names no file")):
        f.put("b.mpg", f'use "{name}"\n' + tower)
        r = f.mpc("config", "tiny.mpg", status=1)
        check("E060" in r.err and words in r.err and "--> a.mpg:1:5" in r.err, r.err)
    with open(f.at("b.mpg"), "w", encoding="utf-8") as big:
        big.truncate((64 << 20) + 1)
    r = f.mpc("config", "tiny.mpg", status=1)
    check("a.mpg is larger than 64 MiB" in r.err, r.err)

# what std/ offers
with Folder() as f:
    out = f.mpc("blocks").out
    check("std/resnet.mpg  " in out and "  basic(x: [n, h, w, c], channels: int, stride: int = 1)\n" in out and "Two convolutions" in out, out)
    check(f.mpc("blocks", "std/lora.mpg", device=None).out.startswith("# Fine-tuning"))
    check("block lora(" in f.mpc("blocks", "lora").out)
    rows = [json.loads(line) for line in f.mpc("blocks", "--json").out.splitlines()]
    check(len(rows) > 15 and all(r["document"] for r in rows) and {r["file"][:4] for r in rows} == {"std/"}, rows)
    r = f.mpc("blocks", "lorra", status=1)
    check("E377" in r.err and "did you mean `lora`?" in r.err, r.err)

finish()
