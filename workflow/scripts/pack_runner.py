from pathlib import Path

from runner.pack import build_pyz

build_pyz(Path(snakemake.output[0]))
