"""Hub overhead: seconds of rendering, scoring, warehouse, comparison, attribution and report,
as a share of the device seconds of the same runs (the baseline).

    python benchmarks/hub_overhead.py [results]

Needs a finished `make demo`. Every hub step runs again, in a process of its own as in the
workflow, into a scratch folder. Prints the ratio and whether torch was imported.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT = 0.15

STEPS = {
    "render": """
from sameweights.requests import render_requests
meta = json.loads(requests.with_suffix(".meta.json").read_bytes())
render_requests(model, meta["names"], meta["seed"], meta["limit"], meta["num_fewshot"],
                meta["chat_template"], Path("config/tasks"), scratch / "requests.parquet")
""",
    "score": """
from sameweights.score import score_runs
score_runs(requests, model, Path("config/tasks"), runs, scratch / "scores.json")
""",
    "warehouse": """
from sameweights.warehouse import build_warehouse
build_warehouse(results, scratch / "warehouse.duckdb")
""",
    "compare": """
from sameweights.compare import compare_cells
compare_cells(scratch / "warehouse.duckdb", scratch / "comparison.parquet")
""",
    "attribute": """
from sameweights.attribute import attribute_warehouse
matrix = json.loads((results / "matrix.json").read_bytes())
attribute_warehouse(scratch / "warehouse.duckdb", matrix["reference"], matrix["target"],
                    Path("config"), scratch / "attribution.json")
""",
    "report": """
from sameweights.report import build_report
build_report(*(scratch / n for n in ("warehouse.duckdb", "comparison.parquet",
             "attribution.json")), Path("report"),
             *(scratch / n for n in ("report.html", "report.md", "verdict.txt")))
""",
}

PREAMBLE = """
import json, sys
from pathlib import Path
results, scratch = Path(sys.argv[1]), Path(sys.argv[2])
requests = next(results.glob("requests/*/s*.docs.parquet")).with_suffix("").with_suffix(".parquet")
model = results / "models" / requests.parent.name
runs = sorted(p.parent for p in results.glob("cells/*/*/*/*/s*/r*/run.json"))
"""

EPILOGUE = """
print("torch" in sys.modules)
"""


def main() -> int:
    results = Path(sys.argv[1] if len(sys.argv) > 1 else "results")
    records = [json.loads(p.read_bytes()) for p in results.glob("cells/*/*/*/*/s*/r*/run.json")]
    device_s = sum(sum(v for k, v in r["timing"].items() if k.endswith("_s")) for r in records)
    scratch = Path(tempfile.mkdtemp())
    hub_s = 0.0
    for name, step in STEPS.items():
        started = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", PREAMBLE + step + EPILOGUE, str(results), str(scratch)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=True,
        )
        seconds = time.monotonic() - started
        hub_s += seconds
        print(f"{name:>10}: {seconds:6.1f} s  torch imported: {done.stdout.split()[-1]}")
    shutil.rmtree(scratch)
    ratio = hub_s / device_s
    print(f"hub {hub_s:.1f} s / device {device_s:.1f} s ({len(records)} runs) = {ratio:.3f}")
    print(f"allowed {LIMIT}: {'met' if ratio <= LIMIT else 'NOT met'}")
    return 0 if ratio <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
