"""Odd surroundings of a run: no compiler, a damaged or unusable cache of kernels, two runs at once, no home, closed or full outputs,
names that are no ASCII, places that can't be written to. The final checkpoint is the same each time, bit for bit, or the run ends
with a message and without half a folder."""
import os
import shutil
import stat
import subprocess
import tempfile
import threading

from support import ENVIRONMENT, MPC, check, fails, finish, mpc, survives

MODEL = """model m(x: f32[batch, 16], y: i32[batch]) {
    h = relu(batch_norm(conv2d(reshape(x, [batch, 4, 4, 1]), 5, kernel = 3, pad = 1) as conv) as norm)
    logits = linear(dropout(flatten(h), 0.1), 3) as head
    loss ce = cross_entropy(logits, y)
    output p = softmax(logits)
}
data {
    train = csv("train.csv")
    input x = columns[0:16] / 16
    input y = columns[16]
}
train {
    precision = bf16
    optimizer = adamw(lr = 1e-2)
    batch = 8
    length = 12 steps
    save_every = 4 steps
}
"""
ROWS = "".join(",".join(str((i * 7 + k * k) % 17) for k in range(16)) + f",{i % 3}\n" for i in range(41))


class Place:
    def __init__(self, name="mpc-robust-"):
        self.path = tempfile.mkdtemp(prefix=name)
        for file, text in (("m.mpg", MODEL), ("train.csv", ROWS)):
            with open(self.at(file), "w", encoding="utf-8") as f:
                f.write(text)
        self.cache = {"XDG_CACHE_HOME": self.at("cache")}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def at(self, *names):
        return os.path.join(self.path, *names)

    def train(self, out, *options, env=None, **how):
        return mpc("train", "m.mpg", "--out", out, *options, cwd=self.path, env={**self.cache, **(env or {})}, **how)

    def final(self, run):
        with open(self.at(run, "checkpoints", "last"), encoding="ascii") as f:
            step = f.read().strip()
        files = [step]
        for name in ("weights.safetensors", "state.safetensors"):
            with open(self.at(run, "checkpoints", step, name), "rb") as f:
                files.append(f.read())
        return files

    def same(self, run, want, result):
        if survives(result, 0):
            check(self.final(run) == want, "another final checkpoint", run, result.err)


def kernels_of(cache):
    return [os.path.join(folder, f) for folder, _, files in os.walk(cache) for f in files]


def threads_and_cache(p, want):
    for n in range(1, 9):
        p.same(f"threads{n}", want, p.train(f"threads{n}", "--threads", str(n)))
    files = kernels_of(p.at("cache"))
    check(files, "compiled kernels are kept")
    for kind in ("empty", "cut", "text", "zeros"):
        for path in kernels_of(p.at("cache")):
            with open(path, "rb") as f:
                data = f.read()
            os.remove(path)
            with open(path, "wb") as f:
                f.write({"empty": b"", "cut": data[:len(data) // 2], "text": b"not a library", "zeros": bytes(len(data))}[kind])
        p.same(f"cache_{kind}", want, p.train(f"cache_{kind}"))
    for path in kernels_of(p.at("cache")):
        os.remove(path)
        os.mkdir(path)
    survives(p.train("cache_folders"))


def two_at_once(p, want):
    shutil.rmtree(p.at("cache"))
    results = [None, None, None]

    def one(i):
        results[i] = p.train(f"twin{i}")

    threads = [threading.Thread(target=one, args=(i,)) for i in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i, r in enumerate(results):
        p.same(f"twin{i}", want, r)


def odd_environment(p, want):
    shutil.rmtree(p.at("cache"), ignore_errors=True)
    r = p.train("no_compiler", env={"MPC_CC": "/nonexistent/cc"})
    survives(r)
    check("E660" in r.codes or "ref" in r.err, r.err)
    r = p.train("bad_compiler", env={"MPC_CC": "/bin/false"})
    survives(r)
    check(r.codes, r.err)
    bare = {k: v for k, v in ENVIRONMENT.items() if k not in ("HOME", "XDG_CACHE_HOME")}
    bare["TMPDIR"] = p.path
    r = subprocess.run([MPC, "train", "m.mpg", "--out", "no_home"], cwd=p.path, capture_output=True, env=bare, timeout=60, check=False)
    check(r.returncode == 0 and p.final("no_home") == want, r.returncode, r.stderr.decode())
    for where in ("/dev/null", "/proc/nothing", p.at("m.mpg"), ""):
        p.same("cache_at" + where.replace("/", "_"), want, p.train("cache_at" + where.replace("/", "_"), env={"XDG_CACHE_HOME": where, "TMPDIR": p.path}))
    os.mkdir(p.at("shared"))
    os.mkdir(p.at("shared", f"mpc-{os.geteuid()}"))
    os.chmod(p.at("shared", f"mpc-{os.geteuid()}"), 0o777)
    fails(p.train("shared_run", env={"XDG_CACHE_HOME": "/dev/null", "TMPDIR": p.at("shared")}), "E662")
    p.same("plain", want, p.train("plain", env={"NO_COLOR": "1", "TERM": "dumb", "LC_ALL": "C"}))
    for locale in ("C", "C.UTF-8", "de_DE.UTF-8", "nowhere"):
        p.same("loc" + locale, want, p.train("loc" + locale, env={"LC_ALL": locale}))


def outputs(p, want):
    """stdout and stderr closed, full, or a pipe whose reader has gone."""
    for name, redirect, statuses in (("out_closed", ">&-", (0, 1)), ("err_closed", "2>&-", (0,)), ("both_closed", ">&- 2>&-", (0, 1)),
                                     ("out_full", ">/dev/full", (1,)), ("err_full", "2>/dev/full", (0,)), ("in_closed", "<&-", (0,))):
        r = subprocess.run(["sh", "-c", f'exec "$@" {redirect}', "sh", MPC, "train", "m.mpg", "--out", name], cwd=p.path,
                           capture_output=True, env={**ENVIRONMENT, **p.cache}, timeout=60, check=False)
        check(r.returncode in statuses, name, r.returncode, r.stderr.decode())
        check(p.final(name) == want, name, "another checkpoint")
    for words in (["ops"], ["dump-ir", "m.mpg"], ["train", "m.mpg", "--out", "pipe"]):
        read, write = os.pipe()
        os.close(read)
        r = subprocess.run([MPC, *words], cwd=p.path, stdout=write, stderr=subprocess.PIPE, env={**ENVIRONMENT, **p.cache}, timeout=60,
                           check=False)
        os.close(write)
        check(r.returncode in (0, 1, -13, 128 + 13), words, r.returncode, r.stderr.decode())
    for words in (("predict", "--input", "train.csv", "--out", "/dev/full"), ("predict", "--input", "train.csv", "--out", p.at("no", "where.csv")),
                  ("predict", "--input", "train.csv", "--out", p.path)):
        fails(mpc(words[0], "m.mpg", "--from", "plain", *words[1:], cwd=p.path, env=p.cache), "E420")
    long_listing = subprocess.run(["sh", "-c", 'exec "$@" >/dev/full', "sh", MPC, "dump-ir", "m.mpg"], cwd=p.path, capture_output=True,
                                  env={**ENVIRONMENT, **p.cache}, timeout=60, check=False)
    check(long_listing.returncode == 1 and b"standard output" in long_listing.stderr, "dump-ir to a full disk", long_listing.returncode)
    pipes(p)


def pipes(p):
    """A named pipe is written to, and stays one: a rename would put a file in its place."""
    with open(p.at("g.mpir"), "w", encoding="utf-8") as f:
        f.write('mpir 1\ngraph @g(%a: f32[2]) {\n  %b = neg(%a) : f32[2]\n  return("b": %b)\n}\n')
    os.mkfifo(p.at("pipe.mpir"))
    with subprocess.Popen(["cat", p.at("pipe.mpir")], stdout=subprocess.PIPE) as reader:
        r = mpc("opt", "g.mpir", "--out", "pipe.mpir", cwd=p.path, env=p.cache)
        if not stat.S_ISFIFO(os.stat(p.at("pipe.mpir")).st_mode):
            reader.kill()
        text = reader.communicate(timeout=60)[0]
    check(r.status == 0 and b"%b = neg(%a)" in text, "opt into a pipe", r.status, text)
    check(stat.S_ISFIFO(os.stat(p.at("pipe.mpir")).st_mode), "the pipe has become a file")


def places(p, want):
    for where in ("/dev/null", "/dev/null/run", "/proc/run", p.at("m.mpg")):
        r = p.train(where)
        survives(r)
        check(r.status in (1, 2), where, r.status)
    os.mkdir(p.at("closed"))
    os.chmod(p.at("closed"), 0o500)
    if os.geteuid() != 0:
        fails(p.train(p.at("closed", "run")))
    if os.geteuid() == 0 and shutil.which("mount"):
        small = p.at("small")
        os.mkdir(small)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "none", small], capture_output=True, check=False).returncode == 0:
            fails(p.train(os.path.join(small, "run")), "E420")
            subprocess.run(["umount", small], check=False)
    with Place("mpc-r\u00f6bust \u2713 'q\" ") as odd:
        odd.same("l\u00e4uft", want, odd.train("l\u00e4uft", env={"LC_ALL": "C"}))
        survives(mpc("predict", odd.at("m.mpg"), "--from", odd.at("l\u00e4uft"), "--input", odd.at("train.csv"), "--out", odd.at("\u00fc.csv"),
                     env={**odd.cache, "LC_ALL": "C"}), 0)
        long_name = "n" * 255
        survives(odd.train(long_name + "n"), 1)
        survives(odd.train("/".join([long_name] * 20)), 1)


with Place() as place:
    first = place.train("first")
    if survives(first, 0):
        final = place.final("first")
        threads_and_cache(place, final)
        two_at_once(place, final)
        odd_environment(place, final)
        outputs(place, final)
        places(place, final)
finish()
