"""A run's completed file repeats it to the bit, whatever the options of its command line decided: weights, the costs of another device, a
loss budget, ranges that were seen, a device. What has changed since is refused or said, and an option of the command line wins."""
import json
import os

from support import MODEL, Folder, check, device_profile, final_checkpoint, run_all

# bf16 gains on h100 and not on every CPU, so the costs decide what is computed.
WIDE = MODEL.replace("linear(x, 8)", "linear(x, 64)").replace("precision = f32", "precision = bf16")
SHORT = ("--steps", "6", "--no-tensorboard")


def same(f, one, other, *what):
    check(final_checkpoint(f, one) == final_checkpoint(f, other), one, other, *what)
    check(f.get(one, "assignment.txt") == f.get(other, "assignment.txt"), one, other, *what)


def repeat(f, *made, said="", device="ref"):
    """Trains, then the completed file, then that one's; all must be equal. Gives what the first repetition said."""
    f.mpc("train", "tiny.mpg", *made, *SHORT, "--out", "a", "--overwrite", device=device)
    r = f.mpc("train", "a/resolved.mpg", "--out", "b", "--overwrite", device=None)
    f.mpc("train", "b/resolved.mpg", "--out", "c", "--overwrite", device=None)
    same(f, "a", "b", made, r.err)
    same(f, "a", "c", made)
    for words in said.split("|"):
        check(words in r.err, made, words, r.err)
    return r


def whatever_the_options():
    with Folder(model=WIDE) as f:
        f.mpc("train", "tiny.mpg", "--steps", "5", "--out", "first", "--seed", "9")
        f.put("names.mpg", WIDE.replace("as fc1", "as enter").replace("as fc2", "as leave"))
        f.mpc("train", "names.mpg", "--steps", "5", "--out", "named", "--seed", "11")
        f.mpc("profile", "tiny.mpg", "--steps", "3", "-o", "seen.txt")
        f.put("mine.profile", device_profile("mine", f32=1e10, setup=1e-9, gap=2e-9, convert=2e13))
        renamed = ("--init", "named", "--rename", "enter.*=fc1.*", "--allow-missing", "fc2.*")
        for made, said in (
            (("--init", "first"), "--init /"),
            (renamed, "--rename 'enter.*=fc1.*'|--allow-missing 'fc2.*'"),
            (("--cost-target", "h100"), "with --cost-target h100, as"),
            (("--loss-budget", "1e-3", "--precision", "f16"), "--loss-budget 0.001"),
            (("--profile-data", "seen.txt"), "with --profile-data /"),
            (("--cost-target", "mine.profile"), "with --cost-target /"),
            (("--formats", "f16,bf16", "--cost-target", "h100"), "h100"),
            (("--solver", "list-tvm", *renamed, "--cost-target", "h100"), "--init /"),
            (("--add-pass", "grad=dce", "--init", "first", "--seed", "4"), "--add-pass grad=dce"),
        ):
            repeat(f, *made, said=said)


def on_its_device():
    with Folder(model=WIDE) as f:
        r = repeat(f, "--batch", "10", said="with --device ref")
        check("with --device ref, as the run was made\n" in r.err, r.err)
        r = repeat(f, "--batch", "10", device="cpu")
        check("as the run was made" not in r.err, r.err)


def what_has_changed():
    with Folder(model=WIDE) as f:
        f.mpc("train", "tiny.mpg", "--steps", "5", "--out", "first", "--seed", "9")
        repeat(f, "--init", "first")
        step = f.get("first", "checkpoints", "best").decode().strip()
        state = ("first", "checkpoints", step, "state.safetensors")
        old = f.get(*state)
        f.put("/".join(state), old + b" ")
        r = f.mpc("train", "a/resolved.mpg", "--out", "no", status=1)
        check("E388" in r.err and "state.safetensors, which has changed since: its hash is" in r.err and "weights.safetensors takes it as it is" in r.err, r.err)
        check("E388" in f.mpc("check", "a/resolved.mpg", status=1).err)
        f.put("/".join(state), old)
        repeat(f, "--init", "first")
        # the command line's own wins, with its names; the assignment stays
        r = f.mpc("train", "a/resolved.mpg", "--init", "a", "--out", "other")
        check("--init" not in r.err.split("\n")[0] and final_checkpoint(f, "a") != final_checkpoint(f, "other"), r.err)
        os.rename(f.at("first"), f.at("gone"))
        r = f.mpc("train", "a/resolved.mpg", "--out", "no", status=1)
        check("E388" in r.err and "which is missing" in r.err and "--init FILE" in r.err and not os.path.exists(f.at("no")), r.err)
        # the head of the file says what was there
        head = f.get("a", "resolved.mpg").decode().splitlines()[0]
        check(head.startswith("# Made with --device ref --init /") and "run.json" in head, head)


def edited():
    """Another text is another run: its formats are decided anew, for the same costs."""
    with Folder(model=WIDE) as f:
        repeat(f, "--cost-target", "h100")
        text = f.get("a", "resolved.mpg").decode()
        f.put("a/resolved.mpg", text.replace("model tiny", "policy { linear = f32 }\nmodel tiny"))
        f.mpc("train", "a/resolved.mpg", "--out", "b", "--overwrite")
        check(f.get("a", "assignment.txt") != f.get("b", "assignment.txt"))
        f.put("a/resolved.mpg", text)
        f.mpc("train", "a/resolved.mpg", "--out", "b", "--overwrite", "--precision", "f32")
        check(json.loads(f.get("b", "run.json"))["options"]["cost_target"]["path"] == "h100")
        check("bf16" not in f.get("b", "assignment.txt").decode())


def changed_on_its_way():
    with Folder(model=WIDE) as f:
        f.mpc("train", "tiny.mpg", "--steps", "4", "--cost-target", "h100", "--out", "a")
        r = f.mpc("train", "tiny.mpg", "--resume", "a", "--change", "length=8 steps")
        check("with --cost-target h100, as the run was made" in r.err, r.err)
        r = f.mpc("train", "a/resolved.mpg", "--out", "b")
        check("W175" in r.err and "--cost-target h100" in r.err, r.err)


run_all([whatever_the_options, on_its_device, what_has_changed, edited, changed_on_its_way])
