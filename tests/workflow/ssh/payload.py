"""A stand-in for the packed runner: same command line and files, work that costs nothing.

Standard library only, Python 3.8+. It resumes its journal as the runner does, logs every start,
and misbehaves when the cell's options say so.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("command")
for name in ("--cell", "--requests", "--model", "--out", "--lock"):
    parser.add_argument(name, type=Path)
options = parser.parse_args()
spec = json.loads(options.cell.read_bytes())
out = options.out
out.mkdir(parents=True, exist_ok=True)
with (out / "starts").open("a") as starts:
    starts.write(f"{os.getpid()}\n")

mode = spec["options"].get("mode")
if mode == "flood":
    for _ in range(40):
        sys.stdout.write("x" * (1 << 20))
if mode == "hang":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with (out / "starts").open("a") as starts:
        starts.write(f"{child.pid}\n")
    print("hanging", flush=True)
    time.sleep(600)

weights = (options.model / "model.safetensors").read_bytes()
journal = out / "responses.jsonl"
done = set()
if journal.exists():
    whole = [line for line in journal.read_bytes().splitlines(True) if line.endswith(b"\n")]
    journal.write_bytes(b"".join(whole))
    done = {json.loads(line)["request_id"] for line in whole}
with journal.open("a") as handle:
    for line in options.requests.read_text().splitlines():
        request = json.loads(line)
        if request["request_id"] in done:
            continue
        work = hashlib.sha256(weights + line.encode()).hexdigest()
        score = -int(work[:6], 16) / 1e6
        record = {"request_id": request["request_id"], "status": "ok", "loglikelihood": score}
        handle.write(json.dumps(record) + "\n")
        handle.flush()
        print("item", request["prompt_ids"][0], flush=True)
        time.sleep(spec["options"].get("item_s", 0))
        gate = out / f"gate-{request['prompt_ids'][0]}"
        while request["prompt_ids"][0] in spec["options"].get("gates", []) and not gate.exists():
            time.sleep(0.005)
record = {
    "cell": spec["cell"],
    "identity": spec["identity"],
    "outcome": "complete",
    "reason": None,
    "counts": {"ok": len(options.requests.read_text().splitlines())},
    "responses_sha256": hashlib.sha256(journal.read_bytes()).hexdigest(),
    "canary": None,
    "environment": {},
    "timing": {},
    "started_utc": "",
    "ended_utc": "",
    "runner_version": spec["runner_version"],
}
(out / "run.json").write_text(json.dumps(record))
