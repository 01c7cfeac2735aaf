import sys
from pathlib import Path

from sameweights.artifacts import make_artifact
from sameweights.environments import environment_python

# Tools' warnings and progress bars; shown when the job fails (show-failed-logs).
sys.stderr = Path(snakemake.log[0]).open("w", encoding="utf-8")
environment = snakemake.params.environment
make_artifact(
    snakemake.wildcards.converter,
    snakemake.wildcards.model,
    Path(snakemake.input.model),
    Path(snakemake.input.manifest),
    snakemake.params.recipe,
    str(environment_python(Path(environment))) if environment else sys.executable,
    Path(snakemake.output.folder),
    Path(snakemake.output.manifest),
)
