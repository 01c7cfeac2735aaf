# Phase 1, on the hub: model folder, packed runner, requests, canary.
# In: config/. Out: results/models, results/requests, results/canary, results/runner.pyz.


rule fetch_model:
    output:
        folder=directory(LAYOUT.model("{model}")),
        manifest=LAYOUT.manifest("{model}"),
    log:
        LAYOUT.results / "logs/fetch_model/{model}.log",
    conda:
        "../../envs/hub.yaml"
    params:
        entry=lambda w: REGISTRIES.models.get(w.model, "models").model_dump(),
    message:
        "Fetch and hash model {wildcards.model}"
    script:
        "../scripts/fetch_model.py"


rule pack_runner:
    output:
        LAYOUT.runner,
    log:
        LAYOUT.results / "logs/pack_runner.log",
    conda:
        "../../envs/hub.yaml"
    params:
        source=source_digest("runner"),
    message:
        "Pack the runner into one file"
    script:
        "../scripts/pack_runner.py"


rule render_requests:
    input:
        model=LAYOUT.model("{model}"),
        manifest=LAYOUT.manifest("{model}"),
    output:
        requests=LAYOUT.requests("{model}", "{seed}"),
        jsonl=LAYOUT.requests_jsonl("{model}", "{seed}"),
        docs=LAYOUT.docs("{model}", "{seed}"),
        meta=LAYOUT.requests_meta("{model}", "{seed}"),
    log:
        LAYOUT.results / "logs/render_requests/{model}.s{seed}.log",
    conda:
        "../../envs/hub.yaml"
    params:
        tasks=CONFIG.tasks,
        limit=CONFIG.limit,
        num_fewshot=CONFIG.num_fewshot,
        chat_template=lambda w: REGISTRIES.models.get(w.model, "models").chat_template,
        source=source_digest(*RENDERERS),
    message:
        "Render the requests of {wildcards.model}, seed {wildcards.seed}, with lm-eval"
    script:
        "../scripts/render_requests.py"


rule measure_canary:
    input:
        model=LAYOUT.model("{model}"),
        manifest=LAYOUT.manifest("{model}"),
        runner=LAYOUT.runner,
    output:
        LAYOUT.canary("{model}"),
    log:
        LAYOUT.results / "logs/measure_canary/{model}.log",
    conda:
        "../../envs/hub.yaml"
    message:
        "Measure the canary's reference values of {wildcards.model}"
    script:
        "../scripts/measure_canary.py"
