import sys
from pathlib import Path

from sameweights.requests import render_requests

# Libraries' warnings and progress bars; shown when the job fails (show-failed-logs).
sys.stderr = Path(snakemake.log[0]).open("w", encoding="utf-8")
render_requests(
    Path(snakemake.input.model),
    snakemake.params.tasks,
    int(snakemake.wildcards.seed),
    snakemake.params.limit,
    snakemake.params.num_fewshot,
    snakemake.params.chat_template,
    Path("config/tasks"),
    Path(snakemake.output.requests),
)
