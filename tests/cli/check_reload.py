"""`mpc check` sees that a checkpoint doesn't come back as it was saved. The program under test has that fault."""
import json

from support import Folder, check, finish

with Folder() as f:
    r = f.mpc("check", "tiny.mpg", "--json", status=1)
    phases = {p["phase"]: p["ok"] for p in map(json.loads, r.out.splitlines())}
    check(phases["save"] and not phases["reload"] and "predict" not in phases, phases)
    check("E382" in r.err and "the phase `reload` failed" in r.err, r.err)

finish()
