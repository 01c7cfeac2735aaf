import sys
from pathlib import Path

from sameweights.score import score_runs

# Libraries' warnings and progress bars; shown when the job fails (show-failed-logs).
sys.stderr = Path(snakemake.log[0]).open("w", encoding="utf-8")
score_runs(
    Path(snakemake.input.requests),
    Path(snakemake.input.model),
    Path("config/tasks"),
    [Path(record).parent for record in snakemake.input.records],
    Path(snakemake.output[0]),
)
