"""The environment that a cell declares is the one in force."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from runner.host import host_facts

SCRIPT = """
import json, os
from runner.host import set_environment
removed = set_environment({"ATEN_CPU_CAPABILITY": "avx2", "MKL_NUM_THREADS": "3"}, threads=2)
print(json.dumps([removed, dict(os.environ)]))
"""


def test_undeclared_numeric_variables_are_removed_and_declared_ones_win() -> None:
    environment = {**os.environ, "MKL_CBWR": "COMPATIBLE", "OMP_NUM_THREADS": "7"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
    )
    removed, found = json.loads(done.stdout)
    assert "MKL_CBWR" in removed
    assert "MKL_CBWR" not in found
    assert found["OMP_NUM_THREADS"] == "2"
    assert found["MKL_NUM_THREADS"] == "3"
    assert found["ATEN_CPU_CAPABILITY"] == "avx2"
    assert found["HF_HUB_OFFLINE"] == "1"


def test_a_backend_imported_too_early_is_an_error() -> None:
    script = "import sys; sys.modules['torch'] = object()\n" + SCRIPT
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode != 0
    assert "before the cell's environment was set" in done.stderr


def test_facts_are_json_and_name_what_decides_numbers() -> None:
    facts = json.loads(json.dumps(host_facts()))
    for key in ("cpu", "cpu_flags", "python", "packages", "cpus", "libc"):
        assert key in facts
    assert "torch" in facts["packages"]
