"""mpc fmt replaces whole files, only those whose layout changes, and leaves what it can't read alone."""
import glob
import gzip
import os

from support import Folder, check, finish

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
OURS = [os.path.abspath(f) for name in ("examples", "bench", "std") for f in glob.glob(os.path.join(ROOT, name, "*.mpg"))]
LOOSE = "const  a=1 # why\n\n\n\nconst b = 2"
NEAT = "const a = 1  # why\n\nconst b = 2\n"


def fmt(f, *args, status=0, stdin=None):
    return f.mpc("fmt", *args, status=status, stdin=stdin, device=None)


with Folder() as f:
    # The repository's own files have the layout.
    check(len(OURS) > 15)
    check(fmt(f, "--check", *OURS).out == "")

    # --check names the files and changes nothing, --stdout changes nothing either, - is a filter.
    f.put("a.mpg", LOOSE)
    f.put("b.mpg", NEAT)
    f.put("broken.mpg", "const  a = (1\n")
    check(fmt(f, "--check", "a.mpg", "b.mpg", status=1).out == "a.mpg\n")
    check(fmt(f, "--stdout", "a.mpg").out == NEAT)
    check(f.get("a.mpg").decode() == LOOSE)
    check(fmt(f, "-", stdin=LOOSE.encode()).out == NEAT)
    check(fmt(f, "-", "--check", status=1, stdin=LOOSE.encode()).out == "-\n")

    # Broken files stay, the others are formatted; what was in order isn't written at all.
    os.chmod(f.at("a.mpg"), 0o640)
    os.symlink("a.mpg", f.at("link.mpg"))
    before = os.stat(f.at("b.mpg"))
    r = fmt(f, "broken.mpg", "none.mpg", "link.mpg", "b.mpg", status=1)
    check("E005" in r.err and "broken.mpg:1:12" in r.err and "E210" in r.err, r.err)
    check(f.get("broken.mpg") == b"const  a = (1\n")
    check(f.get("a.mpg").decode() == NEAT and os.path.islink(f.at("link.mpg")))
    check(os.stat(f.at("a.mpg")).st_mode & 0o777 == 0o640)
    after = os.stat(f.at("b.mpg"))
    check((before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns))
    check(sorted(n for n in os.listdir(f.path) if ".tmp" in n) == [])

    # A packed file isn't turned into a plain one; a full disk costs nothing.
    f.put("packed.mpg", gzip.compress(LOOSE.encode()))
    packed = f.get("packed.mpg")
    check("E420" in fmt(f, "packed.mpg", status=1).err and f.get("packed.mpg") == packed)
    f.put("long.mpg", "const  a = 1\n" * 2000)
    f.mpc("fmt", "long.mpg", status=1, device=None, file_size=4096)
    check(f.get("long.mpg") == b"const  a = 1\n" * 2000)

    # A file that may not be written stays, though its folder may be.
    if os.geteuid() != 0:  # root may write everything
        f.put("locked.mpg", LOOSE)
        os.chmod(f.at("locked.mpg"), 0o444)
        check("E420" in fmt(f, "locked.mpg", status=1).err and f.get("locked.mpg") == LOOSE.encode())

    # --name: labels where only a number told calls apart; nothing is left to name afterwards.
    f.put("numbered.mpg", "block f(x) {\n    return linear(relu(linear(relu(x), 8)), 8)[:, 0:1]\n}\n")
    named = "block f(x) {\n    return linear(relu(linear(relu(x), 8) as linear_0), 8) as linear_1[:, 0:1]\n}\n"
    check(fmt(f, "--check", "numbered.mpg").out == "")
    check(fmt(f, "--name", "--stdout", "numbered.mpg").out == named)
    fmt(f, "--name", "numbered.mpg")
    check(f.get("numbered.mpg").decode() == named and fmt(f, "--name", "--check", "numbered.mpg").out == "")

    f.put("empty.mpg", "")
    check(fmt(f, "empty.mpg").out == "" and f.get("empty.mpg") == b"")
    fmt(f, status=2)
    fmt(f, "a.mpg", "--chekc", status=2)

finish()
