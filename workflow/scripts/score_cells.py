from pathlib import Path

from sameweights.score import score_runs

score_runs(
    Path(snakemake.input.requests),
    Path(snakemake.input.model),
    Path("config/tasks"),
    [Path(record).parent for record in snakemake.input.records],
    Path(snakemake.output[0]),
)
