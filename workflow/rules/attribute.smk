# Phase 5, on the hub: the drop from reference to target, split by cause or refused.
# In: warehouse.duckdb. Out: attribution.json.


rule attribute:
    input:
        LAYOUT.warehouse,
    output:
        LAYOUT.attribution,
    log:
        LAYOUT.results / "logs/attribute.log",
    conda:
        "../../envs/hub.yaml"
    params:
        reference="/".join(CONFIG.reference.model_dump().values()),
        target="/".join(CONFIG.target.model_dump().values()),
        source=source_digest("sameweights/attribution"),
    message:
        "Split the drop from {params.reference} to {params.target}"
    script:
        "../scripts/attribute.py"
