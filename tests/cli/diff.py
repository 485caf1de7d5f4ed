"""mpc diff-ir: graphs, models and assignments by the names of their values, whatever the order of lines; exit status 0, 1, 2."""
import json
import re

from support import MODEL, Folder, check, finish

LOW = MODEL.replace("precision = f32", "precision = bf16\n    solver = list")
POLICY = LOW + 'policy { "fc1" = f32 }\n'


def names(items):
    return {item["value"] for item in items}


with Folder(LOW) as f:
    def diff(*args, status=1):
        r = f.mpc("diff-ir", *args, "--json", status=status)
        return json.loads(r.out) if r.out else {}

    f.put("policy.mpg", POLICY)

    # a model against itself and against another solver's word
    same = diff("tiny.mpg", "tiny.mpg", status=0)
    check(same["equal"] and not same["changed"] and not same["added"] and not same["removed"], same)
    check("no difference" in f.mpc("diff-ir", "tiny.mpg", "tiny.mpg").out)
    d = diff("tiny.mpg", "policy.mpg")
    changed = {c["value"]: c for c in d["changed"]}
    check(not d["equal"] and not d["added"] and not d["removed"], d)
    check(changed["fc1"]["was"]["stores"] == "bf16" and changed["fc1"]["now"]["stores"] == "f32", changed["fc1"])
    check("fc2" not in changed and "ce" not in changed, changed)
    back = diff("policy.mpg", "tiny.mpg")
    check(names(back["changed"]) == names(d["changed"]), back)
    text = f.mpc("diff-ir", "tiny.mpg", "policy.mpg", status=1).out
    check("~ fc1 (linear)" in text and re.search(r"stores +bf16 -> f32", text), text)

    # what it costs, and the other way round
    for key in ("seconds", "casts", "bytes", "device"):
        check(key in d["cost"]["a"] and key in d["cost"]["b"], d["cost"])
    check(d["cost"]["a"] == back["cost"]["b"] and d["cost"]["b"] == back["cost"]["a"], d["cost"], back["cost"])
    check(d["cost"]["a"]["bytes"]["bf16"] > d["cost"]["b"]["bytes"].get("bf16", 0), d["cost"])
    check("modelled time" in text and "bytes in bf16" in text, text)

    # settings of B alone
    d = diff("tiny.mpg", "tiny.mpg", "--other", "precision=f32")
    check("bf16" not in d["cost"]["b"]["bytes"] and d["cost"]["b"]["casts"] == 0, d["cost"])
    d = diff("tiny.mpg", "tiny.mpg", "--other", 'policy."fc1"=f32')
    check(names(d["changed"]) == set(changed), d)

    # text IR: values that moved are equal, added and removed ones are named
    a = "mpir 1\ngraph @g(%x: f32[4,8]) {\n  %a = relu(%x) : f32[4,8]\n  %b = exp(%x) : f32[4,8]\n  %c = add(%a, %b) : f32[4,8]\n  return(\"y\": %c)\n}\n"
    lines = a.split("\n")
    f.put("a.mpir", a)
    f.put("moved.mpir", "\n".join(lines[:2] + [lines[3], lines[2]] + lines[4:]))
    f.put("other.mpir", a.replace("%b = exp(%x)", "%e = tanh(%x)").replace("(%a, %b)", "(%e, %a)"))
    check(diff("a.mpir", "moved.mpir", status=0)["equal"])
    d = diff("a.mpir", "other.mpir")
    check(names(d["removed"]) == {"b"} and names(d["added"]) == {"e"} and names(d["changed"]) == {"c"}, d)
    check(d["changed"][0]["was"] == {"operands": "a, b"} and d["changed"][0]["now"] == {"operands": "e, a"}, d)
    check("cost" not in d, d)

    # numbered constants are paired by what they are: another one before them moves no numbers and changes nothing else
    one = "mpir 1\ngraph @g(%x: f32[4]) {\n  %const = const() {value=2.0} : f32[]\n  %b = mul(%x, %const) : f32[4]\n  return(\"y\": %b)\n}\n"
    two = one.replace("%const", "%const_1").replace("  %const_1 = ", "  %const = const() {value=0.5} : f32[]\n  %a = add(%x, %const) : f32[4]\n  %const_1 = ", 1)
    f.put("one.mpir", one)
    f.put("two.mpir", two.replace('"y": %b', '"y": %b, "z": %a'))
    f.put("three.mpir", one.replace("2.0", "3.0"))
    d = diff("one.mpir", "two.mpir")
    check(names(d["added"]) == {"const 0.5 f32[]", "a", "output z"} and not d["changed"] and not d["removed"], d)
    d = diff("one.mpir", "three.mpir")
    check(names(d["added"]) == {"const 3.0 f32[]"} and names(d["removed"]) == {"const 2.0 f32[]"}, d)
    check({c["value"]: c["now"] for c in d["changed"]} == {"b": {"operands": "x, const 3.0 f32[]"}}, d)
    decided = f.mpc("opt", "a.mpir", "--passes", "autocast{format=bf16 solver=list}").out
    f.put("decided.mpir", decided)
    d = diff("a.mpir", "decided.mpir")
    check({c["value"] for c in d["changed"]} == {"a", "b", "c"} and "reads" not in d["changed"][0]["was"], d)
    check("cost" in diff("decided.mpir", "decided.mpir", status=0))

    # assignments, whose reasons and order don't count
    header = "mpc assignment 1\n# value\top\treads\tcomputes\taccumulates\tstores\twhy\n"
    one, two = "a\trelu\t-\tf32\t-\tbf16\tbecause\n", "b\tlinear\tbf16\tf32\tf32\tbf16\tbecause\n"
    f.put("1.txt", header + one + two)
    f.put("2.txt", header + two.replace("because", "for another reason") + one)
    f.put("3.txt", header + one.replace("bf16", "f32"))
    check(diff("1.txt", "2.txt", status=0)["equal"])
    d = diff("1.txt", "3.txt")
    check(names(d["changed"]) == {"a"} and names(d["removed"]) == {"b"} and d["changed"][0]["was"] == {"stores": "bf16"}, d)

    # what can't be compared
    for args, code in ((("1.txt", "a.mpir"), "E367"), (("none.txt", "a.mpir"), "E210"), (("a.mpir", "tiny.mpg.none"), "E210")):
        r = f.mpc("diff-ir", *args, status=2)
        check(code in r.err, args, r.err)
    f.put("broken.txt", header + "a\trelu\n")
    check("E110" in f.mpc("diff-ir", "1.txt", "broken.txt", status=2).err)
    f.put("broken.mpir", "mpir 1\ngraph @g(")
    check("E5" in f.mpc("diff-ir", "a.mpir", "broken.mpir", status=2).err)
    check("usage" in f.mpc("diff-ir", "a.mpir", status=2).err)

finish()
