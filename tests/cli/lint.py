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
    f.put("m.mpg", MODEL.replace("PRECISION", precision).replace("HERE", body.replace("\n", "\n    ")))


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
]

with Folder(MODEL) as f:
    f.put("rows.csv", ROWS)
    for precision, code, rule, bad, good in HAZARDS:
        line = 4 + bad.split("#!")[0].count("\n")
        write(f, precision, bad)
        found = lint(f, 1)
        check(any(d["code"] == code and d["line"] == line and d["rule"] == rule for d in found), bad, found)
        check(all(d["fix"] and d["what"] for d in found), found)
        write(f, precision, good)
        found = lint(f, 0)
        check(not found, "after the remedy", good, found)

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

    # the program's own examples
    examples = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")
    for name in sorted(n for n in os.listdir(examples) if n.endswith(".mpg")):
        for precision in ("f32", "bf16", "f16"):
            out = f.mpc("lint", os.path.join(examples, name), "--precision", precision, status=0).out
            check(out.strip().endswith(f"0 findings in {precision}"), out)

finish()
