from pathlib import Path

from sameweights.report import build_report

build_report(
    Path(snakemake.input.warehouse),
    Path(snakemake.input.comparison),
    Path(snakemake.input.attribution),
    Path(snakemake.input.assets),
    Path(snakemake.output.page),
    Path(snakemake.output.summary),
    Path(snakemake.output.verdict),
    Path(snakemake.output.tables),
)
