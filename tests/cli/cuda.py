"""The device cuda as a user has it, on the stand-in of its libraries (folder: argument 3): training near to ref's, stops, choices, what
is said without a GPU, profiles; and `mpc compile`, which needs neither."""
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from support import Folder, check, final_checkpoint, finish, without_times

SIM = os.path.abspath(sys.argv[3])
GPU = {"LD_LIBRARY_PATH": SIM, "MPC_CUDASIM_ONCE": "1"}
NONE = {"LD_LIBRARY_PATH": SIM, "MPC_CUDASIM_NO_DEVICE": "1"}


def losses(f, run):
    return [e["loss"] for e in f.steps(run)]


def near(a, b):
    return len(a) == len(b) and all(math.isclose(x, y, rel_tol=1e-4) for x, y in zip(a, b))


with Folder() as f:
    # the same training as on ref, but for the order of sums
    f.mpc("train", "tiny.mpg", "--steps", "20", "--out", "cuda", device="cuda", env=GPU)
    f.mpc("train", "tiny.mpg", "--steps", "20", "--out", "ref", device="ref")
    check(near(losses(f, "cuda"), losses(f, "ref")), losses(f, "cuda"), losses(f, "ref"))
    check(json.loads(f.get("cuda", "run.json"))["device"] == "cuda" and f.log("cuda")[0]["device"] == "cuda")
    check(json.loads(f.get("cuda", "profile.json"))["launches"] > 5)

    # figures of eval are those of the training
    r = f.mpc("eval", "tiny.mpg", "--from", "cuda", "--split", "valid", "--json", device="cuda", env=GPU)
    best = [e for e in f.log("cuda") if e["type"] == "eval" and e.get("best")][-1]
    check(math.isclose(json.loads(r.out)["loss"], best["loss"], rel_tol=1e-6), r.out, best)
    r = f.mpc("predict", "tiny.mpg", "--from", "cuda", device="cuda", env=GPU)
    check(len(r.out.splitlines()) == 41, r.out[:200])

    # on another device the choices of this one don't hold
    choices = f.get("cuda", "choices.txt").decode()
    check(len(choices.splitlines()) > 1, choices)
    owner = choices.splitlines()[0]
    f.put("cuda/choices.txt", choices.replace(owner, owner.replace("owner\t", "owner\tAnother ")))
    r = f.mpc("eval", "tiny.mpg", "--from", "cuda", device="cuda", env=GPU, status=1)
    check("E363" in r.err and "Another" in r.err, r.err)
    f.put("cuda/choices.txt", choices)

    # a stop several steps behind the newest one says where it began, and leaves what a device leaves that stops at once
    wild = ("--set", "optimizer.lr=1e30", "--set", "schedule=constant", "--set", "clip_norm=0", "--steps", "40")
    r = f.mpc("train", "tiny.mpg", *wild, "--out", "stop-cuda", device="cuda", env=GPU, status=3)
    s = f.mpc("train", "tiny.mpg", *wild, "--out", "stop-ref", device="ref", status=3)
    where = [re.search(r"training stopped at step (\d+)", x.err).group(1) for x in (r, s)]
    check(where[0] == where[1] and "tiny.mpg:" in r.err and " gives " in r.err, r.err, s.err)
    check([e["step"] for e in f.steps("stop-cuda")] == [e["step"] for e in f.steps("stop-ref")])

    # a signal: what was begun is accounted for, and going on ends in the same bytes
    long = ("--steps", "400", "--set", "eval_every=200 steps")
    f.mpc("train", "tiny.mpg", *long, "--out", "whole", device="cuda", env=GPU)
    p = subprocess.Popen(f.command("train", "tiny.mpg", *long, "--out", "cut", device="cuda"), cwd=f.path, stdout=subprocess.DEVNULL,
                         stderr=subprocess.PIPE, env=dict(os.environ, **GPU))  # its kernels are in the cache
    while p.poll() is None and not os.path.exists(f.at("cut", "log.jsonl")):
        time.sleep(0.01)
    time.sleep(0.03)
    p.send_signal(signal.SIGINT)
    err = p.communicate(timeout=100)[1].decode()
    check(p.returncode in (0, 130), p.returncode, err)
    if p.returncode == 130:
        step = int(re.search(r"after step (\d+)", err).group(1))
        check([e["step"] for e in f.steps("cut")] == list(range(1, step + 1)), step)
        f.mpc("train", "tiny.mpg", *long, "--resume", "cut", device="cuda", env=GPU)
    check(final_checkpoint(f, "cut") == final_checkpoint(f, "whole"), "a run that was cut differs")
    check(without_times(f.log("cut")) == without_times(f.log("whole")), "its log differs")

    # without a GPU: one line, at once, and no run
    r = f.mpc("train", "tiny.mpg", "--out", "none", device="cuda", env=NONE, status=1)
    check(len(r.err.splitlines()) == 1 and "E62" in r.err and not os.path.exists(f.at("none")), r.err)
    for words in (["eval", "tiny.mpg", "--from", "ref"], ["predict", "tiny.mpg", "--from", "ref"]):
        check("error[E62" in f.mpc(*words, device="cuda", env=NONE, status=1).err)
    check("cuda" in f.mpc("info", env=NONE).out)
    # what runs nothing works without one
    check(f.mpc("config", "tiny.mpg", device="cuda", env=NONE).out == f.mpc("config", "tiny.mpg", device="cpu").out)
    check("arena" in f.mpc("explain", "tiny.mpg", "--memory", device="cuda", env=NONE).out)

    # profiles
    for device, env in (("cuda", GPU), ("cpu", {})):
        name = f"trace-{device}.json"
        r = f.mpc("train", "tiny.mpg", "--steps", "12", "--out", f"profiled-{device}", "--profile", name, device=device, env=env)
        check(re.search(r"profile of step 10: \d+ launches", r.err), r.err)
        trace = json.loads(f.get(name))
        events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
        launches = json.loads(f.get(f"profiled-{device}", "profile.json"))["launches"]
        check(len(events) == launches, device, len(events), launches)
        check(all(e["dur"] >= 0 and {"op", "kernel", "bytes", "flops", "us"} <= set(e["args"]) for e in events))
        check(all(a["ts"] + a["dur"] <= b["ts"] + 1e-6 for a, b in zip(events, events[1:])))
        check(device == "cuda" or all(0 < e["args"]["share_of_limit"] for e in events if e["args"]["bytes"] and e["dur"]))
        f.mpc("train", "tiny.mpg", "--steps", "12", "--out", f"plain-{device}", device=device, env=env)
        check(final_checkpoint(f, f"profiled-{device}") == final_checkpoint(f, f"plain-{device}"), "a profile moved the training")
    check("E365" in f.mpc("train", "tiny.mpg", "--profile", "x.json", device="ref", status=1).err)

    # compile
    r = f.mpc("compile", "tiny.mpg", "--out", "cu", device="cuda", env=NONE)
    check("mma" in r.out and "k_" in r.out and "train" in r.out, r.out)
    text = f.get("cu", "train.cu").decode()
    check('#include "mpc_device.h"' not in text and "MPC_KERNEL" in text and sorted(os.listdir(f.at("cu"))) == ["eval.cu", "eval.txt", "train.cu", "train.txt"])
    for wrong in (["--emit", "ptx"], ["--arch", "sm_70"], ["--emit", "c", "--arch", "sm_80"], ["--emit", "cubin", "--arch", "sm_80"]):
        f.mpc("compile", "tiny.mpg", *wrong, device="cuda", status=2)
    real = {"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "").replace(SIM, "")}
    r = f.mpc("compile", "tiny.mpg", "--emit", "ptx", "--arch", "sm_80,sm_90", "--out", "ptx", "--json", device="cuda", env=real, status=None)
    if "NVRTC" in r.err and r.returncode == 1:
        print("no NVRTC here:", r.err, file=sys.stderr)
        check("error[E62" in r.err, r.err)
    else:
        rows = [json.loads(line) for line in r.out.splitlines()]
        check({(row["program"], row["arch"]) for row in rows} == {(p, a) for p in ("train", "eval") for a in ("sm_80", "sm_90")})
        check(all(0 < row["registers"] <= 255 and row["threads"] > 0 for row in rows), rows)
        check(".target sm_90" in f.get("ptx", "train.sm_90.ptx").decode())
        nvcc = shutil.which("nvcc")
        if nvcc:
            words = [nvcc, "-std=c++17", "--fmad=false", "-arch=sm_80", "-ptx", "-o", f.at("nvcc.ptx"), f.at("cu", "eval.cu")]
            check(subprocess.run(words, capture_output=True).returncode == 0, "nvcc refuses the text")

finish()
