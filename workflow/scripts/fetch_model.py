import sys
from pathlib import Path

from sameweights.models import fetch_model
from sameweights.registry import ModelEntry, validate

# Libraries' warnings and progress bars; shown when the job fails (show-failed-logs).
sys.stderr = Path(snakemake.log[0]).open("w", encoding="utf-8")
fetch_model(
    validate(snakemake.params.entry, ModelEntry, f"config/models/{snakemake.wildcards.model}.yaml"),
    snakemake.wildcards.model,
    Path(snakemake.output.folder),
    Path(snakemake.output.manifest),
)
