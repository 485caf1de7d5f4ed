"""What a run remembers: overrides, names of columns, data that are found from its own folder, pointers to checkpoints."""
import json
import os
import shutil

from support import MODEL as TINY, Folder, check, finish

MODEL = TINY.replace("train {", "train {\n    solver = list", 1)  # the default has something to say where low formats gain nothing
WIDE = "const width = 8\n" + MODEL.replace("linear(x, 8)", "linear(x, width)")

with Folder(model=WIDE) as f:
    made = ("--const", "width=6", "--precision", "bf16", "--set", "optimizer.lr=2e-2", "--batch", "8")
    r = f.mpc("train", "tiny.mpg", *made, "--out", "run", "--seed", "7")
    figures = [line for line in r.out.splitlines() if line.startswith("test ")]
    said = "with --const width=6 --set optimizer.lr=2e-2 --set precision=bf16 --set batch=8 --set seed=7, as the run was made\n"
    # evaluation and prediction are of the model that was trained
    r = f.mpc("eval", "tiny.mpg", "--from", "run")
    check(r.out.splitlines() == figures and r.err == said, r.out, r.err)
    r = f.mpc("predict", "tiny.mpg", "--from", "run/checkpoints/step-00000052")
    check(len(r.out.splitlines()) == 41 and r.err == said, r.err)
    # the command line's own come after and win; what is the same isn't said
    r = f.mpc("eval", "tiny.mpg", "--from", "run", "--const", "width=8", status=1)
    check("E401" in r.err and "width" not in r.err.split("\n")[0], r.err)
    r = f.mpc("eval", "tiny.mpg", "--from", "run", *made, "--set", "seed=7")
    check(r.err == "" and r.out.splitlines() == figures, r.err)
    # a resume takes them too, through a change and after it, and still compares
    r = f.mpc("train", "tiny.mpg", "--resume", "run")
    check(said in r.err, r.err)
    r = f.mpc("train", "tiny.mpg", "--resume", "run", "--set", "batch=4", status=1)
    check("E353" in r.err and "batch" in r.err and "precision" not in r.err.split("E353")[1], r.err)
    f.mpc("train", "tiny.mpg", "--resume", "run", "--change", "length=5 epochs")
    r = f.mpc("train", "tiny.mpg", "--resume", "run")
    check("--const width=6" in r.err and "--set length=5 epochs" in r.err, r.err)
    # a constant that the file doesn't have any more is no mistake
    f.put("fixed.mpg", MODEL.replace("linear(x, 8)", "linear(x, 6)"))
    r = f.mpc("eval", "fixed.mpg", "--from", "run")
    check("width" not in r.err, r.err)
    # nothing remembered, nothing said
    f.mpc("train", "tiny.mpg", "--out", "plain")
    check(f.mpc("eval", "tiny.mpg", "--from", "plain").err == "")

    # checkpoints by the files that name them
    for name in ("best", "last"):
        r = f.mpc("eval", "tiny.mpg", "--from", f"plain/checkpoints/{name}")
        check(r.out == f.mpc("eval", "tiny.mpg", "--from", "plain", "--which", name).out, r.err)
    check("with --const width=6" in f.mpc("eval", "tiny.mpg", "--from", "run/checkpoints/last").err)
    check("E352" in f.mpc("eval", "tiny.mpg", "--from", "run/log.jsonl", status=1).err)

    # the completed file works from where it lies, wherever the program runs
    os.mkdir(f.at("elsewhere"))
    want = f.mpc("eval", "tiny.mpg", "--from", "run").out
    shutil.copytree(f.at("run"), f.at("elsewhere", "moved"))
    for path in ("run/resolved.mpg", "elsewhere/moved/resolved.mpg"):
        r = f.mpc("eval", path, "--from", "run")
        check(r.out == want and r.err == "", r.err)
    os.rename(f.at("test.csv"), f.at("held.csv"))
    f.mpc("train", "tiny.mpg", "--set", 'data.test=csv("held.csv")', "--out", "other")
    check(f.mpc("eval", "other/resolved.mpg", "--from", "other").out == f.mpc("eval", "tiny.mpg", "--from", "other").out != "")

with Folder(model=MODEL) as f:
    # columns by position: names that differ from the training's are worth a word
    for name in ("train.csv", "test.csv"):
        f.put(name, "a,b,c,d,label\n" + f.get(name).decode())
    f.mpc("train", "tiny.mpg", "--out", "run")
    check(json.loads(f.get("run", "run.json"))["columns"] == ["a", "b", "c", "d", "label"])
    body = "1,2,3,4\n"
    r = f.mpc("predict", "tiny.mpg", "--from", "run", "--input", "-", stdin=b"a,c,b,d\n" + body.encode())
    check("W171" in r.err and "column 1 of -" in r.err and "`c`" in r.err and "`b`" in r.err, r.err)
    for header in ("a,b,c,d\n", "", "a,b,c,d,another\n"):
        row = body if header.count(",") < 4 else "1,2,3,4,x\n"
        r = f.mpc("predict", "tiny.mpg", "--from", "run", "--input", "-", stdin=(header + row).encode())
        check("W171" not in r.err and len(r.out.splitlines()) == 2, header, r.err)

finish()
