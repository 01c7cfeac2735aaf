from pathlib import Path

from sameweights.attribute import attribute_warehouse

attribute_warehouse(
    Path(snakemake.input[0]),
    snakemake.params.reference,
    snakemake.params.target,
    Path("config"),
    Path(snakemake.output[0]),
)
