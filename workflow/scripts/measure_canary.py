from pathlib import Path

from sameweights.canary import measure_canary

measure_canary(
    snakemake.wildcards.model,
    Path(snakemake.input.model),
    Path(snakemake.input.manifest),
    Path(snakemake.input.runner),
    Path(snakemake.output[0]),
)
