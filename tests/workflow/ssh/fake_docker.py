"""A stand-in for docker: checks its command line, runs the command in a process of its own.

Like the daemon's containers, that process outlives a client that is killed, has only the
environment that it was given, and is removed by name. Standard library only.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

state = Path(__file__).parent
with (state / "calls").open("a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\n")
images = state / "images"
command, words = sys.argv[1], sys.argv[2:]

if command == "image":
    known = images.read_text().split() if images.exists() else []
    sys.exit(0 if words[-1] in known else 1)
if command == "load":
    archive = Path(words[words.index("--input") + 1])
    with images.open("a") as known:
        known.write(archive.read_text())
    sys.exit(0)
if command == "rm":
    running = state / f"{words[-1]}.pid"
    if not running.exists():
        sys.exit(1)
    os.killpg(int(running.read_text()), signal.SIGKILL)
    running.unlink()
    sys.exit(0)
assert command == "run", command
flags = {}
while words[0].startswith("--"):
    key, _, value = words.pop(0).partition("=")
    flags.setdefault(key, []).append(value)
image = words.pop(0)
if image not in images.read_text().split():
    sys.exit("Unable to find image locally")
(mount,) = flags["--mount"]
fields = dict(word.partition("=")[::2] for word in mount.split(","))
assert fields["source"] == fields["target"] == flags["--workdir"][0], fields
assert flags["--network"] == ["none"] and flags["--user"] == [f"{os.getuid()}:{os.getgid()}"]
child = subprocess.Popen(
    [flags["--entrypoint"][0], *words],
    cwd=fields["target"],
    env=dict(word.partition("=")[::2] for word in flags["--env"]),
    start_new_session=True,
)
name = flags.get("--name", ["unnamed"])[0]
(state / f"{name}.pid").write_text(str(child.pid))
signal.signal(signal.SIGTERM, lambda *_: os.killpg(child.pid, signal.SIGTERM))
code = child.wait()
(state / f"{name}.pid").unlink()
sys.exit(code if code >= 0 else 128 - code)
