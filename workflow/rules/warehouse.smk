# Phase 4, on the hub: all tables in one DuckDB file, and every pair of cells compared.
# In: items.parquet, responses.jsonl, run.json. Out: warehouse.duckdb, comparison.parquet.


rule write_matrix:
    message:
        "Write the planned matrix with its holes"
    output:
        LAYOUT.matrix,
    params:
        matrix=describe_matrix(MATRIX, REGISTRIES),
    log:
        LAYOUT.results / "logs/write_matrix.log",
    script:
        "../scripts/write_matrix.py"


rule warehouse:
    message:
        "Rebuild the warehouse from Parquet"
    input:
        matrix=LAYOUT.matrix,
        scores=[LAYOUT.results / f"scores/{m}/s{s}.json" for m, s in MODELS_SEEDS],
        requests=[LAYOUT.requests(m, s) for m, s in MODELS_SEEDS],
        docs=[LAYOUT.docs(m, s) for m, s in MODELS_SEEDS],
    output:
        LAYOUT.warehouse,
    params:
        source=source_digest("sameweights/warehouse.py"),
    log:
        LAYOUT.results / "logs/warehouse.log",
    script:
        "../scripts/warehouse.py"


rule compare_cells:
    message:
        "Compare every pair of cells, item by item"
    input:
        LAYOUT.warehouse,
    output:
        LAYOUT.comparison,
    params:
        source=source_digest(
            "sameweights/compare.py", "sameweights/align.py", "sameweights/metrics"
        ),
    log:
        LAYOUT.results / "logs/compare_cells.log",
    script:
        "../scripts/compare_cells.py"
