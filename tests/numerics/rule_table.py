"""Every rule that docs/precision.md lists as built has a test named after it, and every test that is named after a rule names one that
the page explains. A test's name is a file of tests/passes or a function in the tests' sources."""
import glob
import os
import re
import sys

root = sys.argv[1]
with open(os.path.join(root, "docs", "precision.md"), encoding="utf-8") as f:
    page = f.read()
built, _, missing = page.partition("## Not built")
rules = {r for line in built.splitlines() if line.startswith("- **N") for r in re.findall(r"N\d\d", line.split("**")[1])}
unbuilt = set(re.findall(r"\bN\d\d\b", missing))

tests = {}
for path in glob.glob(os.path.join(root, "tests", "passes", "n*.mpir")):
    tests.setdefault("N" + os.path.basename(path)[1:3], []).append(os.path.basename(path))
for path in glob.glob(os.path.join(root, "tests", "*", "*.c")):
    with open(path, encoding="utf-8") as f:
        for number in re.findall(r"^static void n(\d\d)_\w+\(", f.read(), re.M):
            tests.setdefault("N" + number, []).append(os.path.basename(path))

problems = [f"{r}: listed as built in docs/precision.md, but no test is named after it" for r in sorted(rules - tests.keys())]
problems += [f"{r}: tested ({tests[r][0]}), but docs/precision.md doesn't explain it" for r in sorted(tests.keys() - rules)]
problems += [f"{r}: listed as built and as not built" for r in sorted(rules & unbuilt)]
for problem in problems:
    print(problem)
for rule in sorted(rules & tests.keys()):
    print(f"{rule}  {' '.join(sorted(set(tests[rule])))}")
sys.exit(1 if problems or len(rules) < 20 else 0)
