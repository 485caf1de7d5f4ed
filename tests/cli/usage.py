"""Wrong usage is status 2 with a hint; messages have codes that help explains."""
import json

from support import Folder, check, finish

with Folder() as f:
    r = f.mpc("help")
    for word in ("train", "predict", "dump-ir", "Exit status"):
        check(word in r.out, word)
    check("--resume" in f.mpc("help", "train").out)
    check("--resume" in f.mpc("train", "--help").out)
    check("labels" in f.mpc("help", "e201").out)
    check("`train`" in f.mpc("trian", "tiny.mpg", status=2).err)
    check("`--steps`" in f.mpc("train", "tiny.mpg", "--stesp", "3", status=2).err)
    f.mpc("train", status=2)
    f.mpc("train", "tiny.mpg", "more.mpg", status=2)
    f.mpc("train", "tiny.mpg", "--steps", status=2)
    f.mpc("train", "tiny.mpg", "--steps", "many", status=2)
    f.mpc("train", "tiny.mpg", "--set", "batch", status=2)
    f.mpc("train", "tiny.mpg", "--resume", "a", "--out", "b", status=2)
    f.mpc("eval", "tiny.mpg", status=2)
    f.mpc("help", "E999", status=2)
    check("mpc" in f.mpc("info").out)
    check("matmul" in f.mpc("ops").out)
    ops = [json.loads(line) for line in f.mpc("ops", "--json").out.splitlines()]
    check(len(ops) > 50 and all("class" in op for op in ops))
    check("autocast" in f.mpc("passes").out and "@train" in f.mpc("passes").out)
    check("E362" in f.mpc("ops", "matmull", status=1).err)
    check("E210" in f.mpc("train", "none.mpg", status=1).err)
    error = json.loads(f.mpc("train", "none.mpg", "--json", status=1).err.splitlines()[0])
    check(error["code"] == "E210" and error["severity"] == "error", error)
    check("E356" in f.mpc("train", "tiny.mpg", "--device", "abacus", status=1, device=None).err)

finish()
