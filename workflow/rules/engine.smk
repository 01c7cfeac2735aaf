# Phase 2, on devices: engines that only their own device can build (TensorRT).
# In: cell.json of a run, model, runner. Out: results/engines/; the engine itself stays there.


rule build_engine:
    input:
        specs=LAYOUT.results / f"specs/{{model}}/s{CONFIG.seeds[0]}.json",
        model=engine_weights,
        environment=engine_environment,
        runner=ancient(LAYOUT.runner),
    output:
        LAYOUT.engine("{model}/{device}/{backend}/{precision}"),
    log:
        LAYOUT.results / "logs/build_engine/{model}/{device}/{backend}/{precision}.log",
    conda:
        "../../envs/hub.yaml"
    resources:
        **BUILD_SLOTS,
    params:
        engine="{model}/{device}/{backend}/{precision}",
        workdir=LAYOUT.results / "devices",
        environment=lambda w: option(
            "--environment", REGISTRIES.backends.get(w.backend, "backends").environment
        ),
    message:
        "Build engine {params.engine}"
    shell:
        "sameweights build-engine --engine {params.engine:q} --specs {input.specs:q}"
        " --model {input.model:q} --runner {input.runner:q} --devices config/devices"
        " --calibrations config/calibration --workdir {params.workdir:q} --out {output:q}"
        " {params.environment:q} 2>&1 | tee {log:q}"
