"""--check-nonfinite names the first value that isn't finite, its op, line and operands, on every device; it lets through what the
loss scale answers and what the model writes itself, and changes no bit."""
import re
import struct

from support import DEVICE, Folder, check, final_checkpoint, read_safetensors, rows, run_all

MODEL = """
model plant(x: f32[batch, 4], y: i32[batch]) {{
    {lines}
    logits = linear(h, 3) as head
    loss ce = cross_entropy(logits, y)
    metric accuracy = accuracy(logits, y)
}}
data {{
    train = csv("plant.csv")
    input x = columns[0:4]
    input y = columns[4]
}}
train {{
    precision  = f32
    optimizer  = sgd(lr = 1e-2)
    batch      = 16
    length     = 4 steps
    {settings}
}}
"""


def plant(f, lines, settings="", data=None):
    """Data whose third batch, in whatever order, is no different from the others, but for one row of zeros."""
    f.put("plant.csv", data or rows(63, 3) + "0,0,0,0,1\n")
    f.put("plant.mpg", MODEL.format(lines="\n    ".join(lines), settings=settings))


def found(f, *args, **more):
    r = f.mpc("train", "plant.mpg", "--out", "run", "--overwrite", "--check-nonfinite", *args, **{"status": 3, **more})
    check("E380" in r.err, r.err)
    return r.err


def log_of_zero():
    with Folder() as f:
        plant(f, ["a = abs(x)", "l = log(a)", "h = linear(l * 2.0 + 1.0, 8) as fc"])
        err = found(f)
        check(re.search("`l` is not finite: log gives [45] infinite of 64", err) and "plant.mpg:4:" in err, err)
        check("f32[16,4]" in err and "-inf at element" in err, err)
        check("it reads `a`: f32[16,4], from 0 to" in err and "not finite: none" in err, err)
        end = f.log("run")[-2:]
        check(end[0]["what"] == "nonfinite" and end[0]["place"].startswith("plant.mpg:4:") and "log gives" in end[0]["first"], end)
        check(end[1]["reason"] == "nonfinite" and end[1]["step"] == end[0]["step"] - 1, end)


def slope_of_logarithm_near_zero():
    with Folder() as f:
        plant(f, ["w = param([4, 8], init = ones)", "d = matmul(abs(x), w)", "l = log(d + 1e-44)", "h = l * 0.01"])
        err = found(f)
        check("is not finite: div gives" in err and "gradient of `l`" in err and "plant.mpg:5:" in err and "8 infinite of 128" in err, err)


def slope_of_root_at_zero_is_defined():
    with Folder() as f:
        plant(f, ["w = param([4, 8], init = ones)", "d = matmul(abs(x), w)", "h = sqrt(d)"])
        f.mpc("train", "plant.mpg", "--out", "run", "--check-nonfinite")


def product_beyond_f16():
    with Folder() as f:
        plant(f, ["@f16 k = abs(x) + 1e4", "@f16 p = k * 1e4", "h = linear(p, 8) as fc"])
        err = found(f, "--precision", "f16")
        check("`p` is not finite: mul gives 64 infinite of 64" in err and "f16[16,4]" in err, err)
        check("f16 ends at 65504" in err and "from 1000" in err, err)


def infinite_input():
    with Folder() as f:
        plant(f, ["h = linear(x, 8) as fc"], "nonfinite = keep\n    on_nonfinite = skip", rows(63, 3) + "0,inf,nan,0,1\n")
        err = found(f)
        check("the input `x` is not finite: it holds 1 NaN and 1 infinite of 64" in err, err)


def norm_of_nothing():
    with Folder() as f:
        plant(f, ["n = sqrt(sum(x * x, axis = -1, keep = true))", "u = x / n", "h = linear(u, 8) as fc"])
        err = found(f)
        check("`u` is not finite: div gives 4 NaN of 64" in err and "plant.mpg:4:" in err, err)
        check("it reads `x`" in err and "it reads `n`: f32[16,1], from 0 to" in err, err)


def update_in_place_shows_the_old_value():
    with Folder() as f:
        plant(f, ["h = linear(x, 8) as fc"])
        f.put("plant.mpg", f.get("plant.mpg").decode().replace("cross_entropy(logits, y)", "cross_entropy(logits, y) weight 1e5", 1))
        err = found(f, "--set", "optimizer.lr=1e36")
        check(err.count("is not finite") == 1 and "step 1:" in err and err.count("not finite: none") >= 1, err)


def infinities_that_the_model_writes():
    with Folder() as f:
        plant(f, ["s = linear(x, 8) as fc", "m = where(s > 0, s, -1e400)", "h = linear(exp(m), 8) as out"])
        f.mpc("train", "plant.mpg", "--out", "run", "--check-nonfinite")
        plant(f, ["s = linear(x, 8) as fc", "m = where(s > 0, s, -1e400)", "h = linear(m, 8) as out"])
        err = found(f)
        check("`out" in err and "it reads `m`" in err, err)


def scale_that_can_fall():
    with Folder() as f:
        plant(f, ["h = linear(x, 8) as fc"], "loss_scale = dynamic(init = 16777216, interval = 1000)\n    on_nonfinite = skip")
        r = f.mpc("train", "plant.mpg", "--out", "run", "--precision", "f16", "--steps", "20", "--check-nonfinite")
        log = f.log("run")
        check(any(r.get("what") == "overflow" for r in log), "no overflow")
        plant(f, ["h = linear(x, 8) as fc"], "loss_scale = dynamic(init = 16777216, min = 16777216, interval = 1000)")
        err = found(f, "--precision", "f16", "--steps", "20")
        check("gradient of" in err and "f16" in err, err)


def no_bit_differs():
    with Folder() as f:
        f.mpc("train", "tiny.mpg", "--out", "plain", "--steps", "20", "--precision", "f16")
        f.mpc("train", "tiny.mpg", "--out", "checked", "--steps", "20", "--precision", "f16", "--check-nonfinite")
        check(final_checkpoint(f, "plain") == final_checkpoint(f, "checked"))


def broken_parameters():
    with Folder() as f:
        f.mpc("train", "tiny.mpg", "--out", "run", "--steps", "2")
        name, files = final_checkpoint(f, "run")
        weights = bytearray(files["weights.safetensors"])
        tensors, _, n = read_safetensors(bytes(weights))
        at = weights.find(tensors["fc1.weight"][2], 8 + n)
        weights[at:at + 4] = struct.pack("<f", float("nan"))
        f.put(f"run/checkpoints/{name}/weights.safetensors", bytes(weights))
        r = f.mpc("eval", "tiny.mpg", "--from", "run", "--which", "last", "--check-nonfinite", status=1)
        check("the state `fc1.weight` is not finite before the step: it holds 1 NaN of 32" in r.err and "`fc1" in r.err, r.err)


def evaluation():
    with Folder() as f:
        f.mpc("train", "tiny.mpg", "--out", "run", "--steps", "4")
        f.mpc("eval", "tiny.mpg", "--from", "run", "--check-nonfinite")
        f.put("test.csv", rows(20, 5) + "1,inf,0,0,1\n")
        r = f.mpc("train", "tiny.mpg", "--steps", "4", "--set", "nonfinite=keep", "--check-nonfinite", status=3)
        check("evaluation after step 4: the input `x`" in r.err, r.err)
        r = f.mpc("eval", "tiny.mpg", "--from", "run", "--set", "nonfinite=keep", "--check-nonfinite", status=1)
        check("E380" in r.err and "the input `x` is not finite" in r.err, r.err)


run_all((log_of_zero, slope_of_logarithm_near_zero, slope_of_root_at_zero_is_defined, product_beyond_f16, infinite_input, norm_of_nothing, update_in_place_shows_the_old_value,
         infinities_that_the_model_writes, scale_that_can_fall, no_bit_differs, broken_parameters, evaluation))
