"""A character model: trains on text, writes text, the same for the same seed; names and paths outside ASCII."""
import json
import os

from support import Folder, check, finish

MODEL = """
model char(tokens: i32[batch, time], targets: i32[batch, time]) {
    x = embedding(tokens, vocabulary, 16)
    logits = linear(relu(linear(x, 32) as up), vocabulary) as head
    loss nll = cross_entropy(logits, targets)
    metric perplexity = perplexity(logits, targets)
    output logits = logits
}
data {
    train = text("слово.txt", length = 8)
    valid = split(train, 0.1)
    input tokens  = window
    input targets = next(window)
}
train {
    precision = f32
    optimizer = adamw(lr = 3e-2)
    batch     = 8
    length    = 30 epochs
}
"""

with Folder() as f:
    os.mkdir(f.at("модель"))
    f.put("модель/буква.mpg", MODEL)
    f.put("модель/слово.txt", "абвг" * 150)
    env = {"LC_ALL": "C"}
    r = f.mpc("train", "модель/буква.mpg", "--out", "прогон", env=env)
    check(r.out.splitlines()[-1].startswith("valid perplexity 1"), r.out)
    greedy = f.mpc("predict", "модель/буква.mpg", "--from", "прогон", "--prompt", "аб", "--length", "10", "--temperature", "0", env=env)
    check(greedy.out == "абвгабвгабвг\n", greedy.out)
    r = f.mpc("predict", "модель/буква.mpg", "--from", "прогон", "--prompt", "аб", "--length", "4", "--top-k", "1", "--json", env=env)
    check(json.loads(r.out) == {"prompt": "аб", "text": "вгаб"}, r.out)
    args = ("predict", "модель/буква.mpg", "--from", "прогон", "--length", "50", "--temperature", "30")
    one, two, three = (f.mpc(*args, "--seed", s, env=env).out for s in ("1", "1", "2"))
    check(one == two and one != three and len(one) == 51, one)
    check("E217" in f.mpc("predict", "модель/буква.mpg", "--from", "прогон", "--prompt", "z", status=1, env=env).err)
    check("E387" in f.mpc("predict", "модель/буква.mpg", "--from", "прогон", "--input", "x.csv", status=1, env=env).err)
    # a model that says probabilities writes what its logits would: declared, cast, reshaped, or normalised by hand
    text = f.mpc("predict", "модель/буква.mpg", "--from", "прогон", "--length", "60", env=env).out
    for name, output in (("declared", "softmax(logits)"), ("cast", "cast(softmax(logits), f32)"),
                         ("byhand", "exp(logits) / sum(exp(logits), axis = -1, keep = true)"),
                         ("logarithms", "log_softmax(logits)")):
        f.put(f"модель/{name}.mpg", MODEL.replace("output logits = logits", f"output next = {output}"))
        r = f.mpc("predict", f"модель/{name}.mpg", "--from", "прогон", "--length", "60", env=env)
        check(r.out == text and len(set(text)) > 2, name, r.out, text)

    f.put("модель/слово.txt", b"ab\xff" * 100)
    r = f.mpc("train", "модель/буква.mpg", status=1, env=env)
    check("E215" in r.err and "byte 2" in r.err and "слово.txt" in r.err, r.err)
    f.put("модель/слово.txt", "короче")
    check("E216" in f.mpc("train", "модель/буква.mpg", status=1, env=env).err)

finish()
