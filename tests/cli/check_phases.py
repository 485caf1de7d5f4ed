"""`mpc check` runs one batch of every phase and leaves no trace; a planted fault is found in its phase, whose name it says."""
import json
import os
import signal
import subprocess

from support import DEVICE, MODEL, Folder, check, rows, run_all

PHASES = ["model", "data", "compile", "values", "folder", "train", "evaluate", "save", "reload", "predict"]


def entries(folder):
    return sorted(os.path.join(at, name) for at, folders, files in os.walk(folder.path) for name in folders + files)


def run(f, *args, status=0):
    """The phases by name; nothing is left in the folder, nor in the temporary one."""
    os.makedirs(f.at("tmp"), exist_ok=True)
    before = entries(f)
    r = f.mpc("check", "tiny.mpg", "--json", *args, status=status, env={"TMPDIR": f.at("tmp")})
    check(entries(f) == before, args, "left", set(entries(f)) - set(before))
    return {p["phase"]: p for p in map(json.loads, r.out.splitlines())}, r


def fails_in(f, phase, *args, words=()):
    phases, r = run(f, *args, status=1)
    check(list(phases) == PHASES[:PHASES.index(phase) + 1], phase, list(phases), r.err)
    check(not phases[phase]["ok"] and all(p["ok"] for n, p in phases.items() if n != phase), phases)
    check(f"the phase `{phase}` failed" in r.err, r.err)
    for word in words:
        check(word in r.err, word, "isn't in", r.err)


def all_phases_run_and_leave_nothing():
    with Folder() as f:
        phases, _ = run(f)
        check(list(phases) == PHASES and all(p["ok"] for p in phases.values()), phases)
        check(phases["data"]["train"] == 104 and phases["data"]["valid"] == 26 and phases["data"]["test"] == 40, phases["data"])
        check(phases["compile"]["parameters"] == 4 * 8 + 8 + 8 * 3 + 3, phases["compile"])
        check(0.5 < phases["train"]["loss"] < 3 and phases["evaluate"]["split"] == "valid", phases)
        check(phases["predict"]["outputs"] == 1 and phases["save"]["checkpoint_bytes"] > 1000, phases)
        f.mpc("train", "tiny.mpg", "--out", "run", "--steps", "1")
        first = f.steps("run")[0]
        check(abs(first["loss"] - phases["train"]["loss"]) < 1e-6, first, phases["train"])
        text = f.mpc("check", "tiny.mpg").out
        check("all phases passed" in text and all(name in text for name in PHASES), text)


def every_precision_accumulation_and_no_output_pass():
    with Folder(MODEL.replace("    output p = softmax(logits)\n", "")) as f:
        for args in (("--precision", "f16"), ("--precision", "bf16", "--set", "accumulate=3"), ("--set", "ema=0.9")):
            phases, _ = run(f, *args)
            check(list(phases) == PHASES and "outputs" not in phases["predict"], args, phases)


def mistakes_of_the_model_and_missing_data_are_found_first():
    with Folder(MODEL.replace("relu(", "relu((")) as f:
        fails_in(f, "model", words=["tiny.mpg"])
    with Folder(MODEL.replace("relu(", "relv(")) as f:
        fails_in(f, "compile", words=["relu"])
    with Folder(MODEL.replace('csv("test.csv")', 'csv("tset.csv")')) as f:
        fails_in(f, "data", words=["tset.csv"])


def a_broken_row_of_the_validation_split_is_found():
    with Folder(MODEL.replace("split(train, 0.2, seed = 1)", 'csv("valid.csv")')) as f:
        lines = rows(50, 3).splitlines()
        lines[41] = "0.1,0.2,?,0.3,1"
        f.put("valid.csv", "\n".join(lines) + "\n")
        fails_in(f, "values", words=["valid.csv", "row 42", "?"])
        lines[41] = "0.1,0.2,0.3,0.4,7"
        f.put("valid.csv", "\n".join(lines) + "\n")
        fails_in(f, "values", words=["valid.csv", "7"])


def a_folder_that_cant_be_written_is_found():
    with Folder() as f:
        f.put("file", "no folder\n")
        fails_in(f, "folder", "--out", "file/run", words=["file/run"])
        fails_in(f, "folder", "--out", "file", words=["file"])
        f.put("runs", "no folder\n")
        fails_in(f, "folder", words=["runs"])
        os.remove(f.at("runs"))
        os.makedirs(f.at("full", "sub"))
        fails_in(f, "folder", "--out", "full", words=["not empty"])
        run(f, "--out", "new/deep/run")
        r = f.mpc("check", "tiny.mpg", status=1, env={"TMPDIR": f.at("nowhere")})
        check("nowhere" in r.err, r.err)


def a_first_loss_that_is_not_finite_is_found():
    with Folder(MODEL.replace("loss ce = cross_entropy(logits, y)", "loss ce = cross_entropy(logits / 0, y)")) as f:
        fails_in(f, "train")


def weights_to_start_from_are_checked():
    with Folder() as f:
        f.mpc("train", "tiny.mpg", "--steps", "1", "--out", "run")
        phases, _ = run(f, "--init", "run")
        check(list(phases) == PHASES[:4] + ["init"] + PHASES[4:], phases)
        f.put("tiny.mpg", MODEL.replace("as fc1", "as first"))
        phases, r = run(f, "--init", "run", status=1)
        check(not phases["init"]["ok"] and "first.weight" in r.err and "`init` failed" in r.err, phases, r.err)
        run(f, "--init", "run", "--rename", "fc1.*=first.*")


def a_signal_leaves_nothing():
    with Folder() as f:
        os.makedirs(f.at("tmp"))
        p = subprocess.Popen(f.command("check", "tiny.mpg"), cwd=f.path, stdout=subprocess.PIPE, env=dict(os.environ, TMPDIR=f.at("tmp")))
        p.stdout.readline()
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=60)
        check(p.returncode in (0, 130) and os.listdir(f.at("tmp")) == [], p.returncode, os.listdir(f.at("tmp")))


def a_full_disk_is_found():
    with Folder() as f:
        os.makedirs(f.at("tmp"))
        r = f.mpc("check", "tiny.mpg", "--json", status=1, file_size=400, env={"TMPDIR": f.at("tmp")})
        check("failed" in r.err and os.listdir(f.at("tmp")) == [], r.err)


run_all([all_phases_run_and_leave_nothing, every_precision_accumulation_and_no_output_pass,
         mistakes_of_the_model_and_missing_data_are_found_first, a_broken_row_of_the_validation_split_is_found,
         a_folder_that_cant_be_written_is_found, a_first_loss_that_is_not_finite_is_found,
         weights_to_start_from_are_checked, a_signal_leaves_nothing]
        + ([a_full_disk_is_found] if DEVICE == "ref" else []))
