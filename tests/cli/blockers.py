"""What stands in a value's way, put the other way, turns the value: on the examples and on random models, under both solvers. (What else explain tells
is held by advice.py.)"""
import json
import os
import random
import shutil

from support import Folder, check, finish

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")
MOST = 3  # values of a model
tried = {}


def random_model(rng):
    """Matmuls, elementwise ops, norms and joins over values of one shape; what nothing reads is added up at the end."""
    body, values, unread = [], ["x"], []
    for i in range(rng.randrange(6, 12)):
        a, b = rng.choice(values[-3:]), rng.choice(values)
        body.append(f"    v{i} = " + rng.choice([f"linear({a}, 64) as v{i}", f"relu({a})", f"{a} + {b}", f"{a} * {b}", f"tanh({a})", f"softmax({a})",
                                                 f"layer_norm({a})", f"gelu({a})", f"maximum({a}, {b})"]))
        words = body[-1].split("=", 1)[1]
        unread = [u for u in unread if u not in words.replace("(", " ").replace(",", " ").replace(")", " ").split()] + [f"v{i}"]
        values.append(f"v{i}")
    return ("model m(x: f32[batch, 64], y: f32[batch, 64]) {\n" + "\n".join(body) + f"\n    z = linear({' + '.join(unread)}, 64) as head\n    loss l = mse(z, y)\n}}\n"
            'data {\n    train = csv("t.csv")\n    input x = columns[0:64]\n    input y = columns[64:128]\n}\ntrain {\n    precision = bf16\n    batch = 2048\n}\n')


def page(f, model, value, *options):
    return json.loads(f.mpc("explain", model, value, "--json", *options).out)


def decision(p):
    return p["reads"] if p["accumulates"] != "-" and p["reads"] != "-" else p["stores"]


def try_model(f, model, *options):
    listed = [json.loads(line) for line in f.mpc("explain", model, "--json", *options).out.splitlines()]
    rng = random.Random(7)
    rng.shuffle(listed)
    done = 0
    for v in listed:
        if done == MOST:
            break
        if ":" in v["value"] or v["value"].startswith("d."):
            continue
        p = page(f, model, v["value"], *options)
        if p.get("blocked_by") != "value" or p["price"] is None:
            continue
        pages = [page(f, model, b["value"], *options) for b in p["blockers"] if b["op"] != "input"]
        words = [b["value"] for b in pages if f'"{b["value"]}" = ' in b["change"]]
        if not words or len(words) != len(p["blockers"]):
            continue  # a blocker that no word can change: an input, a parameter
        low = [decision(b) != "f32" for b in pages]
        sets = [word for name, is_low in zip(words, low) for word in ("--set", f'policy."{name}"={"f32" if is_low else "bf16"}')]
        after = page(f, model, v["value"], *options, *sets)
        check(decision(after) == p["alternative"], model, options, v["value"], p, after)
        done += 1
    tried[options] = tried.get(options, 0) + done


with Folder() as f:
    solvers = (("--solver", "list"), ("--solver", "mincut", "--device", "cuda"))
    for options in solvers:
        for name in ("digits.mpg", "mlp.mpg", "gpt.mpg"):
            if os.path.exists(os.path.join(EXAMPLES, name)):
                shutil.copy(os.path.join(EXAMPLES, name), f.at(name))
                try_model(f, name, *options)
        for seed in range(5):
            f.put("random.mpg", random_model(random.Random(seed)))
            try_model(f, "random.mpg", *options)
    check(all(tried[options] >= 10 for options in solvers), tried)
finish()
