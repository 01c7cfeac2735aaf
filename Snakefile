# sameweights: why the same weights answer differently on another machine.
# Table of contents only: phases in the order in which data flows.
from snakemake.utils import min_version

min_version("9.27")


configfile: "config/config.yaml"


include: "workflow/rules/common.smk"


rule all:
    default_target: True
    input:
        LAYOUT.report,
        LAYOUT.results / "cells.checked",
    message:
        "Report, and a check that no cell failed"


include: "workflow/rules/prepare.smk"
include: "workflow/rules/engine.smk"
include: "workflow/rules/run.smk"
include: "workflow/rules/score.smk"
include: "workflow/rules/warehouse.smk"
include: "workflow/rules/attribute.smk"
include: "workflow/rules/report.smk"
