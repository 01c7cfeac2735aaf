# Phase 6, on the hub: one HTML file for readers, one verdict line for the terminal.
# In: warehouse, comparison, attribution. Out: report.html, report.md, verdict.txt, tables/, cells.checked.


rule report:
    input:
        warehouse=LAYOUT.warehouse,
        comparison=LAYOUT.comparison,
        attribution=LAYOUT.attribution,
        assets="report",
    output:
        page=report(
            LAYOUT.report,
            caption="../../report/captions/page.rst",
            category="Report",
            labels={"file": "report.html, the whole report"},
        ),
        tables=report(
            directory(LAYOUT.results / "tables"),
            patterns=["{table}.csv"],
            caption="../../report/captions/table.rst",
            category="Tables",
            labels={"table": "{table}"},
        ),
        verdict=LAYOUT.results / "verdict.txt",
        summary=LAYOUT.results / "report.md",
    log:
        LAYOUT.results / "logs/report.log",
    conda:
        "../../envs/hub.yaml"
    params:
        source=source_digest("sameweights/report"),
        page=assets_digest(),
    message:
        "Write the report"
    script:
        "../scripts/report.py"


rule check_cells:
    input:
        records=files_of_runs("run.json"),
        report=LAYOUT.report,
    output:
        touch(LAYOUT.results / "cells.checked"),
    log:
        LAYOUT.results / "logs/check_cells.log",
    conda:
        "../../envs/hub.yaml"
    params:
        results=LAYOUT.results,
    message:
        "Fail when a cell failed (a stopped cell is a result)"
    shell:
        "sameweights check-cells {params.results:q} 2>&1 | tee {log:q}"
