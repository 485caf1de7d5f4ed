"""A machine without a C compiler trains on the device ref, one without oneDNN with mpc's own kernels; both say so once."""
from support import MODEL, Folder, check, final_checkpoint, finish

with Folder() as f:
    nothing = {"MPC_CC": "/nonexistent/cc"}
    r = f.mpc("train", "tiny.mpg", "--out", "run", "--steps", "3", device=None, env=nothing)
    check(r.err.count("W161") == 1 and "/nonexistent/cc" in r.err, r.err)
    check("E660" not in r.err, r.err)
    check(f.log("run")[0]["device"] == "ref", f.log("run")[0])
    f.mpc("train", "tiny.mpg", "--out", "asked", "--steps", "3", device="ref")
    check(final_checkpoint(f, "run")[1]["weights.safetensors"] == final_checkpoint(f, "asked")[1]["weights.safetensors"])
    r = f.mpc("eval", "tiny.mpg", "--from", "run", device=None, env=nothing)
    check(r.err.count("W161") == 1, r.err)
    r = f.mpc("predict", "tiny.mpg", "--from", "run", "--input", "test.csv", device=None, env=nothing)
    check(r.err.count("W161") == 1 and len(r.out.splitlines()) >= 40, r.err)
    # what asks for ref, or runs nothing, needs no compiler
    for words in (("dump-ir", "tiny.mpg"), ("explain", "tiny.mpg"), ("compile", "tiny.mpg")):
        check("W161" not in f.mpc(*words, device=None, env=nothing).err, words)
    check("W161" not in f.mpc("eval", "tiny.mpg", "--from", "run", device="ref", env=nothing).err)

with Folder(MODEL.replace("linear(x, 8)", "linear(x, 2048)").replace("linear(h, 3)", "linear(relu(linear(h, 64) as mid), 3)")) as f:
    for name in ("libdnnl.so.3", "libdnnl.so.2", "libdnnl.so"):
        f.put(name, "")  # found before the real one, and no library
    broken = {"LD_LIBRARY_PATH": f.path}
    check("not found" in f.mpc("info", env=broken).out)
    r = f.mpc("train", "tiny.mpg", "--out", "run", "--steps", "3", "--overwrite", device="cpu", env=broken)
    check(r.err.count("W160") == 1, r.err)
    check(f.log("run")[0]["device"] == "cpu", f.log("run")[0])

finish()
