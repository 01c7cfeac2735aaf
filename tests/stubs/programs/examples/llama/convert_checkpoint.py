"""Stands in for examples/llama/convert_checkpoint.py: its flags, and config.json's quantization."""

import argparse
import json
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--model_dir")
parser.add_argument("--output_dir")
parser.add_argument("--dtype", default="float16", choices=["float32", "bfloat16", "float16"])
parser.add_argument("--use_weight_only", action="store_true")
parser.add_argument("--weight_only_precision", default="int8", choices=["int8", "int4"])
parser.add_argument("--smoothquant", type=float)
parser.add_argument("--per_channel", action="store_true")
parser.add_argument("--per_token", action="store_true")
parser.add_argument("--int8_kv_cache", action="store_true")
parser.add_argument("--calib_dataset", default="ccdv/cnn_dailymail")
options = parser.parse_args()

algorithm = None
if options.use_weight_only:
    algorithm = "W8A16"
elif options.smoothquant:
    assert options.per_channel and options.per_token
    algorithm = "W8A8_SQ_PER_CHANNEL_PER_TOKEN_PLUGIN"
if options.smoothquant or options.int8_kv_cache:
    lines = (Path(options.calib_dataset) / "validation.jsonl").read_text().splitlines()
    assert len(lines) >= 512 and all(json.loads(line)["text"] for line in lines)
out = Path(options.output_dir)
out.mkdir(parents=True)
kv = "INT8" if options.int8_kv_cache else None
quantization = {"quant_algo": algorithm, "kv_cache_quant_algo": kv}
facts = {"dtype": options.dtype, "quantization": quantization, "model_dir": options.model_dir}
(out / "config.json").write_text(json.dumps(facts))
