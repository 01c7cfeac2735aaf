import json
from pathlib import Path

Path(snakemake.output[0]).write_text(json.dumps(snakemake.params.matrix, indent=1) + "\n")
