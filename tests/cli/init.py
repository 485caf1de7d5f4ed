"""--init on real runs: what is loaded, converted, new and not used is said with counts and first names; strict unless told; precisions
change on the way; and a file of another program, which says nothing of its numbered names, has them counted."""
import json
import os
import struct

from support import MODEL, Folder, check, final_checkpoint, read_safetensors, run_all

STILL = ("--set", "optimizer=sgd(lr = 0)", "--steps", "1")  # weights stay as they were loaded
DEEP = """block body(x) {
LAYERS
    return x
}
model m(x: f32[batch, 4], y: i32[batch]) {
    h = body(x) as body
    logits = linear(h, 3) as head
    loss ce = cross_entropy(logits, y)
}
data {
    train = csv("train.csv")
    input x = columns[0:4]
    input y = columns[4]
}
train {
    precision = f32
    batch     = 16
    length    = 3 steps
}
"""


def deep(layers):
    return DEEP.replace("LAYERS", "\n".join(["    x = relu(linear(x, 4))"] * layers))


def weights(folder, run):
    """Name -> (format, shape, bytes) of the newest checkpoint."""
    return read_safetensors(final_checkpoint(folder, run)[1]["weights.safetensors"])[0]


def write_safetensors(folder, name, tensors):
    """As other programs do: no metadata."""
    header, data = {}, b""
    for key, (dtype, shape, raw) in tensors.items():
        header[key] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    folder.put(name, struct.pack("<Q", len(text)) + text + data)


def floats(raw):
    return struct.unpack(f"<{len(raw) // 4}f", raw)


def section(err, word):
    """The count and the names below "new 2:"."""
    lines = err.splitlines()
    for i, line in enumerate(lines):
        if line.startswith(word + " ") and line.endswith(":"):
            names = []
            for below in lines[i + 1:]:
                if not below.startswith("  "):
                    break
                names.append(below.split()[0])
            return int(line[len(word):-1]), names
    return 0, []


def what_is_said():
    with Folder() as f:
        f.mpc("train", "tiny.mpg", "--steps", "5", "--out", "run")
        old = weights(f, "run")
        r = f.mpc("train", "tiny.mpg", "--init", "run", *STILL, "--out", "same")
        check("4 of 4 parameters from run (best)\n" in r.err, r.err)
        check(section(r.err, "loaded")[0] == 4 and sorted(section(r.err, "loaded")[1]) == sorted(old), r.err)
        check(section(r.err, "new") == section(r.err, "not used") == section(r.err, "converted") == (0, []), r.err)
        check(weights(f, "same") == old)

        # another head: missing is refused, and so nothing has begun; told, what is new and what isn't used is named
        f.put("head.mpg", MODEL.replace("linear(h, 3) as fc2", "linear(h, 3) as head"))
        r = f.mpc("train", "head.mpg", "--init", "run", *STILL, "--out", "no", status=1)
        check("E401" in r.err and "2 of 4 parameters of this model are not in run" in r.err, r.err)
        check("--rename 'fc2.*=head.*'" in r.err and "--allow-missing 'head.*'" in r.err, r.err)
        check(f.mpc("train", "head.mpg", *STILL, "--out", "no").returncode == 0, "a folder was begun")
        r = f.mpc("train", "head.mpg", "--init", "run", "--allow-missing", "head.*", *STILL, "--out", "afresh")
        check("2 of 4 parameters from run" in r.err, r.err)
        check(sorted(section(r.err, "new")[1]) == ["head.bias", "head.weight"] and section(r.err, "new")[0] == 2, r.err)
        check(sorted(section(r.err, "not used")[1]) == ["fc2.bias", "fc2.weight"] and section(r.err, "not used")[0] == 2, r.err)
        check(sorted(section(r.err, "loaded")[1]) == ["fc1.bias", "fc1.weight"], r.err)
        # a glob that is about something else allows nothing
        check("E401" in f.mpc("train", "head.mpg", "--init", "run", "--allow-missing", "fc1.*", *STILL, "--out", "no2", status=1).err)
        # and one that is about no parameter was meant for another name
        r = f.mpc("train", "head.mpg", "--init", "run", "--allow-missing", "haed.*", "--allow-missing", "head.*", *STILL, "--out", "no2", status=1)
        check("E407" in r.err and "--allow-missing 'haed.*' is about no parameter of this model" in r.err and "head.*'" not in r.err, r.err)
        # a rename away from the right name is told, not offered as its own remedy
        r = f.mpc("train", "tiny.mpg", "--init", "run", "--rename", "fc2.*=nix.*", *STILL, "--out", "no2", status=1)
        check("E401" in r.err and "the file calls fc2.* what this model does" in r.err and "fc2.*=fc2.*" not in r.err and not os.path.exists(f.at("no2")), r.err)
        r = f.mpc("train", "head.mpg", "--init", "run", "--rename", "fc2.*=head.*", *STILL, "--out", "renamed")
        check(weights(f, "renamed")["head.weight"] == old["fc2.weight"] and section(r.err, "new") == (0, []), r.err)

        # a rule is about some tensor, and what two tensors would become is neither
        for rule in ("fc3.*=head.*", "fc2.*=head", "head.*=fc2.*", "*.*=head.*"):
            r = f.mpc("train", "head.mpg", "--init", "run", "--rename", rule, "--allow-missing", "**", *STILL, "--out", "no3", status=1)
            check("E406" in r.err and rule in r.err and "run (best)" in r.err, r.err)
        r = f.mpc("train", "tiny.mpg", "--init", "run", "--rename", "fc2.bias=fc1.bias", "--allow-missing", "**", *STILL, "--out", "no4", status=1)
        check("E406" in r.err and "`fc1.bias` and `fc2.bias`" in r.err and not os.path.exists(f.at("no4")), r.err)
        for words in (("--rename", "a=b"), ("--allow-missing", "a")):
            check("--init" in f.mpc("train", "tiny.mpg", *words, *STILL, "--out", "no5", status=2).err)

        # names that nobody expects are no error, but are said
        write_safetensors(f, "more.safetensors", dict(old, **{f"extra.{i}": ("F32", [1], b"\0\0\0\0") for i in range(20)}))
        r = f.mpc("train", "tiny.mpg", "--init", "more.safetensors", *STILL, "--out", "more")
        check("4 of 4 parameters from more.safetensors" in r.err and "not used 20:" in r.err and "  and 8 more\n" in r.err, r.err)

        # another shape is never loaded, and --allow-missing leaves it at its initial value
        f.put("wide.mpg", MODEL.replace("linear(x, 8)", "linear(x, 9)"))
        r = f.mpc("train", "wide.mpg", "--init", "run", *STILL, "--out", "no3", status=1)
        check("E401" in r.err and "differs" in r.err and "[4, 9] here, in the file [4, 8]" in r.err, r.err)


def precisions():
    with Folder() as f:
        solver = ("--set", "solver=list")
        f.mpc("train", "tiny.mpg", "--steps", "5", "--out", "wide")
        for low in ("bf16", "f16"):
            # from f32 to 16 bits and back, with masters: nothing is lost on the way
            r = f.mpc("train", "tiny.mpg", "--precision", low, *solver, "--init", "wide", *STILL, "--out", low)
            check("4 of 4 parameters" in r.err and "W173" not in r.err and section(r.err, "converted") == (0, []), r.err)
            check(weights(f, low) == weights(f, "wide"), low)
            r = f.mpc("train", "tiny.mpg", "--init", low, *STILL, "--out", low + "-back")
            check("W173" not in r.err and weights(f, low + "-back") == weights(f, "wide"), low)
        # without masters the file is 16-bit: rounded once, and the way back says so
        none = ("--precision", "bf16", *solver, "--set", "weights=none")
        r = f.mpc("train", "tiny.mpg", *none, "--init", "wide", *STILL, "--out", "none")
        check(section(r.err, "converted")[0] == 4 and "f32[4,8] in the file, here bf16[4,8]" in r.err and "W173" not in r.err, r.err)
        low = weights(f, "none")
        check(all(t[0] == "BF16" for t in low.values()), {k: t[0] for k, t in low.items()})
        r = f.mpc("train", "tiny.mpg", "--init", "none", *STILL, "--out", "none-back")
        check(section(r.err, "converted")[0] == 4 and "W173" in r.err and "4 parameters start from the rounded values" in r.err, r.err)
        for name, (dtype, _, raw) in weights(f, "none-back").items():
            check(dtype == "F32" and raw == b"".join(b"\0\0" + low[name][2][i:i + 2] for i in range(0, len(low[name][2]), 2)), name)
            exact = floats(weights(f, "wide")[name][2])
            check(all(abs(a - b) <= 2**-8 * abs(a) for a, b in zip(exact, floats(raw))), name)
        # doubles of another program
        doubles = {k: ("F64", shape, struct.pack(f"<{len(raw) // 4}d", *floats(raw))) for k, (_, shape, raw) in weights(f, "wide").items()}
        write_safetensors(f, "doubles.safetensors", doubles)
        r = f.mpc("train", "tiny.mpg", "--init", "doubles.safetensors", *STILL, "--out", "doubles")
        check(section(r.err, "converted")[0] == 4 and "W173" not in r.err and weights(f, "doubles") == weights(f, "wide"), r.err)


def numbers():
    with Folder() as f:
        f.put("two.mpg", deep(2))
        f.put("three.mpg", deep(3))
        f.mpc("train", "two.mpg", "--out", "two")
        old = weights(f, "two")
        check("body.linear.1.weight" in old, list(old))
        # without metadata, the names are counted: equal counts load
        write_safetensors(f, "two.safetensors", old)
        r = f.mpc("train", "two.mpg", "--init", "two.safetensors", *STILL, "--out", "same")
        check(weights(f, "same") == old, r.err)
        # one call more: none of them, whatever may be missing; the others load
        for source in ("two", "two.safetensors"):
            r = f.mpc("train", "three.mpg", "--init", source, *STILL, "--out", "no", status=1)
            check("E402" in r.err and "3 calls are numbered under `body.linear` in this model, 2 in " + source in r.err, r.err)
            r = f.mpc("train", "three.mpg", "--init", source, "--allow-missing", "body.linear.2.*", *STILL, "--out", "no", status=1)
            check("E402" in r.err, r.err)
            out = "afresh-" + source
            r = f.mpc("train", "three.mpg", "--init", source, "--allow-missing", "body.linear.**", *STILL, "--out", out)
            f.mpc("train", "three.mpg", *STILL, "--out", "plain", "--overwrite")
            now, plain = weights(f, out), weights(f, "plain")
            check(all(now[k] == (plain[k] if k.startswith("body.") else old[k]) for k in now), source)
            check(section(r.err, "new")[0] == 6 and section(r.err, "not used")[0] == 4, r.err)
        # a file with one more than the model
        f.mpc("train", "three.mpg", "--out", "three")
        write_safetensors(f, "three.safetensors", weights(f, "three"))
        for source in ("three", "three.safetensors"):
            check("E402" in f.mpc("train", "two.mpg", "--init", source, *STILL, "--out", "no", status=1).err, source)
        # a file in which the numbers belong to somebody else's names is no reason to refuse
        write_safetensors(f, "other.safetensors", {k.replace("body.linear", "blocks"): t for k, t in old.items()})
        r = f.mpc("train", "two.mpg", "--init", "other.safetensors", "--rename", "blocks.**=body.linear.**", *STILL, "--out", "blocks")
        check(weights(f, "blocks") == old, r.err)


def layers():
    """One rule for the same part of every layer: a wildcard for the layer, another for what the part has."""
    with Folder() as f:
        f.put("old.mpg", deep(1).replace("    x = relu(linear(x, 4))", "    repeat layer in 2 { x = relu(linear(x, 4) as fc) }"))
        f.put("new.mpg", deep(1).replace("    x = relu(linear(x, 4))", "    repeat layer in 2 { x = relu(part(x) as fc) }").replace(
            "block body", "block part(x) { return linear(x, 4) as base }\nblock body"))
        f.mpc("train", "old.mpg", "--out", "old")
        old = weights(f, "old")
        r = f.mpc("train", "new.mpg", "--init", "old", "--rename", "body.layer.*.fc.*=body.layer.*.fc.base.*", *STILL, "--out", "new")
        check("6 of 6 parameters from old" in r.err, r.err)
        check(weights(f, "new") == {k.replace(".fc.", ".fc.base."): t for k, t in old.items()}, list(old))
        r = f.mpc("train", "new.mpg", "--init", "old", "--rename", "**.fc.*=**.fc.base.*", *STILL, "--out", "any")
        check(weights(f, "any") == weights(f, "new"), r.err)


def statistics():
    """A norm that is frozen works with the statistics of the run that its parameters come from."""
    norm = MODEL.replace("h = ", "x = batch_norm(x) as norm\n    h = ", 1)
    frozen = norm + '\nparams { "norm.*" { freeze = true } }\n'
    with Folder() as f:
        f.put("norm.mpg", norm)
        f.put("renamed.mpg", frozen.replace("norm", "first").replace("batch_first", "batch_norm"))
        f.mpc("train", "norm.mpg", "--out", "run")
        files = final_checkpoint(f, "run")[1]
        learnt = {k: t for k, t in read_safetensors(files["state.safetensors"])[0].items() if ".running_" in k}
        check(len(learnt) == 2, list(learnt))

        def now(run):
            return read_safetensors(final_checkpoint(f, run)[1]["state.safetensors"])[0]

        f.put("weights.safetensors", files["weights.safetensors"])  # with what a checkpoint has beside it, and without
        r = f.mpc("train", "renamed.mpg", "--init", "weights.safetensors", "--rename", "norm.*=first.*", *STILL, "--out", "without")
        check(" parameters and 0 of 2 statistics from weights.safetensors" in r.err, r.err)
        f.put("state.safetensors", files["state.safetensors"])
        for i, source in enumerate(("run", "weights.safetensors")):
            r = f.mpc("train", "renamed.mpg", "--init", source, "--rename", "norm.*=first.*", *STILL, "--out", f"new{i}")
            check(" parameters and 2 of 2 statistics from " + source in r.err, r.err)
            check(all(now(f"new{i}")[k.replace("norm", "first")] == t for k, t in learnt.items()), source)
        # another program's file has them among the weights
        both = dict(read_safetensors(files["weights.safetensors"])[0], **learnt)
        write_safetensors(f, "both.safetensors", both)
        r = f.mpc("train", "renamed.mpg", "--init", "both.safetensors", "--rename", "norm.*=first.*", *STILL, "--out", "both")
        check("2 of 2 statistics" in r.err and section(r.err, "not used") == (0, []), r.err)
        check(all(now("both")[k.replace("norm", "first")] == t for k, t in learnt.items()))
        # and so has `load`
        f.put("load.mpg", norm + '\nparams { "**" { load = "weights.safetensors" }\n"norm.*" { freeze = true } }\n')
        r = f.mpc("train", "load.mpg", *STILL, "--out", "load")
        check(r.returncode == 0, r.err)
        check(all(now("load")[k] == t for k, t in learnt.items()))


run_all([what_is_said, precisions, numbers, layers, statistics])
