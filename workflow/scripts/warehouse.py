from pathlib import Path

from sameweights.warehouse import build_warehouse

build_warehouse(Path(snakemake.params.results), Path(snakemake.output[0]))
