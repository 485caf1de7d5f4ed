"""Running mpc on files that are broken or odd: exit status, a diagnostic with a code, no sanitizer's report. Standard library only."""
import os
import re
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

MPC = os.path.abspath(sys.argv[1])
CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")
SANITIZER_STATUS = 86
CODE = re.compile(r"(?:error|warning)\[([EWV]\d+)\]|(?:error|warning) ([EWV]\d+)|\"code\":\s*\"([EWV]\d+)\"")
ENVIRONMENT = dict(
    os.environ,
    ASAN_OPTIONS=f"exitcode={SANITIZER_STATUS}:allocator_may_return_null=1:detect_leaks=1",
    UBSAN_OPTIONS=f"exitcode={SANITIZER_STATUS}:print_stacktrace=1",
    PYTHONDONTWRITEBYTECODE="1",
)
failures = []
checks = 0


class Result:
    def __init__(self, status, out, err, words):
        self.status, self.out, self.err, self.words = status, out, err, words
        self.codes = [a or b or c for a, b, c in CODE.findall(err)]


def mpc(*words, cwd=None, timeout=60, env=None, stdin=b"", preexec=None):
    with tempfile.TemporaryDirectory(prefix="mpc-robust-") as scratch:
        try:
            r = subprocess.run([MPC, *words], cwd=cwd or scratch, capture_output=True, input=stdin, timeout=timeout,
                               env={**ENVIRONMENT, **(env or {})}, preexec_fn=preexec)
        except subprocess.TimeoutExpired:
            return Result(None, "", f"no end within {timeout} s", words)
    return Result(r.returncode, r.stdout.decode(errors="replace"), r.stderr.decode(errors="replace"), words)


def check(condition, *what):
    global checks
    checks += 1
    if not condition:
        frame = sys._getframe(1)
        failures.append(" ".join(str(w) for w in what))
        print(f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}: failed", *what, file=sys.stderr)
    return condition


def survives(result, status=None):
    """Ends by itself with a status of the contract; with 1 there is a diagnostic with a code."""
    text = f"mpc {' '.join(result.words)}: exit status {result.status}\n{result.err[-2500:]}"
    clean = "Sanitizer" not in result.err and "runtime error:" not in result.err and result.status in (0, 1, 2, 3)
    if not check(clean, text):
        return False
    if status is not None and not check(result.status == status, f"status {status} was expected,", text):
        return False
    return check(result.status != 1 or result.codes, "no code on stderr:", text)


def fails(result, code=None):
    """Refused with status 1, and with this code among those sent."""
    return survives(result, 1) and check(code is None or code in result.codes,
                                         f"{code} was expected, not {result.codes}: mpc {' '.join(result.words)}\n{result.err}")


def in_parallel(function, items):
    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        list(pool.map(function, items))


def finish():
    print(f"{checks} checks, {len(failures)} failed", file=sys.stderr)
    sys.exit(1 if failures or not checks else 0)


def name_of(status):
    return signal.Signals(-status).name if status is not None and status < 0 else str(status)
