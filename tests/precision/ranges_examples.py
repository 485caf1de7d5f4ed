"""The range analysis over the training steps of all examples, forward and backward, composites kept and expanded: no value leaves its interval, whatever
numbers come in and wherever values are rounded. Arguments: mpc, the test of whole steps, the repository."""
import os
import subprocess
import sys
import tempfile

MPC, JOINT, ROOT = map(os.path.abspath, sys.argv[1:4])
SMALL = {"gpt": {"width": 8, "depth": 1, "heads": 2}, "llama": {"width": 24, "depth": 1}, "vit": {"width": 24, "depth": 1}, "resnet": {"width": 4}, "lstm": {"width": 4}}
failed = 0
with tempfile.TemporaryDirectory() as folder:
    for name in sorted(n[:-4] for n in os.listdir(os.path.join(ROOT, "examples")) if n.endswith(".mpg")):
        options = [w for key, value in SMALL.get(name, {}).items() for w in ("--const", f"{key}={value}")]
        r = subprocess.run([MPC, "dump-ir", os.path.join(ROOT, "examples", name + ".mpg"), "--stage", "grad", "--precision", "f32", "--batch",
                            "1" if name in ("unet", "llama") else "2", *options], capture_output=True, text=True, timeout=60)
        path = os.path.join(folder, name + ".mpir")
        with open(path, "w", encoding="utf-8") as f:
            f.write(r.stdout)
        r = r if r.returncode else subprocess.run([JOINT, path], cwd=ROOT, capture_output=True, text=True, timeout=120)
        failed += r.returncode != 0
        print(name, r.stderr.strip()[:2000])
sys.exit(failed > 0)
