# Phase 2, on devices: every run of every cell.
# In: model, requests, canary. Out: results/cells/{run}/ with cell.json, responses.jsonl, run.json.


rule specify_cells:
    input:
        manifests=lambda w: weights_manifests(w.model, w.seed),
        locks=locks_of_backends(),
        requests=LAYOUT.requests_jsonl("{model}", "{seed}"),
        canary=LAYOUT.canary("{model}"),
    output:
        LAYOUT.results / "specs/{model}/s{seed}.json",
    log:
        LAYOUT.results / "logs/specify_cells/{model}.s{seed}.log",
    conda:
        "../../envs/hub.yaml"
    params:
        matrix=describe_matrix(MATRIX, REGISTRIES),
        backends={b: e.model_dump() for b, e in REGISTRIES.backends.entries.items()},
        precisions={p: e.model_dump() for p, e in REGISTRIES.precisions.entries.items()},
        request_timeout_s=CONFIG.request_timeout_s,
        source=source_digest("sameweights/specs.py", "runner/contract.py"),
    message:
        "Write cell.json of all runs of {wildcards.model}, seed {wildcards.seed}"
    script:
        "../scripts/specify_cells.py"


rule run_cell:
    input:
        specs=of_cell(lambda m, s: LAYOUT.results / f"specs/{m}/s{s}.json"),
        requests=of_cell(LAYOUT.requests_jsonl),
        model=weights_of,
        environment=environment_of,
        engine=engine_of,
        runner=ancient(LAYOUT.runner),
    output:
        cell=LAYOUT.run("{run}") / "cell.json",
        responses=LAYOUT.run("{run}") / "responses.jsonl",
        record=LAYOUT.run("{run}") / "run.json",
    log:
        LAYOUT.results / "logs/run_cell/{run}.log",
    priority: lambda w: REGISTRIES.devices.get(cell_of(w).device, "devices").priority
    conda:
        "../../envs/hub.yaml"
    resources:
        **SLOTS,
    params:
        workdir=LAYOUT.results / "devices",
        out=subpath(output.record, parent=True),
        # As a list: an empty word would vanish in quoting and leave its option without a value.
        environment=lambda w: option("--environment", backend_of(w).environment),
        engine=lambda w: option("--engine", next(map(str, engine_of(w)), None)),
    message:
        "Run {wildcards.run}"
    shell:
        "sameweights run-cell --run {wildcards.run:q} --specs {input.specs:q}"
        " --requests {input.requests:q} --model {input.model:q} --runner {input.runner:q}"
        " --devices config/devices --workdir {params.workdir:q} --out {params.out:q}"
        " {params.environment:q} {params.engine:q} 2>&1 | tee {log:q}"
