"""What is generated must be up to date, and imports run one way."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from runner.catalogue import render
from sameweights.config import write_schema

WORKFLOW = Path(__file__).resolve().parents[2] / "workflow"


def imported_modules(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{a.name}" for a in node.names)}
    return names


def test_config_schema_is_up_to_date(tmp_path: Path) -> None:
    write_schema(tmp_path / "schema.json")
    committed = WORKFLOW / "schemas" / "config.schema.json"
    assert committed.read_text() == (tmp_path / "schema.json").read_text(), "run `make docs`"


def test_the_page_of_backends_is_what_they_declare() -> None:
    committed = WORKFLOW.parent / "docs" / "backends.md"
    assert committed.read_text() == render(), "run `make docs`"


@pytest.mark.parametrize("path", sorted((WORKFLOW / "runner").rglob("*.py")), ids=str)
def test_runner_imports_nothing_of_the_hub(path: Path) -> None:
    assert not {
        n for n in imported_modules(path) if n.split(".")[0] in ("sameweights", "snakemake")
    }


@pytest.mark.parametrize("path", sorted((WORKFLOW / "sameweights").rglob("*.py")), ids=str)
def test_hub_imports_only_the_contract_of_the_runner(path: Path) -> None:
    names = imported_modules(path)
    assert not {n for n in names if n.split(".")[0] == "snakemake"}
    ours = {n for n in names if n.split(".")[0] == "runner"}
    assert all(n.startswith("runner.contract") for n in ours)


def test_report_does_not_import_the_warehouse() -> None:
    for path in (WORKFLOW / "sameweights" / "report").rglob("*.py"):
        assert "sameweights.warehouse" not in imported_modules(path), path
