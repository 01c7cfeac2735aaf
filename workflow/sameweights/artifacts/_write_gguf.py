"""Write a Llama folder as GGUF: `_write_gguf.py MODEL OUT FTYPE`, in the backend's environment.

The weights go to a file of F32 first; llama.cpp's own quantizer makes every other type from it.
The file has no vocabulary: ids go in and come out, and text is the model's own tokenizer.json.
"""

from __future__ import annotations

import ctypes
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np

ALL_F32 = 0
"""llama.cpp's file type of unquantized weights."""

NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
STORED: dict[str, Any] = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}


def main(model: Path, out: Path, ftype: int) -> None:
    """Write `out`; ends the process with a message for a model that this cannot write."""
    config = json.loads((model / "config.json").read_bytes())
    refuse_others(model / "config.json", config)
    whole = out.with_suffix(".f32.gguf") if ftype != ALL_F32 else out
    write_f32(model, config, whole)
    if ftype != ALL_F32:
        quantize(whole, out, ftype)
        whole.unlink()


def refuse_others(path: Path, config: dict[str, Any]) -> None:
    """End with the key whose value would need more than a plain Llama."""
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    for key, found, allowed in (
        ("model_type", config.get("model_type"), "llama"),
        ("hidden_act", config.get("hidden_act"), "silu"),
        ("attention_bias", config.get("attention_bias", False), False),
        ("mlp_bias", config.get("mlp_bias", False), False),
        ("rope_type", rope.get("rope_type", "default"), "default"),
    ):
        if found != allowed:
            sys.exit(f"{path}: key {key!r} is {found!r}; allowed: {allowed!r}")


def write_f32(model: Path, config: dict[str, Any], out: Path) -> None:
    """Write the weights as F32, with the settings that llama.cpp reads."""
    heads = config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads", heads)
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    rope = config.get("rope_parameters") or config
    writer = gguf.GGUFWriter(str(out), "llama")
    writer.add_file_type(ALL_F32)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(float(rope.get("rope_theta", 10000.0)))
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_tokenizer_model("none")
    tied = config.get("tie_word_embeddings", False)
    for name, values in read_weights(model):
        if name == "lm_head.weight" and tied:
            continue
        counts = {"q_proj": heads, "k_proj": kv_heads}
        for part, count in counts.items():
            if f".{part}." in name:
                values = interleave(values, count)
        writer.add_tensor(gguf_name(name), np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def read_weights(model: Path) -> Iterator[tuple[str, Any]]:
    """Yield (name, fp32 array) of every tensor in the folder's safetensors files."""
    files = sorted(model.glob("*.safetensors"))
    if not files:
        sys.exit(f"{model}: no *.safetensors")
    for path in files:
        data = np.memmap(path, dtype=np.uint8, mode="r")
        start = 8 + int.from_bytes(data[:8].tobytes(), "little")
        header = json.loads(data[8:start].tobytes())
        header.pop("__metadata__", None)
        for name, entry in sorted(header.items()):
            if entry["dtype"] not in STORED:
                sys.exit(f"{path}: {name} is {entry['dtype']}; allowed: {', '.join(STORED)}")
            begin, end = entry["data_offsets"]
            raw = data[start + begin : start + end].view(STORED[entry["dtype"]])
            if entry["dtype"] == "BF16":
                values = (raw.astype(np.uint32) << 16).view(np.float32)
            else:
                values = raw.astype(np.float32)
            yield name, values.reshape(entry["shape"])


def gguf_name(name: str) -> str:
    """Translate a tensor's name; ends the process for one that a plain Llama does not have."""
    found = re.fullmatch(r"model\.layers\.(\d+)\.(.+)\.weight", name)
    if found and found[2] in LAYER_NAMES:
        return f"blk.{found[1]}.{LAYER_NAMES[found[2]]}.weight"
    if name not in NAMES:
        sys.exit(f"tensor {name!r} is not one of a Llama; only plain Llama folders are converted")
    return NAMES[name]


def interleave(values: Any, heads: int) -> Any:
    """Reorder the rows of each head from (halves of) pairs to neighbours.

    transformers rotates row i of a head with row i + d/2, llama.cpp row 2i with 2i + 1.
    """
    rows, columns = values.shape
    halves = values.reshape(heads, 2, rows // heads // 2, columns)
    return halves.swapaxes(1, 2).reshape(rows, columns)


def quantize(source: Path, out: Path, ftype: int) -> None:
    """Make a file of another type; ends the process when llama.cpp refuses."""
    import llama_cpp

    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = ftype
    code = llama_cpp.llama_model_quantize(
        str(source).encode(), str(out).encode(), ctypes.byref(params)
    )
    if code != 0:
        sys.exit(f"llama_model_quantize to file type {ftype} ended with {code}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
