"""field_cases.md names a test for every field case, and that test is there. Argument: the repository."""
import collections
import os
import re
import sys

ROOT = sys.argv[1]
HERE = os.path.join(ROOT, "tests", "numerics")
COUNTS = dict(S=11, R=9, O=9, U=4, G=4, I=5, W=7, C=9, F=5, D=3, P=4, B=3, X=7)
OPEN = {103, 104, 109}  # they need f8 and recomputation, which aren't built
errors = []


def check(ok, *what):
    if not ok:
        errors.append(what)
        print("failed:", *what, file=sys.stderr)


def holds(test, number):
    """`path` mentions the case; `path: name` has a function or a graph of that name."""
    path, _, name = test.partition(": ")
    full = os.path.join(ROOT, "tests", path)
    if not os.path.exists(full):
        return False
    with open(full, encoding="utf-8") as f:
        text = f.read()
    mentions = re.search(rf"fc-?{number:03}(?![0-9])", os.path.basename(path) + text, re.IGNORECASE)
    return bool(mentions) and (not name or re.search(rf"(def|static void) {name}\b", text))


seen = collections.Counter()
numbers = set()
with open(os.path.join(HERE, "field_cases.md"), encoding="utf-8") as table:
    for line in table:
        row = re.match(r"\| FC-(\d+) \| ([A-Z]) \| [^|]+ \| ([^|]+) \|$", line)
        check(row or not line.startswith("| FC"), "no row:", line.strip())
        if not row:
            continue
        number, tests = int(row[1]), row[3].split(", ")
        check(number not in numbers, "twice:", number)
        numbers.add(number)
        seen[row[2]] += 1
        if number in OPEN:
            check(row[3] == "-", "is built now:", number)
        else:
            check(all(holds(t, number) for t in tests), f"FC-{number:03}:", [t for t in tests if not holds(t, number)])
check(seen == collections.Counter(COUNTS), "cases by class:", dict(seen))
print(f"{len(numbers)} cases, {len(errors)} errors", file=sys.stderr)
sys.exit(bool(errors))
