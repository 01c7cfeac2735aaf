from pathlib import Path

from sameweights.models import fetch_model
from sameweights.registry import ModelEntry, validate

fetch_model(
    validate(snakemake.params.entry, ModelEntry, f"config/models/{snakemake.wildcards.model}.yaml"),
    snakemake.wildcards.model,
    Path(snakemake.output.folder),
    Path(snakemake.output.manifest),
)
