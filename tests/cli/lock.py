"""train --lock: the first training writes the assignment beside the model, later ones run it or are refused with the difference."""
import os

from support import MODEL, Folder, check, finish

LOW = MODEL.replace("precision = f32", "precision = bf16\n    solver = list")

with Folder(LOW) as f:
    def train(*args, status=0, model="tiny.mpg"):
        return f.mpc("train", model, "--steps", "2", *args, status=status)

    r = train("--lock", "tiny.lock", "--out", "one")
    check("locked in tiny.lock" in r.err, r.err)
    lock = f.get("tiny.lock")
    check(lock == f.get("one", "assignment.txt"), lock)
    stamp = os.stat(f.at("tiny.lock")).st_mtime_ns

    # the same assignment trains, and the file stays as it is, whatever reasons it gives and in whatever order
    check("locked" not in train("--lock", "tiny.lock", "--out", "two").err)
    check(f.get("two", "assignment.txt") == lock and os.stat(f.at("tiny.lock")).st_mtime_ns == stamp)
    head, lines = lock.decode().split("\n")[:2], lock.decode().strip("\n").split("\n")[2:]
    f.put("shuffled.lock", "\n".join(head + [line.rsplit("\t", 1)[0] + "\tas it was" for line in reversed(lines)]) + "\n")
    train("--lock", "shuffled.lock", "--out", "three")

    # another one is refused before a run folder is made
    f.put("policy.mpg", LOW + 'policy { "fc1" = f32 }\n')
    r = train("--lock", "tiny.lock", "--out", "four", status=1, model="policy.mpg")
    for word in ("E366", "tiny.lock", "~ fc1 (linear)", "stores", "bf16 -> f32", "remove the file"):
        check(word in r.err, word, r.err)
    check(not os.path.exists(f.at("four")) and f.get("tiny.lock") == lock)
    r = train("--lock", "tiny.lock", "--out", "four", "--precision", "f32", status=1)
    check("E366" in r.err, r.err)
    check("more" in r.err and len(r.err.splitlines()) < 80, r.err)

    # a resumed run is held to it too
    train("--lock", "tiny.lock", "--resume", "one", "--change", "length=4 steps")

    # FILE without a folder lies beside the model
    os.mkdir(f.at("models"))
    f.put("models/m.mpg", LOW.replace("train.csv", "../train.csv").replace("test.csv", "../test.csv"))
    train("--lock", "m.lock", "--out", "five", model="models/m.mpg")
    check(os.path.exists(f.at("models", "m.lock")) and not os.path.exists(f.at("m.lock")))
    train("--lock", "./here.lock", "--out", "six", model="models/m.mpg")
    check(os.path.exists(f.at("here.lock")))

    # what can't be read or written
    f.put("broken.lock", "mpc assignment 1\nfc1\n")
    check("E110" in train("--lock", "broken.lock", "--out", "seven", status=1).err)
    check("E420" in train("--lock", "./no/such/folder.lock", "--out", "seven", status=1).err)
    check(not os.path.exists(f.at("seven")))

finish()
