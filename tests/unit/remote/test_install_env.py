"""The installer's steps, with the commands recorded instead of run."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sameweights.remote import install_env


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run main() on a lock; return its exit code and what pip was told."""

    def run(lock_text: str, codes: list[int]) -> tuple[int, list[list[str]]]:
        told: list[list[str]] = []

        def record(command: list[str], check: bool) -> subprocess.CompletedProcess[str]:
            if "pip" not in command:
                return subprocess.CompletedProcess(command, 0)
            told.append(command[command.index("install") + 2 :])
            return subprocess.CompletedProcess(command, codes[len(told) - 1])

        lock = tmp_path / "lock.txt"
        lock.write_text(lock_text)
        monkeypatch.setattr(install_env.subprocess, "run", record)
        monkeypatch.setattr(sys, "argv", ["x", str(tmp_path / "env"), str(lock), "key"])
        return install_env.main(), told

    return run


def test_a_package_marked_no_deps_is_installed_alone_after_the_others(
    install: Any, tmp_path: Path
) -> None:
    code, told = install("# a comment\n# no-deps: picky==1.0\nplain==1.0\n", [0, 0])
    assert code == 0
    assert told == [["-r", str(tmp_path / "lock.txt")], ["--no-deps", "picky==1.0"]]
    sha256 = hashlib.sha256((tmp_path / "lock.txt").read_bytes()).hexdigest()
    assert (tmp_path / "env.installed").read_text() == f"key\n{sha256}\n"


def test_a_failure_of_either_step_leaves_no_marker(install: Any, tmp_path: Path) -> None:
    for codes, count in (([3], 1), ([0, 3], 2)):
        code, told = install("# no-deps: picky==1.0\nplain==1.0\n", codes)
        assert (code, len(told)) == (3, count)
        assert not (tmp_path / "env.installed").exists()


def test_a_plain_lock_is_installed_in_one_step(install: Any) -> None:
    assert len(install("plain==1.0\n", [0])[1]) == 1
