"""A run remembers its plugins: eval, predict, --resume, and commands on the file in its folder load them again; one that is missing or
was rebuilt is an error with both hashes, and there is a way on with the kept copy or with the new one."""
import json
import os
import re
import shutil
import tempfile

from support import BUILT, MODEL, ROOT, check, mpc, result


def ran(r, *what):
    return check(r.returncode == 0, *what, r.stderr)


def refused(r, *words):
    check(r.returncode == 1 and "E375" in r.stderr and all(w in r.stderr for w in words), words, r.stderr)


def rebuild(path):
    """Other bytes, the same plugin: what lies behind a shared object's sections isn't read."""
    with open(path, "rb") as f:
        data = f.read()
    os.remove(path)  # never in place: a process may have it mapped
    with open(path, "wb") as f:
        f.write(data + b"rebuilt")


with tempfile.TemporaryDirectory(prefix="mpc-remembered-") as where:
    def at(*names):
        return os.path.join(where, *names)

    def weights(name):
        with open(at(name, "checkpoints", "step-00000004", "weights.safetensors"), "rb") as f:
            return f.read()

    os.makedirs(at("own"))
    os.makedirs(at("elsewhere"))
    shutil.copy(os.path.join(BUILT, "examples", "softsign.so"), at("own", "softsign.so"))
    shutil.copy(os.path.join(BUILT, "examples", "double_add.so"), at("own", "double_add.so"))
    with open(at("m.mpg"), "w", encoding="utf-8") as f:
        f.write(MODEL.replace("DATA", os.path.join(ROOT, "examples", "data")).replace("    metric", "    output p = softmax(logits)\n    metric"))
    ref = ("--device", "ref")
    # a relative path, from the folder where the training ran
    made = ("--load-plugin", "own/softsign.so", "--load-plugin", "own/double_add.so", "--add-pass", "grad=double-add")
    ran(mpc("train", "m.mpg", "--out", "run", "--steps", "4", *ref, *made, cwd=where), "train")
    with open(at("run", "run.json"), encoding="utf-8") as f:
        run = json.load(f)
    check([p["path"] for p in run["plugins"]] == [at("own", "softsign.so"), at("own", "double_add.so")], run["plugins"])
    check(run["added_passes"] == ["grad=double-add"], run["added_passes"])
    first = run["plugins"][0]["hash"]
    check(re.fullmatch("[0-9a-f]{16}", first), first)
    check(sorted(os.listdir(at("run", "used"))) == ["double_add.so", "softsign.so"], os.listdir(at("run", "used")))

    # nobody has to name them again, from wherever the command is given
    said = f"with --load-plugin {at('own', 'softsign.so')}, as the run was made\n"
    commands = {
        "eval": ("eval", "../m.mpg", "--from", "../run", *ref),
        "predict": ("predict", "../m.mpg", "--from", "../run/checkpoints/last", *ref),
        "resume": ("train", "../m.mpg", "--resume", "../run", *ref),
        "explain": ("explain", "../run/resolved.mpg"),
        "dump-ir": ("dump-ir", "../run/model.mpg"),
    }
    for name, words in commands.items():
        r = mpc(*words, cwd=at("elsewhere"))
        ran(r, name)
        check(said in r.stderr and "with --add-pass grad=double-add, as the run was made\n" in r.stderr, name, r.stderr)
    # its completed file repeats it to the bit
    r = mpc("train", "../run/resolved.mpg", "--out", "../again", cwd=at("elsewhere"))
    ran(r, "repeat")
    check(said in r.stderr and "with --device ref, as the run was made\n" in r.stderr, r.stderr)
    check(weights("run") == weights("again"))
    want = mpc(*commands["eval"], cwd=at("elsewhere")).stdout
    check("accuracy" in want, want)
    r = mpc(*commands["eval"], "--load-plugin", "../own/softsign.so", cwd=at("elsewhere"))  # named again, it isn't loaded twice
    ran(r, "named again")
    check("hash" not in r.stderr and r.stdout == want, r.stderr)

    # rebuilt: both hashes, and both ways on
    rebuild(at("own", "softsign.so"))
    for name, words in commands.items():
        refused(mpc(*words, cwd=at("elsewhere")), "softsign.so has changed", first, "run/used/softsign.so", "--load-plugin " + at("own", "softsign.so"))
    r = mpc(*commands["eval"], cwd=at("elsewhere"))
    now = re.search("its hash is ([0-9a-f]{16})", r.stderr)
    check(now and now[1] != first, r.stderr)
    r = mpc(*commands["eval"], "--load-plugin", "../run/used/softsign.so", cwd=at("elsewhere"))
    check(ran(r, "the copy") and r.stdout == want and "hash" not in r.stderr, r.stderr)
    r = mpc(*commands["eval"], "--load-plugin", "../own/softsign.so", cwd=at("elsewhere"))
    check(ran(r, "rebuilt") and r.stdout == want and f"plugin softsign.so: hash {now[1]}, the run's was {first}\n" in r.stderr, r.stderr)

    # missing
    os.remove(at("own", "softsign.so"))
    refused(mpc(*commands["eval"], cwd=at("elsewhere")), "is missing", first, "run/used/softsign.so", "--load-plugin FILE")

    # who goes on training with another one has it from there on
    shutil.copy(at("run", "used", "softsign.so"), at("own", "softsign.so"))
    rebuild(at("own", "softsign.so"))
    ran(mpc("train", "m.mpg", "--resume", "run", *ref, "--load-plugin", "own/softsign.so", cwd=where), "resume with another")
    r = mpc(*commands["eval"], cwd=at("elsewhere"))
    check(ran(r, "after it") and said in r.stderr, r.stderr)
    with open(at("run", "run.json"), encoding="utf-8") as f:
        check(json.load(f)["plugins"][0]["hash"] == now[1])

    # an emptied folder has no plugins of the run before
    ran(mpc("train", os.path.join(ROOT, "examples", "linear.mpg"), "--out", "run", "--overwrite", "--steps", "1", *ref, cwd=where), "overwrite")
    check(os.listdir(at("run", "used")) == [], os.listdir(at("run", "used")))
result()
