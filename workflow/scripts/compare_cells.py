from pathlib import Path

from sameweights.compare import compare_cells

compare_cells(Path(snakemake.input[0]), Path(snakemake.output[0]))
