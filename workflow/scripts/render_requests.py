from pathlib import Path

from sameweights.requests import render_requests

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
