from pathlib import Path

from sameweights.cells import Registries, plan_matrix
from sameweights.config import load_config
from sameweights.paths import Layout
from sameweights.specs import write_specs

registries = Registries.read(Path("config"))
config = load_config(snakemake.config)
write_specs(
    plan_matrix(config, registries, Path("config/capabilities.yaml")),
    registries,
    snakemake.wildcards.model,
    int(snakemake.wildcards.seed),
    Layout(Path(config.results)),
    Path(snakemake.input.requests),
    Path(snakemake.input.canary),
    snakemake.params.request_timeout_s,
    Path(snakemake.output[0]),
)
