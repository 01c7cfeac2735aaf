from pathlib import Path

from sameweights.environments import make_environment

make_environment(Path(snakemake.input[0]), Path(snakemake.output[0]), Path(snakemake.log[0]))
