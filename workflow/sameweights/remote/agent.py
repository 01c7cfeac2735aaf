"""The device's side of the SSH transport, sent over stdin whenever a session starts.

Standard library only, Python 3.8 or newer, Linux and macOS; nothing is installed on the device.
The hub runs `python3 -c LOADER WORKDIR`; the loader executes this file from stdin. Then come
commands, each a line ["NAME", ...] in JSON and what belongs to it; a command that went well ends
with the line `ok`, any other ends the session with an exit code and a reason on stderr.

A job lives in `jobs/<name>`: `lock` (held by the supervisor and its payload, so a free lock means
that both are gone, whatever pid numbers say), `pgid`, `log`, and `rc`, written last. The job is
absent, running, done, or lost (no lock, no rc: killed or rebooted).
"""
# ruff: noqa: PTH101,PTH103,PTH105,PTH108,PTH109,PTH110,PTH112,PTH114,PTH120,PTH121,PTH123
# ruff: noqa: PTH208, SIM115 - the fewest imports: it starts on small boards, too

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import select
import shutil
import signal
import stat
import subprocess
import sys
import time

MARKER = ".sameweights"
STORE = "store"
JOBS = "jobs"
BLOCK_BYTES = 1 << 20
SILENCE_S = 60
"""A command whose hub says nothing for so long ends the session (SIGALRM)."""
IDLE_S = 600
"""So does a hub without a command; its next one starts a new session."""
BEAT_S = 5.0
GRACE_S = 5.0
EXIT_TIMEOUT = 124
EXIT_DISK_FULL = 73
RC_BYTES = 16
EXIT_REFUSED = 70
KEPT_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "USER", "LD_LIBRARY_PATH")


def refuse(message: str) -> None:
    """End this session with a message for the hub; not worth another try."""
    sys.stderr.write("agent: " + message + "\n")
    sys.exit(EXIT_REFUSED)


def say(text: str) -> None:
    sys.stdout.buffer.write(text.encode() + b"\n")
    sys.stdout.buffer.flush()


def listen(patience_s: int = SILENCE_S) -> bytes:
    """Read one line from the hub; a hub that has gone ends the session."""
    signal.alarm(patience_s)
    line = sys.stdin.buffer.readline()
    signal.alarm(0)
    if not line.endswith(b"\n"):
        sys.exit(1)
    return line


def enter_workdir(workdir: str) -> None:
    """Change into the work folder; a folder that holds anything not ours is refused."""
    os.makedirs(workdir, mode=0o700, exist_ok=True)
    os.chdir(workdir)
    # One look: a second hub may write the marker between two.
    names = os.listdir(".")
    if MARKER not in names:
        if names:
            refuse(f"{os.getcwd()} is not empty and was not made by sameweights; set 'workdir'")
        with open(MARKER, "w") as handle:
            handle.write("work folder of sameweights: everything in it can be made again\n")


def write_atomically(path: str, text: str) -> None:
    with open(path + ".part", "w") as handle:
        handle.write(text)
        handle.flush()
        os.fsync(handle.fileno())
    os.replace(path + ".part", path)


def read_text(path: str) -> str | None:
    try:
        with open(path) as handle:
            return handle.read()
    except FileNotFoundError:
        return None


def checked(path: str) -> str:
    """Return a path that stays inside the work folder, or refuse it."""
    parts = path.split("/")
    if path.startswith("/") or "\0" in path or not all(p not in ("", ".", "..") for p in parts):
        refuse(f"path {path!r} leaves the work folder")
    return path


# --- files -------------------------------------------------------------------------------------


def put() -> None:
    """Store files by content hash and link them to their targets.

    Reads one line {target: [sha256, bytes]}; asks for each missing blob with `want SHA OFFSET`
    (a part left by a cut connection is kept) and ends with `linked`.
    """
    files = json.loads(listen())
    os.makedirs(STORE, exist_ok=True)
    for sha, size in sorted({(sha, size) for sha, size in files.values()}):
        if not os.path.exists(f"{STORE}/{sha}"):
            receive(checked(sha), size)
    for target, (sha, _) in files.items():
        link(f"{STORE}/{sha}", checked(target))
    say("linked")


def receive(sha: str, size: int) -> None:
    """Append to the blob's part until it is whole; keep it only if its hash is right."""
    blob, part = f"{STORE}/{sha}", f"{STORE}/{sha}.part"
    with open(part, "ab+") as handle:
        # A second hub waits here, and then finds the blob in place.
        signal.alarm(SILENCE_S * 10)
        fcntl.flock(handle, fcntl.LOCK_EX)
        signal.alarm(0)
        if os.path.exists(blob):
            return
        if handle.seek(0, os.SEEK_END) > size:
            handle.truncate(0)
        offset = handle.seek(0, os.SEEK_END)
        free = shutil.disk_usage(STORE).free
        if free < size - offset:
            refuse(f"disk full: {size - offset} bytes are needed, {free} are free")
        handle.seek(0)
        digest = hashlib.sha256()
        for block in iter(lambda: handle.read(BLOCK_BYTES), b""):
            digest.update(block)
        say(f"want {sha} {offset}")
        while offset < size:
            signal.alarm(SILENCE_S)
            block = sys.stdin.buffer.read1(  # type: ignore[union-attr]
                min(BLOCK_BYTES, size - offset)
            )
            signal.alarm(0)
            if not block:
                handle.flush()
                sys.exit(1)
            handle.write(block)
            digest.update(block)
            offset += len(block)
        handle.flush()
        if digest.hexdigest() != sha:
            handle.truncate(0)
            refuse(f"{sha}: what arrived hashes to {digest.hexdigest()}; it was thrown away")
        os.fsync(handle.fileno())
        os.replace(part, blob)
        # Only now: a second hub may still have to open the part for writing.
        os.chmod(blob, 0o444)


def link(blob: str, target: str) -> None:
    """Make the target the blob (a hard link, or a copy where the disk has none)."""
    if os.path.exists(target) and os.path.samefile(blob, target):
        return
    if os.path.dirname(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
    part = f"{target}.{os.getpid()}.part"
    try:
        os.link(blob, part)
    except OSError:
        shutil.copyfile(blob, part)
    os.replace(part, target)


def get(path: str) -> None:
    """Send one file as `file BYTES SHA256` and its bytes, or `absent`."""
    try:
        handle = open(checked(path), "rb")
    except FileNotFoundError:
        say("absent")
        return
    with handle:
        if not stat.S_ISREG(os.fstat(handle.fileno()).st_mode):
            refuse(f"{path} is not a regular file")
        digest = hashlib.sha256()
        for block in iter(lambda: handle.read(BLOCK_BYTES), b""):
            digest.update(block)
        say(f"file {handle.tell()} {digest.hexdigest()}")
        handle.seek(0)
        shutil.copyfileobj(handle, sys.stdout.buffer, BLOCK_BYTES)
        sys.stdout.buffer.flush()


def clean(*everything: str) -> None:
    """Remove results and finished jobs, with `all` the whole content; refused while a job runs."""
    for name in os.listdir(JOBS) if os.path.isdir(JOBS) else []:
        if state_of(f"{JOBS}/{name}")[0] == "running":
            refuse(f"job {name} is running; cancel it first")
    for name in os.listdir(".") if everything else ["cells", JOBS]:
        if os.path.isdir(name) and not os.path.islink(name):
            shutil.rmtree(name)
        elif name != MARKER and os.path.lexists(name):
            os.unlink(name)
    say("cleaned")


# --- jobs --------------------------------------------------------------------------------------


def state_of(job: str) -> tuple[str, int | None]:
    """Return (absent | running | done | lost, exit code of a done job)."""
    try:
        with open(job + "/lock") as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        held = False
    except FileNotFoundError:
        return "absent", None
    except BlockingIOError:
        held = True
    # The lock first: a job writes rc before it lets go, so a free lock without rc is a loss.
    code = read_text(job + "/rc")
    if code is not None:
        return "done", int(code)
    return ("running" if held else "lost"), None


def start(name: str) -> None:
    """Start the job read from stdin, unless it runs already or has ended with 0.

    Reads one line {"argv", "env", "timeout_s", "max_log_bytes", "attempt"}, and perhaps
    "around": a command run before and after the job, to remove what an earlier one left.
    """
    job = f"{JOBS}/{checked(name)}"
    spec = json.loads(listen())
    os.makedirs(job, exist_ok=True)
    with open(job + "/guard", "w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        # A cancel may overtake the start that it is meant for.
        if read_text(job + "/cancelled") == spec["attempt"]:
            refuse(f"job {name} was cancelled before it started")
        if state_of(job) in (("running", None), ("done", 0)):
            say(state_of(job)[0])
            return
        lock = os.open(job + "/lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        for stale in ("rc", "pgid", "log"):
            if os.path.exists(f"{job}/{stale}"):
                os.unlink(f"{job}/{stale}")
        if os.fork() == 0:
            os.setsid()
            guard.close()  # the supervisor lives on; the guard must not
            if os.fork() == 0:
                detach(job, spec, lock)
            os._exit(0)
        os.wait()
        os.close(lock)
    say("started")


def detach(job: str, spec: dict, lock: int) -> None:  # type: ignore[type-arg]
    """Let go of the SSH session and supervise; never returns."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.setpgid(0, 0)
    # Handlers, not SIG_IGN: the payload must get the default actions, the supervisor survives.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    try:
        write_atomically(job + "/pgid", str(os.getpid()))
        # Its place is taken beforehand: a disk that fills up must not turn an end into a loss.
        with open(job + "/rc.part", "w") as rc:
            rc.write(" " * RC_BYTES)
            rc.flush()
            os.fsync(rc.fileno())
            tidy(spec)
            code = supervise(job, spec, lock)
            tidy(spec)
            rc.seek(0)
            rc.write(str(code).ljust(RC_BYTES))
            rc.flush()
            os.fsync(rc.fileno())
        os.replace(job + "/rc.part", job + "/rc")
    finally:
        # The last act: nothing of the payload's group outlives the job.
        os.killpg(0, signal.SIGKILL)


def supervise(job: str, spec: dict, lock: int) -> int:  # type: ignore[type-arg]
    """Run the payload to its end and keep its output; return its exit code (128+n for a signal).

    A log that the disk does not take is cut; then a payload that failed counts as EXIT_DISK_FULL.
    """
    kept = {k: os.environ[k] for k in KEPT_VARIABLES if k in os.environ}
    room = spec["max_log_bytes"]
    full = False
    deadline = time.monotonic() + spec["timeout_s"] if spec["timeout_s"] else None
    with open(job + "/log", "ab", buffering=0) as log:
        try:
            child = subprocess.Popen(
                spec["argv"],
                env={**kept, **spec["env"]},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(lock,),
            )
        except OSError as error:
            keep(log, f"agent: cannot run {spec['argv'][0]!r}: {error}\n".encode())
            return 127
        output = child.stdout
        assert output is not None
        while child.poll() is None or select.select([output], [], [], 0)[0]:
            if select.select([output], [], [], 0.1)[0]:
                block = os.read(output.fileno(), BLOCK_BYTES)
                full |= not keep(log, block[:room])
                if 0 < room <= len(block):
                    keep(log, b"\nagent: the log is full; what follows is dropped\n")
                room = max(room - len(block), 0)
                if not block:
                    # Its output is closed; a payload may still compute.
                    time.sleep(0.05)
                    if child.poll() is not None:
                        break
            if deadline is not None and time.monotonic() > deadline:
                keep(log, f"agent: ended after {spec['timeout_s']} s\n".encode())
                end(child)
                return EXIT_TIMEOUT
    code = child.wait()
    if code != 0 and full:
        return EXIT_DISK_FULL
    return code if code >= 0 else 128 - code


def tidy(spec: dict) -> None:  # type: ignore[type-arg]
    """Run the job's "around" command; whether there was anything to remove does not matter."""
    if "around" in spec:
        find_facts({"around": spec["around"]})


def keep(log, data: bytes) -> bool:  # type: ignore[no-untyped-def]
    """Write to the log; return whether the disk took it."""
    try:
        log.write(data)
    except OSError:
        return False
    return True


def end(child: subprocess.Popen) -> None:  # type: ignore[type-arg]
    """End the payload: TERM, and KILL after a while."""
    child.terminate()
    try:
        child.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def follow(name: str, offset: str) -> None:
    """Send the log from an offset on as `log BYTES` frames; end with `end RC` or `lost`."""
    job, position = f"{JOBS}/{checked(name)}", int(offset)
    pause_s, quiet_s = 0.01, 0.0
    while True:
        state, code = state_of(job)  # before reading: a done job's log is whole
        block = b""
        if os.path.exists(job + "/log"):
            with open(job + "/log", "rb") as log:
                log.seek(position)
                block = log.read(BLOCK_BYTES)
        if block:
            position += len(block)
            sys.stdout.buffer.write(b"log %d\n" % len(block) + block)
            sys.stdout.buffer.flush()
            quiet_s = 0.0
            continue
        if state != "running":
            say(f"end {code}" if state == "done" else "lost")
            return
        quiet_s += pause_s
        if quiet_s > BEAT_S:
            say("beat")  # a hub that has gone shows here, as a broken pipe
            quiet_s = 0.0
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.2, 0.2)


def cancel(name: str, attempt: str) -> None:
    """End a job: TERM to its group, KILL after a while; returns when its lock is free."""
    job = f"{JOBS}/{checked(name)}"
    os.makedirs(job, exist_ok=True)
    with open(job + "/guard", "w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        write_atomically(job + "/cancelled", attempt)
        for number in (signal.SIGTERM, signal.SIGKILL):
            group = read_text(job + "/pgid")
            # While the lock is held the group is alive, so the number is still its own.
            if group is not None and state_of(job)[0] == "running":
                os.killpg(int(group), number)
            deadline = time.monotonic() + GRACE_S
            while time.monotonic() < deadline:
                if state_of(job)[0] != "running":
                    say("cancelled")
                    return
                time.sleep(0.02)
    refuse(f"job {name} does not end")


# --- facts -------------------------------------------------------------------------------------


def facts() -> None:
    """Read one line {name: argv} and send {name: {"exit_code", "output"}}."""
    say(json.dumps(find_facts(json.loads(listen()))))


def find_facts(probes: dict) -> dict:  # type: ignore[type-arg]
    """Run each command by itself; one that does not exist is "missing"."""
    found = {}
    for name, argv in probes.items():
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=60,
            )
            text = done.stdout[: 1 << 18].decode("utf-8", "replace")
            found[name] = {"exit_code": done.returncode, "output": text}
        except FileNotFoundError:
            found[name] = {"exit_code": None, "output": "missing"}
        except (OSError, subprocess.TimeoutExpired) as error:
            found[name] = {"exit_code": None, "output": str(error)}
    return found


COMMANDS = {
    "put": put,
    "get": get,
    "clean": clean,
    "start": start,
    "follow": follow,
    "cancel": cancel,
    "facts": facts,
}


def main() -> None:
    try:
        enter_workdir(sys.argv[1])
        while True:
            name, *words = json.loads(listen(IDLE_S))
            COMMANDS[name](*words)  # type: ignore[operator]
            say("ok")
    except BrokenPipeError:
        os._exit(1)
    except OSError as error:
        refuse(str(error))


if __name__ == "__main__":
    main()
