"""What explain tells of a value is true: the advice turns it, the price is what the whole step costs more then, who decides is named as what it is. Held on
values of the examples, drawn by a seed, under solvers and targets; then on the models of single rules and words."""
import json
import os
import random
import re
import shutil

from support import MODEL, Folder, check, finish

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")
KINDS = {"type", "class", "solver", "constant", "agree", "user", "range", "gap", "word", "budget"}  # reasons without a number
MOST = 4  # values of a model that there is something to change about, and as many others
advised = {"policy": 0, "@": 0, "place": 0, "nothing": 0}


def page(f, model, value, *options):
    return json.loads(f.mpc("explain", model, value, "--json", *options).out)


def decision(p):
    return p["reads"] if p["accumulates"] != "-" and p["reads"] != "-" else p["stores"]


def with_line(text, number, change):
    lines = text.split("\n")
    lines[number - 1] = change(lines[number - 1])
    return "\n".join(lines)


def follow(f, model, p, *options):
    """The page of the value once the advice is followed; None: there is none to follow."""
    at = re.match(r"`(@\w+)` before the statement of line (\d+)", p["change"])
    place = re.match(r"`(@\w+)` in the place of `(@\w+)` in ([^ ]*):(\d+)", p["change"])
    policy = re.search(r'policy \{ "(.*)" = (\w+) \}$', p["change"]) or re.search(r"""--set 'policy."(.*)"=(\w+)'$""", p["change"])
    text = f.get(place[3] if place else model).decode()
    after = None
    if at:
        advised["@"] += 1
        f.put("edited.mpg", with_line(text, int(at[2]), lambda line: re.sub(r"^(\s*)", rf"\g<1>{at[1]} ", line, count=1)))
        after = page(f, "edited.mpg", p["value"], *options)
        check(decision(after) == p["alternative"], model, options, "following", at[0], p, after)
    if place:
        advised["place"] += 1
        f.put(place[3], with_line(text, int(place[4]), lambda line: line.replace(place[2], place[1], 1)))
        after = page(f, model, p["value"], *options)
        f.put(place[3], text)
    if policy:
        advised["policy"] += 1
        after = page(f, model, p["value"], *options, "--set", f'policy."{policy[1]}"={policy[2]}')
    return after


def check_page(f, model, p, *options):
    told = (model, options, p["value"], p)
    check(p["rule"] is None or re.fullmatch(r"N\d\d", p["rule"]) or p["rule"] in KINDS, *told)
    check(p["blocked_by"] in ("user", "rule", "value", "price"), *told)
    worded = re.match("user: |prec: |policy |precision ", p["why"]) is not None and not p["change"].startswith("nothing: its type")
    check((p["blocked_by"] == "user") == (p.get("word") is not None) == worded, *told)
    check(p["blocked_by"] != "rule" or p["rule"], *told)
    check((p["price"] is None) == (p.get("price_of") is None), *told)
    weighed = "list" not in options and model != "linear.mpg"  # whose precision is f32
    if weighed and p["price"] is not None and p["blocked_by"] != "user":
        check(p["price"] > -1e-12 or p["rule"], "less for nothing", *told)
        check(p.get("price_of") != "plan" or p["price"] > -1e-12, *told)
        check(p.get("price_of") != "alone", *told)
    if "terms" in p and "--formats" not in options:
        here = p["terms"]["f32" if decision(p) == "f32" else "low"]
        check(here is not None and here < 1e-12, "the format that it has is the dearer one", *told)
    after = follow(f, model, p, *options)
    if after is None:
        advised["nothing"] += 1
        check(p.get("price_of") != "word", *told)
        check(re.match("nothing: |a name of its own", p["change"]), *told)
        return
    check(decision(after) == p["alternative"], "no turn", *told, after)
    check(p.get("price_of") == "word" and abs(after["step"] - p["step"] - p["price"]) < 1e-12, "price", *told, after["step"])


def check_text(f, model, p, *options):
    """Text and JSON tell the same."""
    text = f.mpc("explain", model, p["value"], *options).out
    decided = {"user": f"the user: {p.get('word')}", "rule": f"rule {p['rule']}" if p["rule"] not in KINDS else "", "price": "its own price"}
    who = decided.get(p["blocked_by"], "".join(b["value"] for b in p["blockers"][:1]) + " (")
    check(f"decided by   {who}" in text, model, options, text, p)
    check("never" in text if p["price"] is None else f"{p['alternative']}: {1e6 * p['price']:+.3f} us" in text, model, options, text, p)
    check(f"to change it {p['change']}\n" in text, model, options, text, p)


def check_picture(f, model, listed, *options):
    """So does the picture, whose values are typed after casts."""
    stored = {v["value"]: v["stores"] for v in listed}
    seen = 0
    for name, format in re.findall(r'label="([^"\\]+)\\n\w+\\n(\w+)\[', f.mpc("explain", model, "--dot", *options).out):
        seen += name in stored
        check(name not in stored or stored[name] == format, model, options, name, format, stored.get(name))
    check(seen > 10, model, options, seen)


def draw(f, model, *options):
    listed = [json.loads(line) for line in f.mpc("explain", model, "--json", *options).out.splitlines()]
    check_picture(f, model, listed, *options)
    values = [v["value"] for v in listed if v["op"] != "where" and v["computes"] != "-"]
    random.Random(model + str(options)).shuffle(values)
    left = {True: MOST, False: MOST}
    for value in values:
        p = page(f, model, value, *options)
        kind = not p["change"].startswith("nothing")
        if "alternative" not in p or left[kind] == 0:
            continue
        left[kind] -= 1
        check_page(f, model, p, *options)
        check_text(f, model, p, *options)
        if left == {True: 0, False: 0}:
            break


REGION = """model m(x: f32[batch, 8], y: i32[batch]) {
    h = linear(x, 16) as a
    @bf16 r = relu(h)
    @f32 { g = linear(r, 16) as b
        q = gelu(g) }
    loss ce = cross_entropy(linear(q, 3) as head, y)
}
data {
    train = csv("pts.csv")
    input x = columns[0:8]
    input y = columns[8]
}
train {
    precision = bf16
    batch = 16
    length = 2 epochs
}
policy {
    "q" = bf16
    "a" = bf16
}
"""
POSITIONS = """model m(x: f32[batch, 8], y: i32[batch]) {
    h = linear(x, 512) as a
    p = linear(expand(range(512), [batch, 512]), 16) as posproj
    loss ce = cross_entropy(linear(h, 3) as head, y)
    loss q = mean(p * p)
}
""" + REGION[REGION.index("data {"):REGION.index("policy {")]

with Folder() as f:
    # a region is the nearest word: no policy turns what stands in it, and its line is told
    f.put("region.mpg", REGION)
    for value in ("q", "b", "d.b", "d.r"):
        p = page(f, "region.mpg", value)
        check(p["blocked_by"] == "user" and p.get("word") == "@f32 region.mpg:4" and p["why"] == "user: @f32 region.mpg:4", p)
        check(p["change"] == "`@bf16` in the place of `@f32` in region.mpg:4, which wins over every policy", p)
        check_page(f, "region.mpg", p)
        check_text(f, "region.mpg", p)
    p = page(f, "region.mpg", "r")
    check(p.get("word") == "@bf16 region.mpg:3" and p["change"].startswith("`@f32` in the place of `@bf16` in region.mpg:3"), p)
    check_page(f, "region.mpg", p)
    p = page(f, "region.mpg", "a")
    check(p.get("word") == "policy region.mpg:20" and p["change"] == 'after region.mpg:20: policy { "a" = f32 }', p)
    check_page(f, "region.mpg", p)

    # a word of the command line comes after the file's, an agreement holds all its members, and a used file has words of its own
    p = page(f, "region.mpg", "head", "--set", "policy.linear=bf16")
    check(p.get("word") == "policy --set policy.linear=bf16" and p["change"] == "after the command line's: --set 'policy.\"head\"=f32'", p)
    check_page(f, "region.mpg", p, "--set", "policy.linear=bf16")
    f.put("agree.mpg", REGION.replace('    "q" = bf16\n', '    agree = ["a", "head"]\n'))
    p = page(f, "agree.mpg", "head")
    check(p["blocked_by"] == "user" and p["word"].startswith("policy agree.mpg:19: agree"), p)
    check(p["price"] is None and p["change"].startswith("nothing: ") and "[E112]" in p["change"], p)
    f.put("block.mpg", "block fc(x: [n, c]) {\n    @f32 {\n        y = linear(x, 16) as f\n    }\n    return relu(y)\n}\n")
    f.put("user.mpg", 'use "block.mpg"\n' + REGION.replace("gelu(g)", "gelu(fc(g) as k)").replace('    "q" = bf16\n', ""))
    p = page(f, "user.mpg", "k.f")
    check(p.get("word") == "@f32 block.mpg:2" and p["change"].startswith("`@bf16` in the place of `@f32` in block.mpg:2"), p)
    check_page(f, "user.mpg", p)

    # positions past what the format counts exactly: the rule is named by both solvers, and costs decide nothing there
    f.put("positions.mpg", POSITIONS)
    for options in (("--cost-target", "h200"), ("--solver", "list"), ("--cost-target", "h200", "--precision", "f16")):
        p = page(f, "positions.mpg", "posproj", *options)
        rule = None if "f16" in options else "N44"
        check(("N44" in p["why"]) == (rule == "N44") and (p["rule"] == "N44") == (rule == "N44"), options, p)
        check(not rule or (decision(p) == "f32" and p["blocked_by"] == "rule" and (p.get("breaks") or {}).get("rule") == "N44"), options, p)
        check_page(f, "positions.mpg", p, *options)
        check_text(f, "positions.mpg", p, *options)
    p = page(f, "positions.mpg", "posproj", "--cost-target", "h200", "--formats", "f16,bf16")
    check(decision(p) == "f16" and "can't be bf16 (N44)" in p["why"], p)
    p = page(f, "positions.mpg", "a", "--cost-target", "h200")
    check(p["blocked_by"] == "price" and p["price"] > 1e-6, p)
    check_page(f, "positions.mpg", p, "--cost-target", "h200")

    mincut, gpu, both, listed = (), ("--cost-target", "h200"), ("--formats", "f16,bf16", "--cost-target", "h200"), ("--solver", "list")
    for name, ways in (("linear", (mincut,)), ("digits", (mincut, listed)), ("mlp", (mincut, gpu, both)), ("gpt", (mincut, gpu)), ("moe", (mincut, gpu, listed)), ("resnet", (mincut,))):
        shutil.copy(os.path.join(EXAMPLES, name + ".mpg"), f.at(name + ".mpg"))
        for options in ways:
            draw(f, name + ".mpg", *options)
    p = page(f, "gpt.mpg", "transpose")
    check(p["rule"] == "N70" and p["price"] is None and p["change"].startswith("nothing"), p)
    p = page(f, "gpt.mpg", "layer.3.mlp.gelu")
    check(p["blocked_by"] == "value" and p["price"] > 0, p)
    check_page(f, "gpt.mpg", p)
with Folder(MODEL.replace("precision = f32", "precision = bf16")) as f:
    # under a loss budget what is priced is this op alone, and rounding is told as what decides
    for budget, who in (("1", "price"), ("1e-12", "rule")):
        p = json.loads(f.mpc("explain", "tiny.mpg", "fc2", "--loss-budget", budget, "--json", "--cost-target", "h200").out.splitlines()[-1])
        check(p["price_of"] == "alone" and p["blocked_by"] == who and p["rule"] == ("budget" if who == "rule" else None), p)
        check(p["change"].endswith('policy { "fc2" = ' + p["alternative"] + " }"), p)
check(all(advised[way] >= 5 for way in advised), advised)
finish()
