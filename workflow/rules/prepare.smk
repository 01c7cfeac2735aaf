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


rule make_environment:
    input:
        "config/requirements/{environment}.txt",
    output:
        LAYOUT.environment_marker("{environment}"),
    log:
        LAYOUT.results / "logs/make_environment/{environment}.log",
    conda:
        "../../envs/hub.yaml"
    message:
        "Install the environment {wildcards.environment}"
    script:
        "../scripts/make_environment.py"


rule make_artifact:
    input:
        model=LAYOUT.model("{model}"),
        manifest=LAYOUT.manifest("{model}"),
        environment=lambda w: environment_markers(converter_environment(w.converter)),
    output:
        folder=directory(LAYOUT.artifact("{model}", "{converter}", "{precision}")),
        manifest=LAYOUT.artifact_manifest("{model}", "{converter}", "{precision}"),
    log:
        LAYOUT.results / "logs/make_artifact/{model}.{converter}.{precision}.log",
    conda:
        "../../envs/hub.yaml"
    params:
        recipe=lambda w: REGISTRIES.precisions.get(w.precision, "precisions").recipe,
        environment=lambda w: environment_folder(converter_environment(w.converter)),
        source=lambda w: source_digest(f"sameweights/artifacts/{w.converter}.py"),
    message:
        "Convert {wildcards.model} to {wildcards.converter}, {wildcards.precision}"
    script:
        "../scripts/make_artifact.py"


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
