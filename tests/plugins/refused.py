"""A plugin with a fault: one clear message, exit status 1, and nothing of it is there. Faults that show only when a callback runs are reported
in its name and change nothing either."""
import os
import re
import tempfile

from support import BUILT, MPC, ROOT, check, mpc, result

GRAPH = """mpir 1
graph @g(%x: f32[8,8]) {
  %two = const() {value=2} : f32[]
  %y = mul(%x, %two) : f32[8,8]
  return("y": %y)
}
"""
# case: code and a part of the message
AT_LOAD = {
    "symbol": ("E370", "it has no symbol mpc_plugin_query"),
    "abi": ("E371", "was compiled for plugin interface 2, this mpc has 1"),
    "size": ("E371", "the table of a plugin has"),
    "api_size": ("E371", "the table of a list of functions has"),
    "null": ("E371", "doesn't know plugin interface 1"),
    "row_size": ("E371", "the table of a pass has"),
    "name": ("E372", "pass `Faulty pass`: a name has small letters"),
    "taken": ("E372", "pass `fold`: the name is taken"),
    "twice": ("E372", "pass `good`: the name is taken"),
    "no_run": ("E372", "no function `run`"),
    "words": ("E372", "kinds int, float, bool, str"),
    "kernel": ("E372", "an ewise op has a `kernel`"),
    "shape_like": ("E372", "lacks an attribute that the rule of `shape_like` reads"),
    "attrs": ("E372", "op `faulty_op`: its attributes can't be read"),
    "format": ("E372", "format `wide`: 2 to 8 exponent bits"),
    "room": ("E372", "brings 5 formats, and there is room for 4"),
    "late": ("E150", "cost model `half`: the device profile has no bandwidth"),
}
# case: pipeline, code, part of the message
AT_WORK = {
    "wrong_node": ("faulty", "E374", "pass `faulty` (plugin): 1000 is no node here"),
    "left_out": ("faulty", "E374", "`y` reads `two`, which was neither copied nor replaced"),
    "open_nodes": ("autocast{format=bf16 solver=lazy}", "E374", "solver `lazy` (plugin): `y` (mul) was left undecided"),
    "report": ("faulty", "E373", "pass `faulty` (plugin): no more than 0 are allowed"),
}


def bad(case):
    return ["--load-plugin", os.path.join(BUILT, "bad", f"bad_{case}.so")]


def clean(r, case):
    check(r.returncode == 1, case, "exit status", r.returncode, r.stderr)
    check("Sanitizer" not in r.stderr, case, r.stderr)


with tempfile.TemporaryDirectory(prefix="mpc-plugins-") as folder:
    graph = os.path.join(folder, "g.mpir")
    with open(graph, "w", encoding="utf-8") as f:
        f.write(GRAPH)
    for case, (code, text) in AT_LOAD.items():
        for words in (["passes"], ["ops"], ["opt", graph, "--passes", "good"], ["dump-ir", os.path.join(ROOT, "examples", "linear.mpg")]):
            r = mpc(*words, *bad(case))
            clean(r, case)
            check(code in r.stderr and text in r.stderr, case, words, "says", r.stderr)
            check("good" not in r.stdout and "faulty" not in r.stdout, case, "is half loaded")
            check(len(re.findall(r"^error", r.stderr, re.M)) <= 2, case, "says too much:", r.stderr)
    for case, (passes, code, text) in AT_WORK.items():
        r = mpc("opt", graph, "--passes", passes, *bad(case))
        clean(r, case)
        check(code in r.stderr and text in r.stderr, case, "says", r.stderr)
        check(r.stdout == "", case, "prints a graph")
    r = mpc("opt", graph, "--passes", "faulty", *bad("report"))
    check("W373" in r.stderr and "the graph has 2 nodes" in r.stderr and "said twice" not in r.stderr, r.stderr)

    with open(graph, "w", encoding="utf-8") as f:
        f.write('mpir 1\ngraph @g(%x: f32[8]) {\n  %y = faulty_op(%x) : f32[1]\n  return("y": %y)\n}\n')
    r = mpc("opt", graph, *bad("bad_shape"))
    clean(r, "bad_shape")
    check("wants a matrix, not rank 1" in r.stderr, r.stderr)

    r = mpc("passes", "--load-plugin", os.path.join(folder, "absent.so"))
    clean(r, "absent")
    check("E370" in r.stderr and "absent.so" in r.stderr, r.stderr)
    r = mpc("passes", "--load-plugin", graph)
    clean(r, "no shared object")
    check("E370" in r.stderr, r.stderr)
    twice = bad("bad_shape") + bad("bad_shape")
    r = mpc("passes", *twice)
    clean(r, "one plugin twice")
    check("the name is taken" in r.stderr, r.stderr)
result()
