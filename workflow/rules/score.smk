# Phase 3, on the hub: responses to scores, with lm-eval's own filters and metrics.
# In: requests, responses.jsonl. Out: items.parquet beside each run.


rule score_cells:
    input:
        requests=LAYOUT.requests("{model}", "{seed}"),
        docs=LAYOUT.docs("{model}", "{seed}"),
        meta=LAYOUT.requests_meta("{model}", "{seed}"),
        model=LAYOUT.model("{model}"),
        records=lambda w: files_of_runs("run.json", w.model, int(w.seed)),
        responses=lambda w: files_of_runs("responses.jsonl", w.model, int(w.seed)),
    output:
        LAYOUT.results / "scores/{model}/s{seed}.json",
    log:
        LAYOUT.results / "logs/score_cells/{model}.s{seed}.log",
    conda:
        "../../envs/hub.yaml"
    params:
        source=source_digest("sameweights/score.py", "sameweights/replay.py"),
    message:
        "Score all runs of {wildcards.model}, seed {wildcards.seed}, with lm-eval"
    script:
        "../scripts/score_cells.py"
