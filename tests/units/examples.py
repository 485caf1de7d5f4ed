"""Scale units in every example: after each pass the verifier finds none mixed, with a static and a moving loss scale, and dump-ir shows
them; and the formats of a decision, and of what is stored, are read from dump-ir, from explain and from the assignment, and agree."""
import glob
import json
import os
import subprocess
import sys
import tempfile

MPC, ROOT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
failures = checks = 0


def check(condition, *what):
    global failures, checks
    checks += 1
    if not condition:
        failures += 1
        print(f"line {sys._getframe(1).f_lineno}: failed", *what, file=sys.stderr)


def mpc(*args):
    r = subprocess.run([MPC, *args], capture_output=True, text=True, cwd=ROOT, timeout=120)
    check(r.returncode == 0, args, r.stderr[-500:])
    return r.stdout


def units(graph):
    return {r["name"]: r["unit"] for n in graph["nodes"] for r in n["results"]}


def dump(model, stage, *more):
    return json.loads(mpc("dump-ir", model, "--stage", stage, "--format", "json", "--device", "ref", "--verify-each", *more))


def check_units(model):
    for scale in ("static(scale = 1024)", "dynamic(init = 1024)"):
        settings = ("--precision", "f16", "--set", f"loss_scale={scale}", "--units")
        graph = dump(model, "autocast", *settings)
        seen = units(graph)
        check(seen["scaler.scale"] == "S" and seen["scaler.inverse"] == "S^-1" and seen["loss.seed.scaled"] == "S^1", model, scale)
        unscaled = [name for name in seen if name.endswith("/unscaled")]
        check(unscaled and all(seen[name] == "1" for name in unscaled), model, scale)
        check(sum(unit == "S^1" for unit in seen.values()) >= len(unscaled), model, scale)
        check(set(seen.values()) <= {"1", "any", "S", "S^1", "S^-1"}, model, scale, set(seen.values()))
        final = dump(model, "final", *settings)  # verified after every pass on the way
        if scale.startswith("dynamic"):
            check(any(unit == "S^1" for unit in units(final).values()), model)
        else:
            check(all("unit" not in r for n in final["nodes"] for r in n["results"]), model)  # a literal, folded into others


def check_formats(model):
    graph = dump(model, "decided", "--precision", "bf16")
    told = {}
    for line in mpc("explain", model, "--precision", "bf16", "--device", "ref", "--json").splitlines():
        if line.startswith("{"):
            told[json.loads(line)["value"]] = json.loads(line)
    decided = [n for n in graph["nodes"] if "decision" in n]
    check(len(decided) > 5, model, len(decided))
    for n in decided:
        other = told.get(n["results"][0]["name"], {})
        for key in ("reads", "computes", "accumulates"):
            check(n["decision"][key] == other.get(key), model, n["results"][0]["name"], key)
        stored = n["results"][0]["stored"]
        check(stored == n["decision"]["stores"] or stored == n["results"][0]["type"].split("[")[0], model, n)
        for r in n["results"][1:]:  # statistics and log-sum-exps are f32 whatever the node stores
            if n["op"] in ("layer_norm", "batch_norm", "cross_entropy", "attention"):
                check(r["stored"] == "f32", model, r)


def check_text(model):
    """The text says which values aren't stored as their node says, and is a graph that `mpc opt` reads with all its formats."""
    graph = dump(model, "decided", "--precision", "bf16")
    text = mpc("dump-ir", model, "--stage", "decided", "--precision", "bf16", "--device", "ref")
    decided = [(n["decision"]["stores"], r) for n in graph["nodes"] if "decision" in n for r in n["results"]]
    apart = [r for stores, r in decided if stores not in ("-", r["stored"]) and r["stored"] in ("f32", "bf16")]
    for r in apart:
        check(f"# {r['name']} is stored in {r['stored']}, not" in text, model, r)
    check(text.count("is stored in") == len(apart), model, len(apart))
    with tempfile.NamedTemporaryFile("w", suffix=".mpir") as f:
        f.write(text)
        f.flush()
        again = mpc("opt", f.name)
    lines = [[line.split(" assign(")[1].split(")")[0] for line in t.splitlines() if " assign(" in line] for t in (text, again)]
    check(lines[0] and lines[0] == lines[1], model)
    return len(apart)


apart = 0
for path in sorted(glob.glob(os.path.join(ROOT, "examples", "**", "*.mpg"), recursive=True)):
    model = os.path.relpath(path, ROOT)
    if "policies" in model or "train {" not in open(path, encoding="utf-8").read():
        continue
    check_units(model)
    check_formats(model)
    apart += check_text(model)
check(apart > 0)
print(f"{checks} checks, {failures} failed", file=sys.stderr)
sys.exit(1 if failures or checks < 50 else 0)
