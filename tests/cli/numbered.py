"""Calls without names of their own are numbered. A checkpoint made with another number of them loads none of them, so that
equal shapes never come to stand in another call's place; labels and --rename say which is which."""
from support import Folder, check, final_checkpoint, finish, read_safetensors

MODEL = """block body(x, n: int) {
    h = relu(linear(x, n))
    h = relu(linear(h, n))
    return h
}
model m(x: f32[batch, 4], y: i32[batch]) {
    h = body(x, 4) as body
    logits = linear(h, 3) as head
    loss ce = cross_entropy(logits, y)
    output p = softmax(logits)
}
data {
    train = csv("train.csv")
    input x = columns[0:4]
    input y = columns[4]
}
train {
    precision = f32
    batch     = 16
    length    = 3 steps
}
"""
# one more call before the two: every shape is as before, every number means another call
MORE = MODEL.replace("    h = relu(linear(x, n))\n", "    x = relu(linear(x, n))\n    h = relu(linear(x, n))\n")
LABELS = MORE.replace("    h = relu(linear(x, n))\n", "    h = relu(linear(x, n) as first)\n").replace(
    "    h = relu(linear(h, n))\n", "    h = relu(linear(h, n) as second)\n")


def weights(folder, run):
    """Metadata, and name -> bytes, of the newest checkpoint."""
    tensors, metadata, _ = read_safetensors(final_checkpoint(folder, "runs/" + run)[1]["weights.safetensors"])
    return metadata, {n: raw for n, (_, _, raw) in tensors.items()}


with Folder() as f:
    f.put("m.mpg", MODEL)
    f.put("more.mpg", MORE)
    f.put("labels.mpg", LABELS)
    f.mpc("train", "m.mpg", "--out", "runs/two")
    metadata, old = weights(f, "two")
    check(metadata["numbered"] == "body.linear=2", metadata)

    lists = """error[E402]: 3 calls are numbered under `body.linear` in this model, 2 in runs/two (best): numbers don't say which is which
  here      body.linear.0.weight  [4, 4]
            body.linear.0.bias    [4]
            body.linear.1.weight  [4, 4]
            body.linear.1.bias    [4]
            body.linear.2.weight  [4, 4]
            body.linear.2.bias    [4]
  there     body.linear.0.bias    [4]
            body.linear.0.weight  [4, 4]
            body.linear.1.bias    [4]
            body.linear.1.weight  [4, 4]
help: give the calls labels, linear(x, n) as first, and say which is which: %s--rename 'body.linear.*=body.{first,second}'
"""
    r = f.mpc("train", "more.mpg", "--init", "runs/two", status=1)
    check(r.err == lists % "", r.err)
    r = f.mpc("eval", "more.mpg", "--from", "runs/two", "--split", "train", status=1)
    check(r.err == lists % "mpc train --init DIR ", r.err)

    # --allow-missing leaves all of them at their initial values: nothing is shifted
    f.mpc("train", "more.mpg", "--steps", "1", "--set", "optimizer.lr=0", "--out", "runs/none")
    f.mpc("train", "more.mpg", "--steps", "1", "--set", "optimizer.lr=0", "--out", "runs/afresh", "--init", "runs/two",
          "--allow-missing", "body.linear.**")
    _, none = weights(f, "none")
    _, afresh = weights(f, "afresh")
    check(all(none[n] == afresh[n] for n in none if n.startswith("body.")), "numbered names stay afresh")
    check(afresh["head.weight"] == old["head.weight"], "others load")

    # labels, and a rule that says which number is which
    f.mpc("train", "labels.mpg", "--steps", "1", "--set", "optimizer.lr=0", "--out", "runs/told", "--init", "runs/two",
          "--rename", "body.linear.*=body.{first,second}", "--allow-missing", "body.linear.*")
    _, told = weights(f, "told")
    for number, word in enumerate(("first", "second")):
        for part in ("weight", "bias"):
            check(told[f"body.{word}.{part}"] == old[f"body.linear.{number}.{part}"], word, part)

    # the same number of calls loads
    f.mpc("eval", "m.mpg", "--from", "runs/two", "--split", "train")
    f.mpc("train", "m.mpg", "--resume", "runs/two")

finish()
