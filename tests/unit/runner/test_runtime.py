"""Version guards: they compare releases, and say what was found."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from runner.checks import CheckFailure
from runner.runtime import Runtime, require_flags, require_parameters, satisfies


@pytest.mark.parametrize(
    "version", ["0.9", "1.0", "1.0.0", "1.2.9", "1.3", "1.3.1", "1.10.0", "2.0"]
)
@pytest.mark.parametrize("bounds", [">=1.0,<1.3", "==1.3", ">1.2.9", "<=1.3", ">=1.2,<1.10"])
def test_bounds_hold_as_packaging_says(version: str, bounds: str) -> None:
    assert satisfies(version, bounds) == SpecifierSet(bounds).contains(version)


def test_a_pre_release_counts_as_its_release() -> None:
    assert satisfies("1.3.0rc11", ">=1.3")


def test_an_unreadable_bound_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"bound '~=1\.0'"):
        satisfies("1.0", "~=1.0")


def test_the_installed_version_is_returned_or_refused() -> None:
    found = importlib.metadata.version("pytest")
    assert Runtime("pytest", ">=1", "run", found).check() == found
    with pytest.raises(CheckFailure, match=rf"pytest {found} is installed; .* <1"):
        Runtime("pytest", "<1", "run", "0.9").check()
    with pytest.raises(CheckFailure, match=r"no-such-runtime is not installed; .* >=3"):
        Runtime("no-such-runtime", ">=3", "sources", "3.0").check()


def test_a_parameter_that_is_gone_is_named() -> None:
    def load(path: str, threads: int = 1) -> None: ...

    require_parameters(load, ["threads"], "load")
    with pytest.raises(CheckFailure, match="load has no parameter seed; it has: path, threads"):
        require_parameters(load, ["seed", "path"], "load")


def test_a_flag_that_is_gone_is_named(tmp_path: Path) -> None:
    tool = tmp_path / "tool.py"
    lines = ("import argparse", "p = argparse.ArgumentParser()", "p.add_argument('--threads')")
    tool.write_text("\n".join([*lines, "p.parse_args()"]))
    require_flags([sys.executable, str(tool), "--help"], ["--threads"])
    with pytest.raises(CheckFailure, match="does not know --seed"):
        require_flags([sys.executable, str(tool), "--help"], ["--seed", "--threads"])
    with pytest.raises(CheckFailure, match="no-such-tool"):
        require_flags(["no-such-tool", "--help"], ["--seed"])
