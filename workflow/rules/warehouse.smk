# Phase 4, on the hub: all tables in one DuckDB file, and every pair of cells compared.
# In: items.parquet, responses.jsonl, run.json. Out: warehouse.duckdb, comparison.parquet.


rule write_matrix:
    output:
        LAYOUT.matrix,
    log:
        LAYOUT.results / "logs/write_matrix.log",
    conda:
        "../../envs/hub.yaml"
    params:
        matrix=describe_matrix(MATRIX, REGISTRIES) | describe_questions(CONFIG),
    message:
        "Write the planned matrix with its holes"
    script:
        "../scripts/write_matrix.py"


rule warehouse:
    input:
        matrix=LAYOUT.matrix,
        scores=[LAYOUT.results / f"scores/{m}/s{s}.json" for m, s in MODELS_SEEDS],
        requests=[LAYOUT.requests(m, s) for m, s in MODELS_SEEDS],
        docs=[LAYOUT.docs(m, s) for m, s in MODELS_SEEDS],
    output:
        LAYOUT.warehouse,
    log:
        LAYOUT.results / "logs/warehouse.log",
    conda:
        "../../envs/hub.yaml"
    params:
        results=LAYOUT.results,
        source=source_digest(
            "sameweights/warehouse.py", "sameweights/paired.py", "sameweights/metrics"
        ),
    message:
        "Rebuild the warehouse from Parquet"
    script:
        "../scripts/warehouse.py"


rule compare_cells:
    input:
        LAYOUT.warehouse,
    output:
        LAYOUT.comparison,
    log:
        LAYOUT.results / "logs/compare_cells.log",
    conda:
        "../../envs/hub.yaml"
    params:
        source=source_digest(
            *(
                f"sameweights/{name}.py"
                for name in ("compare", "pairs", "intervals", "align")
            ),
        ),
    message:
        "Compare pairs of cells, item by item"
    script:
        "../scripts/compare_cells.py"
