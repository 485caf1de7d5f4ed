"""What the compiler says about a model: pages of single values whose advice works, listings as JSON, bytes that are those
of the loaded step."""
import json

from support import MODEL, Folder, check, finish


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


with Folder(MODEL.replace("precision = f32", "precision = bf16\n    solver = list")) as f:
    text = f.mpc("explain", "tiny.mpg", "fc1").out
    for word in ("made by      linear(x, fc1.weight, fc1.bias)", "written at   tiny.mpg:3  h = relu(linear(x, 8) as fc1)", "reads        bf16",
                 "accumulates  f32", "stores       bf16", "(N01)", "h (relu)", "`@f32` before the statement of line 3", 'policy { "fc1" = f32 }'):
        check(word in text, word, text)
    page = json.loads(f.mpc("explain", "tiny.mpg", "fc1", "--json").out)
    check(page["stores"] == "bf16" and page["line"] == 3 and page["readers"] == ["h (relu)"], page)
    check("next value of" in f.mpc("explain", "tiny.mpg", "fc1.weight.next").out)
    check("fed from columns[4]" in f.mpc("explain", "tiny.mpg", "y").out)
    # several values, one that isn't there
    check(len(lines(f.mpc("explain", "tiny.mpg", "fc*", "--json").out)) > 1)
    r = f.mpc("explain", "tiny.mpg", "fc3", status=1)
    check("E361" in r.err and "`fc1`" in r.err and "`fc2`" in r.err, r.err)
    r = f.mpc("explain", "tiny.mpg", "logits", status=1)
    check("E361" in r.err and "by its label it is `fc2`" in r.err, r.err)

    # advice for a value changes its format
    values = lines(f.mpc("explain", "tiny.mpg", "--json").out)
    tried = 0
    for v in values:
        change = json.loads(f.mpc("explain", "tiny.mpg", v["value"], "--json").out)["change"]
        if "policy" not in change:
            continue
        policy = change[change.index("policy"):]
        f.put("other.mpg", MODEL.replace("precision = f32", "precision = bf16\n    solver = list") + policy + "\n")
        after = json.loads(f.mpc("explain", "other.mpg", v["value"], "--json").out)
        check(after["stores"] == policy.split()[-2] and "policy" in after["why"], v["value"], policy, after)
        tried += 1
    check(tried >= 3, tried)

    # the other format: its price, and what its type forbids
    page = json.loads(f.mpc("explain", "tiny.mpg", "fc1", "--json", "--solver", "list").out)
    check(page["alternative"] == "f32" and page["blocked_by"] == "rule" and page["rule"] == "N01", page)
    check(isinstance(page["price"], float) and page["step"] > 0 and page["target"], page)
    page = json.loads(f.mpc("explain", "tiny.mpg", "ce", "--json").out)
    check(page["alternative"] == "bf16" and page["price"] is None and page["change"].startswith("nothing"), page)
    text = f.mpc("explain", "tiny.mpg", "h", "--solver", "list").out
    check("instead      f32: " in text and "decided by   fc1 (linear), which stores bf16: N43" in text, text)

    # listings
    graph = json.loads(f.mpc("dump-ir", "tiny.mpg", "--format", "json").out)
    ops = [n["op"] for n in graph["nodes"]]
    check(ops.count("linear") == 2 and "cast" in ops and "loss" in graph["outputs"], ops)
    check(json.loads(f.mpc("dump-ir", "tiny.mpg", "--json").out) == graph)
    dot = f.mpc("dump-ir", "tiny.mpg", "--format", "dot").out
    check(dot.startswith("digraph") and dot.count("{") == dot.count("}") and dot.count("[label=") >= len(graph["nodes"]), dot[:200])
    for stage in ("parsed", "grad", "autocast", "lowered", "fused", "final"):
        check("graph @" in f.mpc("dump-ir", "tiny.mpg", "--stage", stage).out, stage)
    check("why(" in f.mpc("dump-ir", "tiny.mpg", "--reasons").out and "why(" not in f.mpc("dump-ir", "tiny.mpg").out)
    check(json.loads(f.mpc("info", "--json").out)["devices"] == ["cpu", "cuda", "ref"])
    check({"name", "kind", "class", "devices", "attributes"} <= set(json.loads(f.mpc("ops", "matmul", "--json").out)))
    check("grad," in json.loads(f.mpc("passes", "@train", "--json").out)["passes"])
    check(json.loads(f.mpc("passes", "autocast", "--json").out)["options"])
    check("mpc_" in f.mpc("compile", "tiny.mpg").out)

    # bytes said beforehand are those of the step that was loaded
    said = json.loads(f.mpc("explain", "tiny.mpg", "--memory", "--json", "--solver", "list", device="cpu").out)
    figures = lines(f.mpc("train", "tiny.mpg", "--steps", "2", "--out", "run", "--json", "--solver", "list", device="cpu").out)
    check([e["split"] for e in figures] == ["valid", "test"] and figures[1]["n"] == 40 and 0 <= figures[1]["accuracy"] <= 1, figures)
    check(lines(f.mpc("eval", "tiny.mpg", "--from", "run", "--json", device="cpu").out) == figures[1:])
    loaded = json.loads(f.get("run", "profile.json"))
    for key in ("state_bytes", "arena_bytes", "arena_lower_bound"):
        check(said[key] == loaded[key] > 0, key, said, loaded)
    states = sum(sum(said["classes"][c].values()) for c in ("masters", "moments", "low copies", "statistics", "accumulators", "control"))
    check(states <= said["state_bytes"] <= states + 64 * 64, states, said)
    check(said["classes"]["masters"]["f32"] == 4 * (4 * 8 + 8 + 8 * 3 + 3), said)
    check(said["classes"]["low copies"]["bf16"] == 2 * (4 * 8 + 8 * 3), said)

finish()
