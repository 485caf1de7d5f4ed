"""Numbers that a precision can't hold: each planted hazard is found on its line with its code, its remedy clears it, models without
hazards have no findings, and what a profile saw keeps values in f32."""
import json
import os

from support import Folder, check, finish

MODEL = """
model m(x: f32[batch, 8], y: i32[batch]) {
    h = linear(x, 16) as first
    HERE
    logits = linear(z, 4) as last
    loss ce = cross_entropy(logits, y)
}
data {
    train = csv("rows.csv")
    input x = columns[0:8]
    input y = columns[8]
}
train {
    precision = PRECISION
    optimizer = sgd(lr = 1e-3)
    batch     = 16
    length    = 4 steps
}
"""
ROWS = "".join(",".join(str((i * 7 + k * 3) % 11 / 8) for k in range(8)) + f",{i % 4}\n" for i in range(64))


def write(f, precision, body):
    """The statements stand in the model; what stands before a line of dashes stands before the model. Returns the line of `#!`."""
    before, _, body = body.rpartition("\n---\n")
    text = before + MODEL.replace("PRECISION", precision).replace("HERE", body.replace("\n", "\n    "))
    f.put("m.mpg", text)
    return 1 + text.partition("#!")[0].count("\n")


def lint(f, status, *more):
    return [json.loads(line) for line in f.mpc("lint", "m.mpg", "--json", *more, status=status).out.splitlines()]


# precision, code, rule, the statements (the hazard is in the one that ends in `#!`), what to write instead
HAZARDS = [
    ("f16", "W180", "N20", "z = where(h > 0, h, -1e9) #!", "z = where(h > 0, h, -6e4)"),
    ("f16", "W180", "N45", "z = h * 1e6 #!", "z = h * 1e3"),
    ("f16", "W181", "N32", "z = h / (relu(h) + 1e-8) #!", "z = h / (relu(h) + 1e-4)"),
    ("bf16", "W181", "N45", "z = h * 0.9999 #!", "z = h * 0.99"),
    ("f32", "W181", "N32", "a = relu(h) + 1\nz = a + 1e-9 #!", "a = relu(h) + 1e-9\nz = a + 1"),
    ("f32", "W181", "N45", "z = layer_norm(h, eps = 1e-50) #!", "z = layer_norm(h, eps = 1e-5)"),
    ("bf16", "W182", "N44", "p = cast(range(600), bf16) #!\nz = h + mean(cast(p, f32))",
     "p = cast(range(600), f32)\nz = h + mean(p)"),
    ("bf16", "W182", "N44", "@bf16 p = cast(range(16), f32) * 100 #!\nz = h + p", "p = cast(range(16), f32) * 100\nz = h + p"),
    ("f16", "W183", "N40", "@f16 s = sum(relu(h) + 5000, axis = -1) #!\nz = h * mean(s)",
     "@f32 s = sum(relu(h) + 5000, axis = -1)\nz = h * mean(s)"),
    ("f16", "W183", "N40", "@f16 s = cumsum(relu(h) + 9000) #!\nz = h * mean(s)", "@f32 s = cumsum(relu(h) + 9000)\nz = h * mean(s)"),
    ("f16", "W183", "N40", "@f16 s = norm(relu(h) + 30000, axis = -1, keep = true) #!\nz = h * mean(s)",
     "@f32 s = norm(relu(h) + 30000, axis = -1, keep = true)\nz = h * mean(s)"),
    ("f16", "W182", "N44", "p = cast(range(3000), f16) #!\nz = h + mean(cast(p, f32))", "p = cast(range(3000), f32)\nz = h + mean(p)"),
    ("bf16", "W182", "N44", "@bf16 p = cumsum(ones([600])) #!\nz = h + mean(cast(p, f32))", "@f32 p = cumsum(ones([600]))\nz = h + mean(p)"),
    ("f32", "W184", "N10", "s = log(sum(exp(h), axis = -1, keep = true)) #!\nz = h - s", "z = h - logsumexp(h, axis = -1, keep = true)"),
    ("f16", "W184", "N41", "@f16 z = expm1(clamp(h, max = 20)) #!", "@f16 z = expm1(clamp(h, max = 11))"),
    ("bf16", "W186", "N13", "z = log1p(-sigmoid(h)) #!", "z = -softplus(h)"),
    ("f16", "W186", "N13", "@f16 p = clamp(h, min = 0, max = 1)\nz = 0 - log(p) * h - log(1 - p) * h #!",
     "@f32 p = clamp(h, min = 0, max = 1)\nz = 0 - log(p) * h - log(1 - p) * h"),
    ("f32", "W184", "N10", "e = exp(h) #!\nz = e / sum(e, axis = -1, keep = true)",
     "e = exp(h - max(h, axis = -1, keep = true))\nz = e / sum(e, axis = -1, keep = true)"),
    ("f16", "W184", "N41", "@f16 z = exp(clamp(h, max = 20)) #!", "@f16 z = exp(clamp(h, max = 11))"),
    ("f32", "W184", "N41", "z = exp(clamp(h, max = 90)) #!", "z = exp(clamp(h, max = 80))"),
    ("f16", "W185", "N32", "@f16 a = relu(h) + 1e-8\n@f16 z = 1 / a #!", "@f32 a = relu(h) + 1e-8\n@f32 z = 1 / a"),
    ("bf16", "W186", "N13", "z = log(sigmoid(h)) #!", "z = -softplus(-h)"),
    ("bf16", "W186", "N13", "z = log(1 - sigmoid(h)) #!", "z = -softplus(h)"),
    ("f32", "W186", "N11", "z = log(softmax(h)) #!", "z = log_softmax(h)"),
    ("bf16", "W187", "N41", "@bf16 a = cast(range(16), f32) * 500\nz = h + sin(a) #!",
     "a = cast(range(16), f32) * 500\nz = h + sin(a)"),

    # what is stored in f32 and read in 16 bits
    ("bf16", "W182", "N44", "g = linear(h, 512) as wide\n@bf16 z = g * range(512) #!", "g = linear(h, 512) as wide\nq = range(512)[256:512] - 256\n@bf16 z = g[:, 0:256] * q"),
    ("bf16", "W182", "N44", "@bf16 p = linear(expand(range(512), [batch, 512]), 16) as pos #!\nz = h + p",
     "q = range(512) / 512\n@bf16 p = linear(expand(q, [batch, 512]), 16) as pos\nz = h + p"),
    ("f16", "W182", "N44", "@f16 p = linear(expand(range(3000), [batch, 3000]), 16) as pos #!\nz = h + p",
     "@f16 p = linear(expand(range(2000), [batch, 2000]), 16) as pos\nz = h + p"),
    ("bf16", "W182", "N44", "p = range(600)[100:400]\n@bf16 q = p * 0.5 #!\nz = h + mean(cast(q, f32))", "p = range(600)[100:256]\n@bf16 q = p * 0.5\nz = h + mean(cast(q, f32))"),
    ("bf16", "W182", "N44", "p = cast(range(16), f32) * 301\n@bf16 z = h + p #!", "p = cast(range(16), f32) * 512\n@bf16 z = h + p"),
    ("f16", "W182", "N44", "p = cast(y, f32) + 3000\n@f16 z = h + reshape(p, [batch, 1]) #!", "p = cast(y, f32) + 2000\n@f16 z = h + reshape(p, [batch, 1])"),
    ("f32", "W182", "N44", "g = linear(h, 512) as wide\n@bf16 z = g + range(512) #!", "g = linear(h, 512) as wide\nz = g + range(512)"),
    ("bf16", "W182", "N44", "block place(t: [n, c]) {\n    @bf16 p = t + range(c) #!\n    return p\n}\n---\nz = place(linear(h, 300) as wide)",
     "block place(t: [n, c]) {\n    @f32 p = t + range(c)\n    return p\n}\n---\nz = place(linear(h, 300) as wide)"),
    ("bf16", "W182", "N44", "@bf16 {\n    g = linear(h, 512) as wide\n    z = g + range(512) #!\n}",
     "q = range(512) / 512\n@bf16 {\n    g = linear(h, 512) as wide\n    z = g + q\n}"),
    ("bf16", "W182", "N44", "p = transpose(reshape(cast(range(600), f32), [1, 600]), perm = [1, 0])\n@bf16 q = p * 0.5 #!\nz = h + mean(cast(q, f32))",
     "p = transpose(reshape(cast(range(600), f32), [1, 600]), perm = [1, 0])\n@f32 q = p * 0.5\nz = h + mean(q)"),
    ("bf16", "W182", "N44", "p = expand(cast(range(600), f32), [batch, 600])\n@bf16 z = relu(concat([h, p], axis = -1)) #!",
     "p = expand(cast(range(200), f32), [batch, 200])\n@bf16 z = relu(concat([h, p], axis = -1))"),
    ("bf16", "W182", "N44", "i = argmax(h, axis = -1) * 41\n@bf16 p = cast(i, f32) / 2 #!\nz = h + embedding(cast(floor(p), i32), 400, 16) as emb",
     "i = argmax(h, axis = -1) * 41\n@f32 p = cast(i, f32) / 2\nz = h + embedding(cast(floor(p), i32), 400, 16) as emb"),
    ("bf16", "W182", "N44", "c = cumsum(ones([600]))\n@bf16 q = sqrt(c) #!\nz = h + mean(cast(q, f32))", "c = cumsum(ones([600]))\n@f32 q = sqrt(c)\nz = h + mean(q)"),
    ("f16", "W180", "N20", "@f32 m = where(h > 0, 0.0, -1e9)\n@f16 z = h + m #!", "@f32 m = where(h > 0, 0.0, -6e4)\n@f16 z = h + m"),
    ("f16", "W180", "N20", "@f32 m = where(h > 0, h, -1e9)\n@f16 z = softmax(m) #!", "@f32 m = where(h > 0, h, -1e9)\n@f32 z = softmax(m)"),
    ("f16", "W180", "N20", "@f32 m = where(h > 0, h, -1e9)\n@f16 z = linear(m, 16) as q #!", "@f32 m = where(h > 0, h, -1e4)\n@f16 z = linear(m, 16) as q"),
    ("f16", "W180", "N20", "@f32 m = where(x[:, 0:4] > 0, x[:, 0:4], 1e6)\n@f16 z = linear(concat([h, m], axis = -1), 16) as q #!",
     "@f32 m = where(x[:, 0:4] > 0, x[:, 0:4], 1e4)\n@f16 z = linear(concat([h, m], axis = -1), 16) as q"),
    ("f16", "W180", "N20", "@f32 m = pad(h, axis = [1], before = [0], after = [4], value = -1e9)\n@f16 z = m * 0.5 #!",
     "@f32 m = pad(h, axis = [1], before = [0], after = [4], value = -1e3)\n@f16 z = m * 0.5"),
    ("f16", "W180", "N20", "@f32 m = (1 - cast(h > 0, f32)) * -1e9\n@f16 z = m + h #!", "@f32 m = (1 - cast(h > 0, f32)) * -1e4\n@f16 z = m + h"),
    ("f16", "W180", "N20", "m = reshape(where(mean(x) > 0, 0.0, -1e9), [1, 1])\nz = h + m #!", "m = reshape(where(mean(x) > 0, 0.0, -1e4), [1, 1])\nz = h + m"),
    ("f16", "W183", "N46", "@f32 e = exp(cast(range(16), f32))\n@f16 z = h * e #!", "@f32 e = exp(cast(range(16), f32) - 15)\n@f16 z = h * e"),
    ("f16", "W183", "N46", "t = cast(range(16), f32) ** 6\n@f16 z = h + t #!", "t = (cast(range(16), f32) / 16) ** 6\n@f16 z = h + t"),
    ("bf16", "W184", "N41", "e = exp(cast(range(100), f32)) #!\nz = h * mean(e)", "e = exp(cast(range(100), f32) - 99)\nz = h * mean(e)"),
    ("f16", "W183", "N46", "z = h\n@f32 s = sum(relu(h) + 9000, axis = -1)\n@f16 big = s * 1e-4 #!\nloss extra = mean(big)",
     "z = h\n@f32 s = sum(relu(h) + 9000, axis = -1)\n@f32 big = s * 1e-4\nloss extra = mean(big)"),
    ("f16", "W183", "N40", "z = h\n@f16 s = sum(relu(h) + 9000, axis = -1) #!\nloss extra = mean(s)", "z = h\ns = sum(relu(h) + 9000, axis = -1)\nloss extra = mean(s)"),
    ("bf16", "W181", "N45", "@f32 c = ones([batch, 8]) * 0.99999\n@bf16 q = linear(c, 16) as one #!\nz = h + q",
     "@f32 c = ones([batch, 8]) * 0.75\n@bf16 q = linear(c, 16) as one\nz = h + q"),
    ("f16", "W185", "N32", "@f32 d = relu(h) + 1e-8\n@f16 z = 1 / d #!", "@f32 d = relu(h) + 1e-4\n@f16 z = 1 / d"),
    ("f16", "W185", "N32", "@f32 v = relu(h) + 1e-8\n@f16 z = h / sqrt(v) #!", "@f32 v = relu(h) + 1e-4\n@f16 z = h / sqrt(v)"),
    ("f16", "W185", "N32", "@f32 v = h * h + 1e-8\n@f16 z = log(v) #!", "@f32 v = h * h + 1e-4\n@f16 z = log(v)"),
    ("bf16", "W187", "N41", "a = cast(range(16), f32) * 500\n@bf16 z = h + sin(a) #!", "a = cast(range(16), f32) / 16\n@bf16 z = h + sin(a)"),
    ("f16", "W186", "N13", "@f32 p = clamp(h, min = 0, max = 1)\n@f16 z = 0 - log(p) * h - log(1 - p) * h #!",
     "@f32 p = clamp(h, min = 0, max = 1)\n@f32 z = 0 - log(p) * h - log(1 - p) * h"),
]

with Folder(MODEL) as f:
    f.put("rows.csv", ROWS)
    for precision, code, rule, bad, good in HAZARDS:
        line = write(f, precision, bad)
        found = lint(f, 1)
        check(any(d["code"] == code and d["line"] == line and d["rule"] == rule for d in found), bad, found)
        check(all(d["what"] and (d["fix"] or d["kept_f32"]) for d in found), found)
        write(f, precision, good)
        found = lint(f, 0)
        check(not any(d["fix"] for d in found), "after the remedy", good, found)

    # the policy asks for what `@bf16` asks for above; where the compiler decides, it reads them in f32 and says so
    good = "p = linear(expand(range(512), [batch, 512]), 16) as pos\nz = h + p"
    write(f, "bf16", good)
    notes = lint(f, 0)
    check([(d["code"], d["rule"], d["value"], d["line"], d["fix"]) for d in notes] == [("W189", "N44", "pos", 4, None)], notes)
    found = lint(f, 1, "--set", 'policy."pos"=bf16')
    check([(d["code"], d["value"], d["line"]) for d in found] == [("W182", "pos", 4)], found)

    # A mask is a finding where the op that takes its literal would be f16 but for it. Where f16 gains nothing, the classes decide: both
    # sides of this `where` are literals, so it is f32 by its operands and so is the sum with it. Nothing of it is ever f16, and there is
    # nothing to say. Where the literal is a side beside an f16 value, the class would have taken f16, and it is told everywhere.
    for body, on_cpu in (("s = h + where(x[:, 0:1] > 0.5, 0.0, -1e9)\nz = softmax(s)", 0), ("z = softmax(where(h > 0, h, -1e9))", 1)):
        write(f, "f16", body)
        for target, status in (("cpu-amx", on_cpu), ("h200", 1)):
            found = lint(f, status, "--cost-target", target)
            check(len(found) == status and all(d["code"] == "W180" and d["line"] == 4 for d in found), target, body, found)
        if not on_cpu:
            table = [json.loads(line) for line in f.mpc("explain", "m.mpg", "--json", "--cost-target", "cpu-amx").out.splitlines()]
            forward = [v for v in table if v.get("value") in ("s", "z", "where")]
            check(len(forward) == 3 and all(v["stores"] == "f32" and v["reads"] in ("-", "f32") for v in forward), forward)

    # what is kept in f32 for its range is a note of lint and, once, of train
    write(f, "f16", "z = (sigmoid(h) + 9000.0) * 100")
    notes = lint(f, 0)
    check([(d["code"], d["rule"], d["value"], d["kept_f32"], d["fix"]) for d in notes] == [("W189", "N45", "z", True, None)], notes)
    told = f.mpc("train", "m.mpg", "--set", "on_nonfinite=skip", "--out", "run", status=None).err
    check(told.count("W189") == 1 and "`z` (m.mpg:4) is kept in f32: from 900000 to 900100, all beyond f16 (N45)" in told, told)
    write(f, "f16", "z = (sigmoid(h) + 9.0) * 100")
    check(not lint(f, 0) and "W189" not in f.mpc("train", "m.mpg", "--out", "run", "--overwrite").err)

    # one hazard is told once, however many views and reads come after it
    write(f, "bf16", "p = stack([cast(range(16), f32) * 41, cast(range(16), f32)], axis = 0)\n@bf16 q = p * 2\n@bf16 z = h + reshape(q, [32])[0:16]")
    found = lint(f, 1)
    check([(d["code"], d["value"], d["line"]) for d in found if d["fix"]] == [("W182", "q", 5)], found)
    write(f, "bf16", "g = linear(h, 512) as wide\n@bf16 p = g * range(512)\nq = concat([p, expand(cast(range(600), f32), [batch, 600])], axis = 1)\n@bf16 z = relu(q)")
    found = lint(f, 1)
    check([(d["code"], d["value"], d["line"]) for d in found if d["fix"]] == [("W182", "p", 5), ("W182", "z", 7)], found)

    # text, and the line it came from
    write(f, "f16", "z = where(h > 0, h, -1e9)")
    text = f.mpc("lint", "m.mpg", status=1).out
    for word in ("m.mpg:4:", "W180", "(N20)", "z = where(h > 0, h, -1e9)", "to change it:", "1 finding in f16"):
        check(word in text, word, text)
    check(f.mpc("lint", "m.mpg", "--precision", "f32", status=0).out.strip() == "m.mpg: 0 findings in f32")

    # a profile reads back, and keeps in f32 what f16 can't hold
    write(f, "f16", "b = h * 6e4\nz = b / 6e4")
    check(not lint(f, 0))
    f.mpc("profile", "m.mpg", "--steps", "3", "-o", "seen.txt")
    head, columns, *rows = f.get("seen.txt").decode().splitlines()
    check(head == "mpc-profile 1" and columns.split("\t")[0] == "value", head, columns)
    seen = {r.split("\t")[0]: r.split("\t") for r in rows}
    check({"x", "first", "b", "z", "ce"} <= set(seen), sorted(seen))
    check(int(seen["b"][1]) == 3 * 16 * 16, seen["b"])
    check(float(seen["b"][7]) > 65504 and sum(int(e.split(":")[1]) for e in seen["b"][8].split()) + int(seen["b"][2]) == 768, seen["b"])
    with_data = ("--profile-data", "seen.txt")
    page = json.loads(f.mpc("explain", "m.mpg", "b", "--json", *with_data).out)
    check(page["stores"] == "f32" and "profile saw" in page["why"], page)
    found = lint(f, 0, *with_data)
    check(any(d["value"] == "b" and d["kept_f32"] and d["fix"] is None for d in found), found)
    write(f, "f16", "@f16 b = h * 6e4\nz = b / 6e4")
    found = lint(f, 1, *with_data)
    check(any(d["code"] == "W183" and d["line"] == 4 for d in found), found)
    f.put("broken.txt", "mpc-profile 1\nvalue\nb\t1\tx\n")
    check("E155" in f.mpc("lint", "m.mpg", "--profile-data", "broken.txt", status=1).err)

    # the program's own models, where the low formats gain and where they don't: no finding, and no note either
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    for folder in ("examples", "bench"):
        for name in sorted(n for n in os.listdir(os.path.join(root, folder)) if n.endswith(".mpg")):
            for how in (("f32",), ("bf16",), ("f16",), ("bf16", "--cost-target", "h200"), ("f16", "--cost-target", "h200")):
                out = f.mpc("lint", os.path.join(root, folder, name), "--precision", *how, status=0).out
                check(out.strip().endswith(f"0 findings in {how[0]}") and out.count("\n") == 1, out)

finish()
