"""mpc explain --dot: a small reader of the Graphviz language accepts it, and the picture says what the graph says; the same text for the
same model, for the examples too. Where Graphviz itself is installed it has the last word."""
import json
import os
import re
import shutil
import subprocess

from support import MODEL, Folder, check, finish

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")
TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|([A-Za-z_][A-Za-z_0-9]*|-?[0-9.]+)|(->|[{}\[\];=,]))')


class Reader:
    """digraph NAME { statements }: nodes, edges and nested subgraphs with attributes."""

    def __init__(self, text):
        self.tokens, at = [], 0
        while text[at:].strip():
            m = TOKEN.match(text, at)
            if not m:
                raise ValueError("no token at: " + text[at:at + 40])
            self.tokens.append(m.group(1) or m.group(2) or m.group(3))
            at = m.end()
        self.at, self.nodes, self.edges, self.clusters = 0, {}, [], []
        self.expect("digraph")
        self.take()
        self.block([])
        if self.at != len(self.tokens):
            raise ValueError("text behind the graph")

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self):
        self.at += 1
        return self.tokens[self.at - 1]

    def expect(self, token):
        if self.take() != token:
            raise ValueError(f"expected {token} at " + " ".join(self.tokens[max(0, self.at - 4):self.at + 2]))

    def attributes(self):
        found = {}
        self.expect("[")
        while self.peek() != "]":
            key = self.take()
            self.expect("=")
            if key in found:
                raise ValueError(f"{key} twice")
            found[key] = self.take().strip('"')
        self.expect("]")
        return found

    def block(self, path):
        self.expect("{")
        while self.peek() != "}":
            word = self.take()
            if word == "subgraph":
                name = self.take()
                self.clusters.append((name, len(path)))
                self.block(path + [name])
                continue
            if self.peek() == "=":
                self.take()
                self.take()
            elif self.peek() == "->":
                self.take()
                self.edges.append((word, self.take(), self.attributes()))
            elif word not in ("graph", "node", "edge"):
                if word in self.nodes:
                    raise ValueError(f"{word} twice")
                self.nodes[word] = dict(self.attributes(), path=path)
            else:
                self.attributes()
            self.expect(";")
        self.expect("}")


def read(f, model, *options):
    text = f.mpc("explain", model, "--dot", *options).out
    check(text == f.mpc("explain", model, "--dot", *options).out, model, "two runs differ")
    try:
        picture = Reader(text)
    except ValueError as e:
        check(False, model, e)
        return None
    for a, b, attributes in picture.edges:
        check(a in picture.nodes and b in picture.nodes, model, a, b)
        check(re.fullmatch(r"(\S+ )?(f32|bf16|f16|i32|i64|u8|bool) [0-9]+ B", attributes["label"]), attributes)
    if shutil.which("dot"):
        check(subprocess.run(["dot", "-Tcanon"], input=text.encode(), capture_output=True).returncode == 0, model)
    return picture


with Folder(MODEL.replace("precision = f32", "precision = bf16\n    solver = list")) as f:
    p = read(f, "tiny.mpg")
    graph = json.loads(f.mpc("dump-ir", "tiny.mpg", "--json").out)
    ops = [n["op"] for n in graph["nodes"] if n["results"]]
    drawn = {k: n for k, n in p.nodes.items() if k.startswith("n")}
    check(len(drawn) == len(ops), len(drawn), len(ops))
    casts = [n for n in drawn.values() if n.get("shape") == "diamond"]
    check(len(casts) == ops.count("cast") > 0 and all(n["color"] == "#cc0000" and n["penwidth"] == "3" for n in casts), casts)
    fills = {}
    for n in drawn.values():
        fills.setdefault(n["label"].split("\\n")[2].split("[")[0], set()).add(n["fillcolor"])
    check(all(len(c) == 1 for c in fills.values()) and fills["f32"] != fills["bf16"] != fills["bool"], fills)
    weight = next(n for n in drawn.values() if n["label"].startswith("fc1.weight\\nstate"))
    check(len(weight["path"]) == 1 and weight["shape"] == "cylinder", weight)
    check(sum(len(n["operands"]) for n in graph["nodes"]) + len(graph["next"]) + len(graph["outputs"]) == len(p.edges), len(p.edges))
    plain = read(f, "tiny.mpg", "--precision", "f32")
    check(not [n for n in plain.nodes.values() if n["label"].split("\\n")[1:2] == ["cast"]], plain.nodes)
    for name in ("mlp.mpg", "gpt.mpg"):
        shutil.copy(os.path.join(EXAMPLES, name), f.at(name))
        p = read(f, name)
        check(max(depth for _, depth in p.clusters) >= (1 if name == "gpt.mpg" else 0), p.clusters)
finish()
