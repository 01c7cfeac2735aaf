"""Make a virtual environment from a lock file; sent to devices, so standard library only.

Usage: install_env.py ENV LOCK KEY [--wheels DIR] [--system-site-packages]
The marker is written last: an interrupted installation is made again. It holds the key of what was
asked for, and the hash of the lock, which the runner compares with its cell's.
A line "# no-deps: NAME==VERSION" in the lock installs that package alone, after the others: for
one whose declared dependencies contradict what it really runs with.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import subprocess
import sys

OLDEST = (3, 10)
NO_DEPS = "# no-deps:"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("env")
    parser.add_argument("lock")
    parser.add_argument("key")
    parser.add_argument("--wheels")
    parser.add_argument("--system-site-packages", action="store_true")
    parser.add_argument("--attempt")
    options = parser.parse_args()
    if sys.version_info < OLDEST:
        found = ".".join(map(str, sys.version_info[:3]))
        print(f"{sys.executable} is Python {found}; the runner needs 3.10 or newer")
        return 1
    os.makedirs(os.path.dirname(options.env) or ".", exist_ok=True)  # noqa: PTH103, PTH120
    marker = options.env + ".installed"
    with open(options.env + ".guard", "w") as guard:  # noqa: PTH123
        fcntl.flock(guard, fcntl.LOCK_EX)  # two hubs must not install at once
        if os.path.exists(marker):  # noqa: PTH110
            with open(marker) as handle:  # noqa: PTH123
                if handle.read().splitlines()[:-1] == [options.key]:
                    print(f"{options.env} is up to date")
                    return 0
        system = ["--system-site-packages"] if options.system_site_packages else []
        subprocess.run([sys.executable, "-m", "venv", "--clear", *system, options.env], check=True)
        offline = ["--no-index", "--find-links", options.wheels] if options.wheels else []
        # -I: what a PYTHONPATH of the device shows must not count as installed.
        words = "-I -m pip install --disable-pip-version-check"
        pip = [options.env + "/bin/python", *words.split()]
        bare = read_bare(options.lock)
        for what in (["-r", options.lock], *([["--no-deps", *bare]] if bare else [])):
            code = subprocess.run([*pip, *offline, *what], check=False).returncode
            if code != 0:
                return code
        with open(options.lock, "rb") as handle:  # noqa: PTH123
            sha256 = hashlib.sha256(handle.read()).hexdigest()
        with open(marker + ".part", "w") as handle:  # noqa: PTH123
            handle.write(f"{options.key}\n{sha256}\n")
        os.replace(marker + ".part", marker)  # noqa: PTH105
    print(f"{options.env} installed")
    return 0


def read_bare(lock: str) -> list[str]:
    """Return the packages of the lock that are installed without their dependencies."""
    with open(lock, encoding="utf-8") as handle:  # noqa: PTH123
        return [line[len(NO_DEPS) :].strip() for line in handle if line.startswith(NO_DEPS)]


if __name__ == "__main__":
    sys.exit(main())
