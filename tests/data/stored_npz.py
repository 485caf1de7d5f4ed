"""An NPZ whose stored member is larger than 64 MiB is read where it lies: every row is the right one, and the member isn't copied."""
import os
import struct
import subprocess
import sys
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "cli"))
from support import MPC, Folder, check, finish  # noqa: E402

ROWS, COLUMNS = 640, 65536  # 160 MiB of f32
MODEL = """
model m(x: f32[batch, 65536], y: i32[batch]) {
    few = x[:, 0:4]
    loss ce = cross_entropy(linear(few, 3) as head, y)
    output same = concat([few, x[:, 65532:65536]], axis = 1)
}
data {
    train   = npz("large.npz")
    input x = field["x"]
    input y = field["y"]
}
train {
    precision = f32
    batch     = 8
    length    = 5 steps
    seed      = 1
}
"""


def head(kind, shape):
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({', '.join(map(str, shape))},), }}"
    return b"\x93NUMPY\1\0" + struct.pack("<H", 118) + text.ljust(117).encode() + b"\n"


def row_of(i):
    """The first and the last four numbers of a row; zeros lie between."""
    return [i, i + 0.25, -i, 1 / (i + 1)], [i + 0.5, 2 * i, 7, -1 / (i + 2)]


def checksum():
    zeros = bytes(4 * (COLUMNS - 8))
    crc = zlib.crc32(head("<f4", (ROWS, COLUMNS)))
    for i in range(ROWS):
        first, last = row_of(i)
        crc = zlib.crc32(struct.pack("<4f", *last), zlib.crc32(zeros, zlib.crc32(struct.pack("<4f", *first), crc)))
    return crc


def write(path):
    """A ZIP of two stored members, with holes for the zeros."""
    labels = head("<i4", (ROWS,)) + struct.pack(f"<{ROWS}i", *(i % 3 for i in range(ROWS)))
    large = head("<f4", (ROWS, COLUMNS))
    members = [("y.npy", len(labels), zlib.crc32(labels)), ("x.npy", len(large) + 4 * ROWS * COLUMNS, checksum())]
    directory = b""
    with open(path, "wb") as f:
        for name, size, crc in members:
            common = struct.pack("<HHHHHIIIHH", 20, 0, 0, 0, 33, crc, size, size, len(name), 0)
            directory += b"PK\1\2" + struct.pack("<H", 20) + common + struct.pack("<HHHII", 0, 0, 0, 0, f.tell()) + name.encode()
            f.write(b"PK\3\4" + common + name.encode())
            begin = f.tell()
            f.write(labels if name == "y.npy" else large)
            for i in range(ROWS if name == "x.npy" else 0):
                first, last = row_of(i)
                f.seek(begin + len(large) + 4 * i * COLUMNS)
                f.write(struct.pack("<4f", *first))
                f.seek(4 * (COLUMNS - 8), os.SEEK_CUR)
                f.write(struct.pack("<4f", *last))
        at = f.tell()
        f.write(directory + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 2, 2, len(directory), at, 0))


def run(f, *words):
    """Standard output, and the most memory in MiB that the process held."""
    p = subprocess.Popen([MPC, *words, "--device", "ref"], cwd=f.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = p.stdout.read().decode(), p.stderr.read().decode()
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    check(p.returncode == 0, err)
    return out, usage.ru_maxrss / 1024


with Folder(MODEL) as f:
    f.put("m.mpg", MODEL)
    write(f.at("large.npz"))
    if b"without minizip" in subprocess.run([MPC, "info"], capture_output=True).stdout:
        print("skipped: this mpc was built without minizip", file=sys.stderr)
        sys.exit(77)
    _, memory = run(f, "train", "m.mpg", "--out", "run")
    # pages of the file that were touched count as resident; a copy would be all of them, and the check sum reads none
    check(memory < 100, f"{memory:.0f} MiB resident")
    out, _ = run(f, "predict", "m.mpg", "--from", "run", "--input", "large.npz")
    lines = out.splitlines()[1:]
    check(len(lines) == ROWS, len(lines))
    for i, line in enumerate(lines):
        want = [v for part in row_of(i) for v in part]
        got = [float(v) for v in line.split(",")]
        check(all(abs(a - b) <= 1e-6 * abs(b) for a, b in zip(got, want)), i, got, want)
finish()
