"""Whole trainings on the device cuda, on the stand-in of its libraries (folder: argument 3; the repository: argument 2): near to the cpu's
in every precision, skips, rescaling, accumulation, clipping, stops, resuming, checkpoints that change devices, equal bits, no call too
many in a step, and every call of the libraries failing in turn."""
import concurrent.futures
import json
import math
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

MPC, ROOT, SIM = (os.path.abspath(a) for a in sys.argv[1:4])
ONLY = sys.argv[4:]  # names of the tests to run, for whoever works on one
GPU = {"LD_LIBRARY_PATH": SIM}
ONCE = dict(GPU, MPC_CUDASIM_ONCE="1")  # each kernel in one order of threads
STEP_CALLS = {"cuGraphLaunch", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuEventRecord", "cuEventQuery"}
SMALL = {
    "linear": (),
    "mlp": ("--const", "width=32", "--batch", "8"),
    "digits": ("--batch", "8"),
    "gpt": ("--const", "width=32", "--const", "depth=1", "--const", "heads=2", "--batch", "2"),
}
failures = checks = 0
lock = threading.Lock()

if not os.path.exists(os.path.join(SIM, "libcuda.so.1")):
    print("skipped: the stand-in for the CUDA libraries is not built", file=sys.stderr)
    sys.exit(77)


def check(condition, *what):
    global failures, checks
    with lock:
        checks += 1
        failures += not condition
    if not condition:
        print(f"train.py:{sys._getframe(1).f_lineno}: failed", *what, file=sys.stderr, flush=True)


class Work:
    """A folder with the examples, on few data."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="mpc-test-")
        for name in SMALL:
            with open(os.path.join(ROOT, "examples", name + ".mpg"), encoding="utf-8") as f:
                text = f.read()
            self.put(name + ".mpg", text.replace("length = 128)", "length = 16)"))
        for name, size in (("digits-train.csv", 100), ("digits-test.csv", 30), ("iris-train.csv", 100), ("iris-test.csv", 30)):
            self.put("data/" + name, self.source(name).splitlines(True)[:size])
        self.put("data/persuasion.txt", self.source("persuasion.txt")[:1500])

    def source(self, name):
        with open(os.path.join(ROOT, "examples", "data", name), encoding="utf-8") as f:
            return f.read()

    def at(self, *names):
        return os.path.join(self.path, *names)

    def put(self, name, text):
        os.makedirs(os.path.dirname(self.at(name)), exist_ok=True)
        with open(self.at(name), "w", encoding="utf-8") as f:
            f.writelines(text)

    def start(self, *words, device="cuda", env=ONCE):
        return subprocess.Popen([MPC, *words, "--device", device], cwd=self.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=dict(os.environ, **env))

    def mpc(self, *words, device="cuda", env=ONCE, status=0):
        p = self.start(*words, device=device, env=env)
        try:
            p.out, p.err = p.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            p.kill()
            p.out, p.err = p.communicate()
            check(False, words, device, "hangs")
        if status is not None:
            check(p.returncode == status, words, device, "exit status", p.returncode, "not", status, p.err[-1500:])
        return p

    def train(self, name, out, *words, small=True, **how):
        return self.mpc("train", name + ".mpg", "--out", out, *(SMALL[name] if small else ()), *words, **how)

    def resume(self, name, run, *words, **how):
        return self.mpc("train", name + ".mpg", "--resume", run, *SMALL[name], *words, **how)

    def log(self, run, kind=None):
        if not os.path.exists(self.at(run, "log.jsonl")):
            return []
        with open(self.at(run, "log.jsonl"), encoding="utf-8") as f:
            records = [json.loads(line) for line in f]
        return [r for r in records if kind is None or r["type"] == kind]

    def last(self, run):
        """Name and files of the newest checkpoint."""
        try:
            with open(self.at(run, "checkpoints", "last"), encoding="utf-8") as f:
                step = f.read().strip()
            files = {}
            for name in ("weights.safetensors", "state.safetensors"):
                with open(self.at(run, "checkpoints", step, name), "rb") as f:
                    files[name] = f.read()
            return step, files
        except OSError as e:
            return str(e), {}


    def cut_back(self, run, step):
        """As if the run had been killed right after the checkpoint of `step`."""
        keep = f"step-{step:08d}"
        for name in os.listdir(self.at(run, "checkpoints")):
            if name.startswith("step-") and name > keep:
                shutil.rmtree(self.at(run, "checkpoints", name))
        for name in ("last", "best"):
            self.put(f"{run}/checkpoints/{name}", keep + "\n")


TIMES = {"samples_per_s", "step_ms", "wait_ms", "time_s", "device"}


def plain(records):
    """What the logs of two equal runs share."""
    return [{k: v for k, v in r.items() if k not in TIMES} for r in records if r["type"] not in ("end", "run")]


def near(a, b, tolerance):
    return len(a) == len(b) > 0 and all(x is not None and y is not None and math.isclose(x, y, rel_tol=tolerance) for x, y in zip(a, b))


def losses(w, run, key="loss"):
    return [r[key] for r in w.log(run, "step")]


def in_parallel(jobs):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(*job) for job in jobs]:
            done.result()


def weights_near(a, b, tolerance):
    """Two weights.safetensors: the same names, and values that differ by little of the tensor's largest."""
    if a[:8 + struct.unpack("<Q", a[:8])[0]] != b[:8 + struct.unpack("<Q", b[:8])[0]]:
        return False
    n, = struct.unpack("<Q", a[:8])
    x, y = ([v for v, in struct.iter_unpack("<f", d[8 + n:])] for d in (a, b))
    most = max(abs(v) for v in x)
    return all(abs(p - q) <= tolerance * most for p, q in zip(x, y))


# --- as on the cpu ---


def like_cpu(w, name, precision, tolerance):
    run = f"{name}-{precision}"
    words = ("--precision", precision, "--steps", "20", "--solver", "list")  # the default would decide for each device apart
    w.train(name, run, *words, env=GPU)
    # tf32 is f32 on the cpu
    w.train(name, run + "-cpu", *words, device="cpu")
    a, b = losses(w, run), losses(w, run + "-cpu")
    check(len(a) == 20 and near(a, b, tolerance), run, a, b)
    a, b = ([r["loss"] for r in w.log(x, "eval")] for x in (run, run + "-cpu"))
    check(near(a, b, tolerance), run, "evaluations", a, b)


def examples_train_as_on_the_cpu(w):
    jobs = [(like_cpu, w, name, precision, 1e-3 if precision == "f32" else 0.02)
            for name in ("gpt", "digits", "mlp", "linear") for precision in ("f32", "tf32", "bf16", "f16")]
    in_parallel(jobs)


def compare_logs(w, name, out, *words, tolerance=1e-3, status=0, keys=("loss", "grad_norm")):
    """On both devices: the same events, scales and skips, figures that are near."""
    err = {}
    for device in ("cuda", "cpu"):
        err[device] = w.train(name, f"{out}-{device}", *words, device=device, status=status).err
    a, b = (w.log(f"{out}-{device}") for device in ("cuda", "cpu"))
    check([(r["type"], r.get("step"), r.get("what")) for r in a] == [(r["type"], r.get("step"), r.get("what")) for r in b], out, "logs")
    for x, y in zip(a, b):
        for key in ("scale", "skipped", "applied", "samples", "reason"):
            check(x.get(key) == y.get(key), out, key, x, y)
        if x["type"] == "step":
            check(all(x[k] is None and y[k] is None or near([x[k]], [y[k]], tolerance) for k in keys), out, x, y)
    return err


def a_scale_that_overflows_comes_down(w):
    init = ("--precision", "f16", "--steps", "20", "--set", "loss_scale=dynamic(init = 16777216, interval = 6)")
    for name in ("mlp", "linear"):
        compare_logs(w, name, "scale-" + name, *init, tolerance=0.02)
        steps = w.log(f"scale-{name}-cuda", "step")
        check(steps[-1]["skipped"] > 0 and steps[-1]["scale"] < 2 ** 24, name, "nothing overflowed", steps[-1])
        check(any(a["scale"] < b["scale"] for a, b in zip(steps, steps[1:])), name, "the scale never grows")


def accumulated_batches_equal_one(w):
    words = ("--precision", "f32", "--set", "clip_norm=0.5")
    w.train("linear", "whole", *words, "--batch", "20", "--steps", "12")
    for k in (2, 5):
        w.train("linear", f"parts{k}", *words, "--batch", str(20 // k), "--set", f"accumulate={k}", "--steps", "12")
        check(near(losses(w, f"parts{k}"), losses(w, "whole"), 1e-5), losses(w, f"parts{k}"), losses(w, "whole"))
        check(weights_near(w.last(f"parts{k}")[1]["weights.safetensors"], w.last("whole")[1]["weights.safetensors"], 1e-5), "weights", k)
    compare_logs(w, "mlp", "windows", "--precision", "f16", "--set", "accumulate=3", "--set", "clip_norm=0.1", "--steps", "8", tolerance=0.02)


def clipped_steps_move_by_the_bound(w):
    words = ("--precision", "f32", "--steps", "1", "--set", "optimizer=sgd(lr = 1)", "--set", "clip_norm=0.001")
    compare_logs(w, "linear", "clip", *words)
    w.train("linear", "unclipped", *words, "--set", "clip_norm=0", "--set", "optimizer=sgd(lr = 0)")
    moved = [w.last(run)[1]["weights.safetensors"] for run in ("clip-cuda", "unclipped")]
    n, = struct.unpack("<Q", moved[0][:8])
    a, b = ([v for v, in struct.iter_unpack("<f", d[8 + n:])] for d in moved)
    check(math.isclose(math.dist(a, b), 0.001, rel_tol=1e-3), math.dist(a, b))


def data_that_are_not_finite_stop_the_run(w):
    rows = w.source("iris-train.csv").splitlines(True)[:100]
    rows[40] = "nan," + rows[40].split(",", 1)[1]
    w.put("data/bad.csv", rows)
    bad = ("--set", "data.train=csv(\"data/bad.csv\")", "--set", "nonfinite=keep", "--steps", "20")
    err = compare_logs(w, "linear", "stop", *bad, status=3)
    said = {d: [line for line in text.splitlines() if line.startswith("error") or "holds" in line] for d, text in err.items()}
    check(said["cuda"] == said["cpu"] and "input lengths.field holds nan" in err["cuda"], err)
    compare_logs(w, "linear", "leave-out", *bad, "--set", "on_nonfinite=skip")
    check(w.log("leave-out-cuda", "step")[-1]["skipped"] > 0)


# --- equal bits ---


def equal_runs_leave_equal_bytes(w):
    def run(name, out, precision, env):
        w.train(name, out, "--precision", precision, "--steps", "6", env=env)

    cases = (("gpt", "bf16"), ("digits", "f16"), ("mlp", "f32"))
    kinds = {"a": ONCE, "b": ONCE, "old": dict(ONCE, MPC_CUDASIM_ARCH="80", MPC_CUDASIM_PROCESSORS="17")}
    in_parallel([(run, name, f"bits-{name}-{kind}", precision, env) for name, precision in cases for kind, env in kinds.items()])
    for name, _ in cases:
        for kind in ("b", "old"):
            check(w.last(f"bits-{name}-a") == w.last(f"bits-{name}-{kind}"), name, kind, "other bytes")
            check(plain(w.log(f"bits-{name}-a")) == plain(w.log(f"bits-{name}-{kind}")), name, kind, "another log")


RESUMED = ("--precision", "f16", "--set", "accumulate=2", "--set", "loss_scale=dynamic(init = 65536, interval = 4)", "--set", "length=40 steps",
           "--set", "save_every=3 steps", "--set", "eval_every=7 steps")


def resumed_runs_equal_the_unbroken_one(w):
    w.train("mlp", "unbroken", *RESUMED)
    begin = time.monotonic()
    w.train("mlp", "again", *RESUMED)
    seconds = time.monotonic() - begin
    rng, kills = random.Random(5), 0
    for attempt in range(30):
        if attempt >= 6 and kills >= 3:
            break  # how often a kill comes in time depends on how busy the machine is
        run = f"killed{attempt}"
        for number in range(12):
            fresh = not w.log(run) or not os.path.exists(w.at(run, "checkpoints", "last"))
            p = w.start("train", "mlp.mpg", *SMALL["mlp"], *RESUMED, *(("--out", run, "--overwrite") if fresh else ("--resume", run)))
            try:
                err = p.communicate(timeout=rng.uniform(0.2, 0.9) * seconds if number < 3 else 100)[1]
                check(p.returncode == 0, err)
                break
            except subprocess.TimeoutExpired:
                p.kill()
                p.communicate()
                kills += 1
        check(w.last(run) == w.last("unbroken"), "other bytes after a kill")
        check(plain(w.log(run)) == plain(w.log("unbroken")), "another log after a kill")
    check(kills >= 3, "kills:", kills)


def a_signal_saves(w):
    long = (*RESUMED, "--set", "length=2000 steps", "--set", "save_every=5000 steps", "--set", "eval_every=5000 steps")
    p = w.start("train", "mlp.mpg", *SMALL["mlp"], *long, "--out", "cut")
    while p.poll() is None and len(w.log("cut", "step")) < 2:
        time.sleep(0.005)
    p.send_signal(signal.SIGINT)
    err = p.communicate(timeout=100)[1]
    check(p.returncode == 130, p.returncode, err)
    step = int(re.search(r"after step (\d+)|$", err).group(1) or 0)
    check(w.last("cut")[0] == f"step-{step:08d}" and w.log("cut")[-1]["reason"] == "signal", err)
    check([r["step"] for r in w.log("cut", "step")][-1] in (step, step - 1), step)  # the last one may be the first half of a window


# --- from device to device ---


def checkpoints_change_devices(w):
    for precision, tolerance in (("f32", 1e-4), ("bf16", 0.02)):
        words = ("--precision", precision)
        w.train("mlp", f"on-{precision}", *words, "--steps", "12")
        table = {}
        for device in ("cuda", "cpu"):
            r = w.mpc("predict", "mlp.mpg", *SMALL["mlp"], *words, "--from", f"on-{precision}", device=device)
            table[device] = [float(v) for line in r.out.splitlines()[1:] for v in line.split(",")]
            r = w.mpc("eval", "mlp.mpg", *SMALL["mlp"], *words, "--from", f"on-{precision}", "--json", device=device)
            table[device + " loss"] = json.loads(r.out)["loss"]
        check(len(table["cuda"]) > 280 and all(abs(a - b) < tolerance for a, b in zip(table["cuda"], table["cpu"])), precision, len(table["cuda"]), "predictions")
        check(math.isclose(table["cuda loss"], table["cpu loss"], rel_tol=tolerance), table["cuda loss"], table["cpu loss"])
    words = ("--precision", "f32", "--set", "length=16 steps", "--set", "save_every=8 steps", "--set", "keep=10")
    for first, second in (("cpu", "cuda"), ("cuda", "cpu")):
        w.train("mlp", f"all-{first}", *words, device=first)
        shutil.copytree(w.at(f"all-{first}"), w.at(f"then-{second}"))
        w.cut_back(f"then-{second}", 8)
        r = w.resume("mlp", f"then-{second}", *words, device=second)
        check(f"was on {first}" in r.err and "going on after step 8" in r.err, r.err)
        check(near(losses(w, f"then-{second}"), losses(w, f"all-{first}"), 1e-3), "from", first, "to", second)
        r = w.resume("mlp", f"all-{first}", *words, device=first, status=None)
        check("was on" not in r.err, r.err)


# --- calls ---


def a_step_makes_no_call_but_these(w):
    words = ("--precision", "f16", "--batch", "4", "--steps", "20", "--set", "eval_every=100 steps")  # 22 full batches
    w.train("mlp", "traced", *words, env=dict(ONCE, MPC_CUDASIM_TRACE=w.at("trace")))
    with open(w.at("trace"), encoding="utf-8") as f:
        calls = [line.split()[0] for line in f]
    launches = [i for i, name in enumerate(calls) if name == "cuGraphLaunch"]
    between = calls[launches[0]:launches[19]]
    check(between.count("cuGraphLaunch") == 19 and set(between) <= STEP_CALLS, sorted(set(between) - STEP_CALLS))
    for name, most in (("cuMemcpyHtoDAsync_v2", 1), ("cuMemcpyDtoHAsync_v2", 1), ("cuEventRecord", 1), ("cuEventQuery", 3)):
        check(between.count(name) <= 19 * most, name, between.count(name))


FAULTS = ("--precision", "f32", "--set", "length=12 steps", "--set", "save_every=4 steps", "--set", "eval_every=6 steps", "--set", "keep=10")


def one_fault(w, fault, number, resumes):
    run = f"fault{number}"
    shutil.copytree(w.at("faults"), w.at(run))
    r = w.resume("linear", run, *FAULTS, env=dict(ONCE, MPC_CUDASIM_FAIL=fault), status=None)
    check(r.returncode in (0, 1), fault, "exit status", r.returncode, r.err[-1000:])
    if r.returncode:
        check("error[E" in r.err, fault, r.err)
    step, files = w.last(run)
    check(len(files) == 2 and step >= "step-00000004", fault, step)
    if r.returncode and resumes:
        w.resume("linear", run, *FAULTS)
        check(w.last(run) == w.last("faultless"), fault, "other bytes after a failure")
    shutil.rmtree(w.at(run))
    return r.returncode


def every_call_may_fail(w):
    w.train("linear", "faultless", *FAULTS)
    shutil.copytree(w.at("faultless"), w.at("faults"))
    w.cut_back("faults", 4)
    shutil.copytree(w.at("faults"), w.at("trial"))
    w.resume("linear", "trial", *FAULTS, env=dict(ONCE, MPC_CUDASIM_TRACE=w.at("trace-all")))
    check(w.last("trial") == w.last("faultless"), "resumed: other bytes")
    with open(w.at("trace-all"), encoding="utf-8") as f:
        calls = [line.split()[0] for line in f]
    names = sorted(set(calls))
    check(len(names) > 40, names)
    faults = [f"{name}:1+" for name in names] + [f"{name}:{calls.count(name)}" for name in names]
    faults += [f"any:{n}" for n in range(1, len(calls), max(1, len(calls) // 40))]
    codes = []

    def one(number):
        code = one_fault(w, faults[number], number, number % 4 == 0)
        with lock:
            codes.append(code)

    in_parallel([(one, i) for i in range(len(faults))])
    check(codes.count(1) > len(faults) // 3, "failures told:", codes.count(1), "of", len(faults))


# --- launches ---


def launches_of(w, name, precision):
    w.mpc("compile", os.path.join(ROOT, "examples", name + ".mpg"), "--precision", precision, "--out", f"cu-{name}-{precision}")
    with open(w.at(f"cu-{name}-{precision}", "train.txt"), encoding="utf-8") as f:
        return [line for line in f if line.startswith("kernel ")]


def all_parameters_are_updated_in_one_launch(w):
    """One for each pair of gradient format and format of copies: f32 masters alone, and those with a 16-bit copy."""
    for name in ("mlp", "digits", "gpt"):
        for precision, most in (("f32", 1), ("bf16", 2), ("f16", 2)):
            lines = launches_of(w, name, precision)
            updates = [line for line in lines if re.search(r"/m\b", line) and "step.ok" in line]
            check(len(updates) == most, name, precision, "updates:", len(updates), updates)
            norms = [line for line in lines if "global_norm" in line]
            check(0 < len(norms) <= 2, name, precision, "norm:", len(norms), norms)
            checked = [line for line in lines if "step.finite" in line]
            check(len(checked) == 1, name, precision, "finite:", checked)


TESTS = (all_parameters_are_updated_in_one_launch, examples_train_as_on_the_cpu, a_scale_that_overflows_comes_down, accumulated_batches_equal_one,
         clipped_steps_move_by_the_bound, data_that_are_not_finite_stop_the_run, equal_runs_leave_equal_bytes,
         resumed_runs_equal_the_unbroken_one, a_signal_saves, checkpoints_change_devices, a_step_makes_no_call_but_these, every_call_may_fail)


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    w = Work()
    try:
        for test in TESTS:
            if ONLY and test.__name__ not in ONLY:
                continue
            begin, cpu, before = time.monotonic(), cpu_seconds(), failures
            test(w)
            print(f"{time.monotonic() - begin:6.1f} s, {cpu_seconds() - cpu:6.1f} s of a core  {'FAILED' if failures > before else 'ok    '} {test.__name__}", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(w.path, ignore_errors=True)
    print(f"{checks} checks, {failures} failed", file=sys.stderr)
    return failures != 0 or not checks


sys.exit(main())
