"""The cuda device in a bad environment, on the stand-in of its libraries (arguments: mpc, the stand-in's folder): a cache that holds what
can't be loaded, that several processes fill at once, that killed processes left files in; libraries that lack something; little memory."""
import glob
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

MPC, SIM = (os.path.abspath(a) for a in sys.argv[1:3])
MODEL = """model m(x: f32[batch, 4], y: i32[batch]) {
    logits = linear(relu(linear(x, 8) as a), 3) as head
    loss ce = cross_entropy(logits, y)
}
data {
    train = csv("train.csv")
    input x = columns[0:4]
    input y = columns[4]
}
train {
    precision = bf16
    optimizer = adamw(lr = 1e-2)
    batch = 5
    length = 3 steps
}
"""
failures = 0


def check(condition, *what):
    global failures
    if not condition:
        failures += 1
        print("line", sys._getframe(1).f_lineno, "failed", *what, file=sys.stderr)


folder = tempfile.mkdtemp(prefix="mpc-trouble-")
os.chdir(folder)
CACHE = os.path.join(folder, "cache", "mpc")
with open("m.mpg", "w", encoding="utf-8") as f:
    f.write(MODEL)
with open("train.csv", "w", encoding="utf-8") as f:
    f.write("".join(f"{i % 5},{i % 3 - 1},{i * 7 % 11 / 10},-1,{i % 3}\n" for i in range(13)))


def start(out, **env):
    shutil.rmtree(out, ignore_errors=True)
    everything = {**os.environ, "LD_LIBRARY_PATH": SIM, "XDG_CACHE_HOME": os.path.join(folder, "cache"), "MPC_CUDASIM_ONCE": "1", **env}
    return subprocess.Popen([MPC, "train", "m.mpg", "--device", "cuda", "--out", out], env=everything, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def train(out="run", **env):
    p = start(out, **env)
    err = p.communicate(timeout=200)[1]
    return p.returncode, err


def weights(out):
    with open(glob.glob(os.path.join(out, "checkpoints", "*", "weights.safetensors"))[0], "rb") as f:
        return f.read()


def checksum(data):  # of runtime/cpu/object_cache.c
    value, mask = 0xCBF29CE484222325, (1 << 64) - 1
    whole = len(data) // 8 * 8
    for (word,) in struct.iter_unpack("<Q", data[:whole]):
        value = ((value ^ word) * 0x100000001B3) & mask
        value ^= value >> 32
    for byte in data[whole:]:
        value = ((value ^ byte) * 0x100000001B3) & mask
    return value


def sealed(data):
    return data + b"mpcobj1\n" + struct.pack("<QQ", len(data), checksum(data))


def cubins():
    return sorted(glob.glob(os.path.join(CACHE, "*.cubin")))


def damage(change):
    for path in cubins():
        with open(path, "rb") as f:
            data = f.read()
        with open(path, "wb") as f:
            f.write(change(data))


# three processes fill one cache
runs = [start(f"at-once-{i}") for i in range(3)]
texts = [p.communicate(timeout=200)[1] for p in runs]
check([p.returncode for p in runs] == [0, 0, 0], texts)
check(len({weights(f"at-once-{i}") for i in range(3)}) == 1, "they differ")
check(not [n for n in os.listdir(CACHE) if ".tmp" in n], os.listdir(CACHE))
first = weights("at-once-0")
check(len(cubins()) > 1 and all(sealed(open(p, "rb").read()[:-24]) == open(p, "rb").read() for p in cubins()), "the form of a cubin has changed")

# all files are damaged; all are whole, and the driver refuses each
for name, change in (("cut", lambda d: d[:1000]), ("of another maker", lambda d: sealed(b"XXXX" + d[4:-24])),
                     ("of another version", lambda d: sealed(d[:8] + b"\x99" * 4 + d[12:-24])), ("empty", lambda d: b"")):
    damage(change)
    status, err = train()
    check(status == 0 and weights("run") == first, name, err)

# a compiler that makes only what the driver refuses: an end, and a line
status, err = train(MPC_CUDASIM_FAIL="cuModuleLoadData:1+")
check(status == 1 and "E624" in err and len(err.splitlines()) == 1, err)

# what killed processes left goes, after a while
train()
stale, young = os.path.join(CACHE, "0123456789abcdef.1.2.tmp.cubin"), os.path.join(CACHE, "0123456789abcdef.3.4.tmp.cubin")
other = os.path.join(CACHE, "notes.tmp")
for path in (stale, young, other):
    open(path, "w", encoding="utf-8").close()
old = time.time() - 7200
for path in (stale, other, os.path.join(CACHE, "swept")):
    os.utime(path, (old, old))
check(train()[0] == 0 and not os.path.exists(stale) and os.path.exists(young) and os.path.exists(other), os.listdir(CACHE))

# no place for a cache
status, err = train(XDG_CACHE_HOME="/proc", TMPDIR="/proc")
check(status == 1 and "E662" in err, err)

# a driver without a function that is needed; a folder without a driver
os.mkdir("old")
for path in glob.glob(os.path.join(SIM, "lib*")):
    shutil.copy(path, "old")
with open("old/libcuda.so.1", "r+b") as f:
    data = f.read().replace(b"\0cuGraphLaunch\0", b"\0cuGraphLaunc_\0")
    f.seek(0)
    f.write(data)
status, err = train(LD_LIBRARY_PATH=os.path.abspath("old"))
check(status == 1 and "E620" in err and "cuGraphLaunch" in err and "too old" in err, err)

# little memory
for memory, word in (("1000", "1000"), ("30000000", "28.6 MiB")):
    status, err = train("little", MPC_CUDASIM_MEMORY=memory)
    check(status == 1 and "E623" in err and " MiB of GPU memory" in err and (memory == "1000" or word in err), err)
    check(not os.path.exists("little"), "a run was begun")

os.chdir("/")
shutil.rmtree(folder)
sys.exit(1 if failures else 0)
