"""The commonest mistakes that only a run can make, word for word as they are printed; those of the model's text are in
tests/lang/messages."""
import os
import random
import re

from support import Folder, check, finish

MODEL = """model digits(image: f32[batch, 8, 8, 1], digit: i32[batch]) {
    h = relu(conv2d(image, 2, kernel = 3) as conv)
    logits = linear(flatten(h), 10) as head
    loss ce = cross_entropy(logits, digit)
}
data {
    train = csv("digits-train.csv")
    input image = reshape(columns[0:64], [8, 8, 1]) / 16
    input digit = columns[64]
}
train {
    precision = f32
    batch     = 8
    length    = 2 steps
}
"""


def table(shift):
    rng = random.Random(3)
    lines = [",".join(str(rng.randrange(17)) for _ in range(64)) + f",{i % 10 + shift}" for i in range(40)]
    return "\n".join(lines) + "\n"


said = []


def says(result, text):
    said.append(text.split("\n")[0])
    check(result.err == text, f"\n{result.err}\nnot\n{text}")


with Folder() as f:
    f.put("digits.mpg", MODEL)
    f.put("digits-train.csv", table(1))
    says(f.mpc("train", "digits.mpg", status=1), """error[E201]: class 10 in the data, but the model has classes 0 to 9
  --> digits-train.csv, row 10, column 65: `10`
note: digit -> cross_entropy(logits, digit), logits is [batch, 10] (digits.mpg:4)
      4 of 40 rows have 10; the smallest label is 1
help: labels seem to start at 1: `input digit = columns[64] - 1`
""")

    f.put("digits-train.csv", table(0))
    f.put("columns.mpg", MODEL.replace("0:64", "0:63"))
    says(f.mpc("train", "columns.mpg", status=1), """error[E203]: 63 values can't become [8, 8, 1] (64)
  --> columns.mpg:8:27
8 |     input image = reshape(columns[0:63], [8, 8, 1]) / 16
  |                           ^^^^^^^^^^^^^ columns 0 to 62; the end is not included
note: digits-train.csv has 65 columns and no header
help: columns[0:64]
""")

    says(f.mpc("train", "digits.mpg", "--set", "learning_rate=3e-4", status=1), """error[E301]: train has no key `learning_rate`
  --> --set learning_rate=3e-4
help: the learning rate is an argument of the optimizer: --set optimizer.lr=3e-4
""")

    f.mpc("train", "digits.mpg")
    f.put("renamed.mpg", MODEL.replace("as head", "as last"))
    lists = """error[E401]: 2 of 4 parameters of this model are not in runs/digits-001 (best)
  missing   last.weight  [72, 10]
            last.bias    [10]
  not used  head.weight  [72, 10]
            head.bias    [10]
"""
    says(f.mpc("train", "renamed.mpg", "--init", "runs/digits-001", status=1), lists + """help: same shapes, so probably renamed: --rename 'head.*=last.*'
      to start them afresh: --allow-missing 'last.*'
""")
    says(f.mpc("eval", "renamed.mpg", "--from", "runs/digits-001", "--split", "train", status=1),
         lists + "help: same shapes, so probably renamed from head.* to last.*; mpc train --init DIR takes --rename\n")
    # what the help says works
    for words in (("--rename", "head.*=last.*"), ("--allow-missing", "last.*")):
        f.mpc("train", "renamed.mpg", "--init", "runs/digits-001", *words)
    # other shapes, and layers that were swapped
    f.put("wide.mpg", MODEL.replace("flatten(h), 10", "flatten(h), 12"))
    r = f.mpc("train", "wide.mpg", "--init", "runs/digits-001", status=1)
    check("  differs   head.bias    [12] here, in the file [10]\n            head.weight  [72, 12] here, in the file [72, 10]\n" in r.err, r.err)

# the table of these in docs/language.md says the same
page = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "language.md")).read()
rows = re.findall(r"^\| .* \| ([EW]\d+) (.*) \| .* \|$", page.split("| done | said | instead |")[1], re.M)
check(len(rows) == 4, rows)
for code, message in rows:
    check(f"error[{code}]: {message}" in said, code, message)

finish()
