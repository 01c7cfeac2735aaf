"""The packed runner: reproducible, and free of anything beyond the standard library."""

from __future__ import annotations

import ast
import sys
import zipfile
from pathlib import Path

import runner
from runner.pack import build_pyz

PACKAGE = Path(runner.__file__).parent


def imported_names(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add((node.module or "").partition(".")[0])
    return names


def test_equal_sources_give_equal_bytes(tmp_path: Path) -> None:
    first = build_pyz(tmp_path / "a.pyz").read_bytes()
    assert build_pyz(tmp_path / "b.pyz").read_bytes() == first


def test_every_module_is_packed(tmp_path: Path) -> None:
    with zipfile.ZipFile(build_pyz(tmp_path / "a.pyz")) as archive:
        packed = set(archive.namelist())
    sources = {f"runner/{p.relative_to(PACKAGE).as_posix()}" for p in PACKAGE.rglob("*.py")}
    assert packed == sources | {"__main__.py"}


def test_only_backends_import_more_than_the_standard_library() -> None:
    allowed = sys.stdlib_module_names | {"runner"}
    for path in PACKAGE.rglob("*.py"):
        extra = imported_names(path) - allowed
        if path.parent.name == "backends" and path.name not in ("__init__.py", "fake.py"):
            assert not extra & {"sameweights", "snakemake"}, path
        else:
            assert not extra, f"{path}: {extra}"


def test_the_contract_imports_nothing_of_the_runner() -> None:
    assert "runner" not in imported_names(PACKAGE / "contract.py")
