"""A model of one column and one row, trained through the command line: its steps, and its states as numbers. For field cases whose
right values are those of an update."""
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from support import Folder, read_safetensors  # noqa: E402


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def numbers(kind, data):
    """Elements of a tensor of a safetensors file."""
    if kind == "BF16":
        return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]
    code = {"F32": "f", "F16": "e", "I32": "i", "I64": "q", "BOOL": "?"}[kind]
    return list(struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data))


class Case(Folder):
    """`body`: lines of a model whose input `x` is 1 unless `x` says otherwise; `train`: lines of the section."""

    def __init__(self, body, train, params=(), x=1):
        text = "model case(x: f32[batch]) {\n" + "\n".join(body) + "\n}\n"
        text += "data {\n    train = csv(\"rows.csv\", header = false)\n    input x = columns[0]\n}\n"
        text += "params {\n" + "\n".join(params) + "\n}\n" if params else ""
        text += "train {\nbatch = 1\nsave_every = 1000000 steps\neval_every = 1000000 steps\n" + "\n".join(train) + "\n}\n"
        super().__init__(text, 4, 4)
        self.put("case.mpg", text)
        self.put("rows.csv", f"{x}\n")

    def train(self, *args, out="run", **keywords):
        settings = [w for a in args if "=" in a for w in ("--set", a)]
        self.result = self.mpc("train", "case.mpg", "--out", out, "--overwrite", *settings, *(a for a in args if "=" not in a), **keywords)
        return self.steps(out)

    def tensor(self, name, part="weights", run="run", step=None):
        folder = f"step-{step:08}" if step else self.get(run, "checkpoints", "last").decode().strip()
        kind, _, data = read_safetensors(self.get(run, "checkpoints", folder, part + ".safetensors"))[0][name]
        self.kind = kind
        return numbers(kind, data)

    def files(self, run="run"):
        folder = self.get(run, "checkpoints", "last").decode().strip()
        return [self.get(run, "checkpoints", folder, f) for f in ("weights.safetensors", "state.safetensors")]

    def tensors(self, run="run"):
        """All states, without what the files say of the run."""
        return [read_safetensors(data)[0] for data in self.files(run)]
