"""Time, memory and size of the report on a generated warehouse.

    python benchmarks/report_scale.py --cells 2000 --items 14000

Makes DIR/warehouse.duckdb (kept, and used again) with one replicate a cell: six multiple-choice
tasks and one generated task with token evidence. Log-likelihoods of single choices are left out.
Each step runs in a process of its own; prints wall seconds, CPU seconds, peak memory and sizes.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import duckdb

from sameweights.paired import define_views

ROOT = Path(__file__).resolve().parent.parent
MODEL = "m"
TASKS = ["arith", *(f"choice{n}" for n in range(6))]
REFERENCE, TARGET = "dev0/back0/prec0", "dev0/back1/prec1"
DOCS_AT_ONCE = 400

STEPS = {
    "compare": (
        "from sameweights.compare import compare_cells as f; f(p/'warehouse.duckdb', p/'c.parquet')"
    ),
    "attribute": (
        "from sameweights.attribute import attribute_warehouse as f; "
        f"f(p/'warehouse.duckdb', '{REFERENCE}', '{TARGET}', p/'config', p/'a.json')"
    ),
    "report": (
        "from sameweights.report import build_report as f; "
        "f(p/'warehouse.duckdb', p/'c.parquet', p/'a.json', Path('report'), "
        "p/'report.html', p/'report.md', p/'verdict.txt', p/'tables')"
    ),
}

ROWS = """
SELECT c.*, d.doc_id, c.n > 0 AND hash(d.doc_id, c.n) % 100 < 5 + c.n % 11 AS changed,
       CASE WHEN c.n > 0 AND hash(d.doc_id, c.n) % 100 < 5 + c.n % 11 THEN c.n % 3 ELSE 0 END AS way
FROM range($start, $stop) d(doc_id), numbered c
"""

ITEM_COLUMNS = """
SELECT cell, model, device, backend, precision, seed, 0 AS replicate, $task AS task, doc_id,
       'none' AS filter, 'acc' AS metric,
       CASE WHEN changed THEN doc_id % 2 ELSE (doc_id // 3) % 2 END::DOUBLE AS value,
       'ok' AS status, NULL::VARCHAR AS reason, digest($task || doc_id || way) AS answer_tokens,
       'The answer to this is number ' || doc_id || ', way ' || way AS answer_text,
       way::VARCHAR AS answer_extracted, false AS is_tie, '0' AS target, 'stop' AS finish_reason,
       CASE WHEN $task <> 'arith' THEN (doc_id % 100) / 50 END AS margin,
       digest($task || doc_id) AS doc_hash, digest('p' || $task || doc_id) AS prompt_hash,
       [digest('r' || $task || doc_id)] AS request_ids
FROM ({rows}) ORDER BY doc_id, cell
"""

EVIDENCE = """
SELECT cell, 0 AS replicate, $task AS task, doc_id,
       CASE WHEN $task = 'arith' THEN digest($task || doc_id || precision) END AS logits_sha256,
       CASE WHEN $task = 'arith' THEN {ids} END AS token_ids,
       CASE WHEN $task = 'arith' THEN list_transform(range(16), lambda k: (k + doc_id) % 7 / 4)
       END::FLOAT[] AS margins
FROM ({rows}) ORDER BY doc_id, cell
"""

RESPONSES = """
SELECT cell, 0 AS replicate, digest('r' || $task || doc_id) AS request_id, 'ok' AS status,
       NULL::DOUBLE AS loglikelihood, NULL::BOOLEAN AS is_greedy, {ids} AS token_ids,
       'The answer' AS text, 'stop' AS finish_reason,
       list_transform(range(16), lambda k: -0.25)::FLOAT[] AS token_logprobs,
       list_transform(range(16), lambda k: (k + doc_id) % 7 / 4)::FLOAT[] AS margins,
       list_transform(range(16), lambda k: [k, k + 1]) AS top_ids,
       list_transform(range(16), lambda k: [-0.25, -0.5])::FLOAT[][] AS top_logprobs,
       digest($task || doc_id || precision) AS logits_sha256, NULL::VARCHAR AS error,
       0.5 AS elapsed_s
FROM ({rows}) ORDER BY request_id, cell
"""

IDS = "list_transform(range(16), lambda k: CASE WHEN k > doc_id % 13 THEN k + way ELSE k END)"


def make_warehouse(path: Path, cells: int, items: int) -> None:
    """Write a warehouse with the tables that build_warehouse writes."""
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    with duckdb.connect(str(part)) as db:
        # As long as a SHA-256 and cheaper to make.
        db.execute("CREATE TEMP MACRO digest(text) AS lpad(hash(text)::VARCHAR, 64, 'f')")
        db.execute("SET enable_progress_bar = false")
        _make_small(db, cells, items)
        rows = {"rows": ROWS, "ids": IDS}
        for task in TASKS:
            docs = items // len(TASKS)
            for start in range(0, docs, DOCS_AT_ONCE):
                values = {"start": start, "stop": min(docs, start + DOCS_AT_ONCE)}
                tables = {"items": ITEM_COLUMNS, "evidence": EVIDENCE}
                if task == "arith":
                    tables["responses"] = RESPONSES
                for name, query in tables.items():
                    spelled = query.format(**rows).replace("$task", f"'{task}'")
                    known = db.execute(
                        "SELECT count(*) FROM duckdb_tables() WHERE table_name = $name",
                        {"name": name},
                    ).fetchall()[0][0]
                    verb = f"INSERT INTO {name}" if known else f"CREATE TABLE {name} AS"
                    db.execute(f"{verb} {spelled}", values)
        define_views(db)
    part.replace(path)


def _make_small(db: duckdb.DuckDBPyConnection, cells: int, items: int) -> None:
    db.execute(
        f"""CREATE TEMP TABLE numbered AS
        SELECT n, '{MODEL}/' || device || '/' || backend || '/' || precision || '/s0' AS cell,
               '{MODEL}' AS model, device, backend, precision, 0 AS seed
        FROM (SELECT n, 'dev' || n // 100 AS device, 'back' || n // 10 % 10 AS backend,
                     'prec' || n % 10 AS precision FROM range({cells}) t(n))"""
    )
    for key, value in (("reference", REFERENCE), ("target", TARGET), ("devices", {})):
        verb = "INSERT INTO meta" if key != "reference" else "CREATE TABLE meta AS"
        db.execute(
            f"{verb} SELECT $key AS key, $value AS value", {"key": key, "value": json.dumps(value)}
        )
    db.execute(
        "CREATE TABLE cells AS SELECT * EXCLUDE n, 'planned' AS state, NULL::VARCHAR AS reason "
        "FROM numbered"
    )
    options = json.dumps(
        {"options": {"batch_size": 8}, "recipe": {}, "env": {}, "threads": 1, "runner_version": "1"}
    )
    environment = json.dumps({"host": {"cpu": "x", "packages": {"torch": "2.13.0"}}})
    db.execute(
        "CREATE TABLE runs AS SELECT cell, 0 AS replicate, 'complete' AS outcome, "
        "NULL::VARCHAR AS reason, digest(cell) AS identity, $counts AS counts, "
        "$environment AS environment, $timing AS timing, $canary AS canary, $options AS options, "
        "'2026-01-01T00:00:00+00:00' AS started_utc, '2026-01-01T01:00:00+00:00' AS ended_utc "
        "FROM numbered",
        {
            "counts": json.dumps({"ok": items}),
            "environment": environment,
            "timing": json.dumps({"run_s": 3600}),
            "canary": json.dumps({"passed": True, "mean_abs_diff_nats": 0.01}),
            "options": options,
        },
    )
    db.execute("CREATE TABLE measured AS SELECT cell, 0 AS replicate FROM numbered ORDER BY cell")
    db.execute(
        "CREATE TABLE primary_metrics AS SELECT unnest($tasks) AS task, 'none' AS filter, "
        "'acc' AS metric",
        {"tasks": TASKS},
    )
    docs = items // len(TASKS)
    db.execute(
        "CREATE TABLE docs AS SELECT task, doc_id, 'Question ' || doc_id || repeat(' long', 40) "
        "AS prompt, '0' AS target, NULL::VARCHAR[] AS choices, $model AS model, 0 AS seed "
        f"FROM (SELECT unnest($tasks) AS task), range({docs}) d(doc_id)",
        {"tasks": TASKS, "model": MODEL},
    )
    db.execute(
        "CREATE TABLE requests AS SELECT digest('r' || task || doc_id) AS request_id, 'generate' "
        "AS kind, task, doc_id, 0 AS request_index, 0 AS repeat, model, seed FROM docs"
    )
    db.execute(
        "CREATE TABLE vocabulary AS SELECT $model AS model, n AS token_id, ' w' || n AS text "
        "FROM range(64) t(n)",
        {"model": MODEL},
    )


def make_config(folder: Path) -> None:
    """Write registries with the ids of the two ends, made from the demo's entries."""
    entries = {
        "models/smollm2-135m-instruct": [MODEL],
        "devices/cpu-avx512": ["dev0"],
        "backends/torch": ["back0", "back1"],
        "precisions/bf16": ["prec0", "prec1"],
    }
    for source, names in entries.items():
        target = folder / source.split("/")[0]
        target.mkdir(parents=True, exist_ok=True)
        for name in names:
            shutil.copyfile(ROOT / "config" / f"{source}.yaml", target / f"{name}.yaml")
    shutil.copyfile(ROOT / "config/capabilities.yaml", folder / "capabilities.yaml")


def run_step(name: str, folder: Path) -> None:
    """Run one step in a process of its own and print what it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    # VmHWM: a child's ru_maxrss starts at what its parent held.
    code = (
        f"import re, sys; from pathlib import Path; p = Path(sys.argv[1]); {STEPS[name]}; "
        r"print(re.search(r'VmHWM:\s*(\d+) kB', Path('/proc/self/status').read_text())[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    peak = int(done.stdout.split()[-1]) / 1024
    if "error" in json.loads((folder / "a.json").read_bytes() if name == "attribute" else b"{}"):
        sys.exit(f"attribute gave no split: {(folder / 'a.json').read_text()}")
    print(f"{name:>10}  {wall:6.1f} s wall  {cpu:6.1f} s CPU  {peak:7.0f} MiB peak", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cells", type=int, default=2_000)
    parser.add_argument("--items", type=int, default=14_000)
    parser.add_argument("--folder", type=Path, default=Path("results/scale"))
    parser.add_argument("--steps", nargs="+", default=list(STEPS), choices=list(STEPS))
    chosen = parser.parse_args()
    folder = chosen.folder / f"{chosen.cells}x{chosen.items}"
    folder.mkdir(parents=True, exist_ok=True)
    warehouse = folder / "warehouse.duckdb"
    if not warehouse.is_file():
        began = time.perf_counter()
        make_warehouse(warehouse, chosen.cells, chosen.items)
        print(f"generated in {time.perf_counter() - began:.0f} s")
    print(f"warehouse {warehouse.stat().st_size / 1e6:,.0f} MB", flush=True)
    make_config(folder / "config")
    for name in chosen.steps:
        run_step(name, folder.resolve())
    if (folder / "report.html").is_file():
        print(f"report.html {(folder / 'report.html').stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
