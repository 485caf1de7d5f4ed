"""mpc train FILE.mpg --help says what the file has of its own, with its ## comments; it needs neither data nor a graph."""
from support import Folder, check, finish

MODEL = """## how wide the hidden layers are
## (more is slower)
const width = 16
const classes = 3  ## species of iris
# an ordinary comment

## lost: an empty line follows

const sizes = [1,
               2]

## linear, then relu
block layer(x: [n, c],  # rows
            out: int = 3) -> [n, out] {
    return relu(linear(x, out) as fc)
}
block two(x) {  ## beside
    return unknown(x)
}
## tells irises apart
model iris(
    lengths: f32[batch, 4],  ## of sepal and petal
    ## which one
    kind: i32[batch]
) {
    logits = linear(two(layer(lengths, width)), classes) as head
    loss   ce = cross_entropy(logits, kind)
    output p  = softmax(logits)  ## a probability for each species
    output logits
}
data {
    train = csv("none.csv")
    input lengths = columns[0:4]  ## in tenths of a millimetre
    input kind    = columns[4]
}
"""
SAYS = """iris.mpg: model iris: tells irises apart

constants, for --const NAME=VALUE
  width = 16                              how wide the hidden layers are (more is slower)
  classes = 3                             species of iris
  sizes = [1, 2]

inputs
  lengths: f32[batch, 4]                  of sepal and petal in tenths of a millimetre
  kind: i32[batch]                        which one

outputs
  p = softmax(logits)                     a probability for each species
  logits

blocks
  layer(x: [n, c], out: int = 3) -> [n, out]
                                          linear, then relu
  two(x)                                  beside

options
"""

with Folder() as f:
    f.put("iris.mpg", MODEL)
    out = f.mpc("train", "iris.mpg", "--help").out
    check(SAYS in out, out)
    check("--resume" in out and out.startswith("mpc train FILE.mpg\n"))
    check(SAYS in f.mpc("explain", "--help", "iris.mpg").out)
    check("--resume" in f.mpc("train", "--help").out and "constants" not in f.mpc("help", "train").out)
    f.put("plain.mpg", "model m(x) {\n    loss l = x\n}\n")
    check("plain.mpg: model m\n\ninputs\n  x\n\noptions\n" in f.mpc("train", "plain.mpg", "--help").out)
    f.put("blocks.mpg", "block f(x) { return x }\n")
    check("blocks.mpg\n\nblocks\n  f(x)\n" in f.mpc("train", "blocks.mpg", "--help").out)
    f.put("broken.mpg", "model m(x {\n")
    check("E0" in f.mpc("train", "broken.mpg", "--help", status=1).err)
    check("E210" in f.mpc("train", "none.mpg", "--help", status=1).err)

finish()
