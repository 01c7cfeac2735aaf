"""The GGUF writer: names, the order of q and k rows, and models that it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gguf as gguf_package
import numpy as np
import pytest

from runner.backends.llamacpp import FILE, FILE_TYPES
from sameweights.artifacts import _write_gguf, gguf
from sameweights.errors import UserError

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_act": "silu",
    "vocab_size": 5,
    "hidden_size": 8,
    "intermediate_size": 6,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 16,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
    "tie_word_embeddings": True,
}
SHAPES = {
    "model.embed_tokens.weight": (5, 8),
    "model.norm.weight": (8,),
    "lm_head.weight": (5, 8),
    "model.layers.0.input_layernorm.weight": (8,),
    "model.layers.0.self_attn.q_proj.weight": (8, 8),
    "model.layers.0.self_attn.k_proj.weight": (4, 8),
    "model.layers.0.mlp.down_proj.weight": (8, 6),
}


def write_safetensors(path: Path, tensors: dict[str, Any], dtype: str = "F32") -> None:
    header, data = {}, b""
    for name, values in tensors.items():
        raw = values.tobytes()
        header[name] = {
            "dtype": dtype,
            "shape": list(values.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    random = np.random.default_rng(3)
    tensors = {n: random.normal(size=s).astype("<f4") for n, s in SHAPES.items()}
    write_safetensors(folder / "model.safetensors", tensors)
    return folder


def rotate_halves(x: Any, angles: Any) -> Any:
    """RoPE as transformers does it: element i turns with element i + d/2."""
    a, b = np.split(x, 2)
    return np.concatenate(
        [a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)]
    )


def rotate_neighbours(x: Any, angles: Any) -> Any:
    """RoPE as llama.cpp does it for a Llama: element 2i turns with element 2i + 1."""
    a, b = x[0::2], x[1::2]
    out = np.empty_like(x)
    out[0::2], out[1::2] = (
        a * np.cos(angles) - b * np.sin(angles),
        b * np.cos(angles) + a * np.sin(angles),
    )
    return out


def test_reordered_rows_give_the_same_attention_scores() -> None:
    random = np.random.default_rng(5)
    heads, dim, hidden = 3, 8, 10
    q, k = (random.normal(size=(heads * dim, hidden)) for _ in range(2))
    x, y = random.normal(size=(2, hidden))
    angles = random.normal(size=(2, dim // 2))

    def scores(q: Any, k: Any, rotate: Any) -> list[float]:
        qs, ks = (q @ x).reshape(heads, dim), (k @ y).reshape(heads, dim)
        return [
            float(rotate(a, angles[0]) @ rotate(b, angles[1])) for a, b in zip(qs, ks, strict=True)
        ]

    turned = (_write_gguf.interleave(w, heads) for w in (q, k))
    assert scores(*turned, rotate_neighbours) == pytest.approx(scores(q, k, rotate_halves))
    assert scores(q, k, rotate_neighbours) != pytest.approx(scores(q, k, rotate_halves))


def test_the_file_holds_the_weights_and_what_llama_cpp_reads(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.gguf"
    _write_gguf.main(model, out, 0)
    reader = gguf_package.GGUFReader(out)
    found = {tensor.name: tensor.data for tensor in reader.tensors}
    weights = dict(_write_gguf.read_weights(model))
    assert sorted(found) == [
        "blk.0.attn_k.weight",
        "blk.0.attn_norm.weight",
        "blk.0.attn_q.weight",
        "blk.0.ffn_down.weight",
        "output_norm.weight",
        "token_embd.weight",
    ]
    assert np.array_equal(found["token_embd.weight"], weights["model.embed_tokens.weight"])
    k = weights["model.layers.0.self_attn.k_proj.weight"]
    assert np.array_equal(found["blk.0.attn_k.weight"], k[[0, 2, 1, 3]])
    values = {name: field.contents() for name, field in reader.fields.items()}
    assert values["llama.rope.freq_base"] == 500.0
    assert (values["llama.attention.head_count"], values["llama.attention.head_count_kv"]) == (2, 1)
    assert values["llama.vocab_size"] == 5


def test_16_bit_weights_are_widened_exactly(model: Path) -> None:
    exact = np.array([[1.5, -2.0, 0.15625]], dtype="<f4")
    bf16 = (exact.view("<u4") >> 16).astype("<u2")
    for dtype, stored in (("BF16", bf16), ("F16", exact.astype("<f2"))):
        write_safetensors(model / "model.safetensors", {"lm_head.weight": stored}, dtype)
        ((_, values),) = _write_gguf.read_weights(model)
        assert values.dtype == np.float32
        assert np.array_equal(values, exact)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "qwen2"}, "'model_type' is 'qwen2'; allowed: 'llama'"),
        ({"attention_bias": True}, "'attention_bias' is True"),
        ({"rope_parameters": {"rope_type": "llama3"}}, "'rope_type' is 'llama3'"),
    ],
)
def test_another_architecture_is_refused_with_its_key(
    model: Path, change: dict[str, Any], message: str
) -> None:
    (model / "config.json").write_text(json.dumps({**CONFIG, **change}))
    with pytest.raises(UserError, match=message):
        gguf.convert(model, {"weights": "fp32"}, model.parent / "out", sys.executable)


def test_unknown_weights_and_tensors_are_refused(model: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'weights' is 'int8'; allowed: fp32"):
        gguf.convert(model, {"weights": "int8"}, tmp_path / "out", sys.executable)
    stray = {"model.layers.0.mlp.experts.weight": np.zeros((1, 1), dtype="<f4")}
    write_safetensors(model / "more.safetensors", stray)
    with pytest.raises(SystemExit, match="experts"):
        _write_gguf.main(model, tmp_path / "model.gguf", 0)


def test_converter_and_adapter_mean_the_same_file() -> None:
    assert {name: str(number) for name, number in gguf.FILE_TYPES.items()} == FILE_TYPES
    assert gguf.WRITTEN == FILE


def test_the_writer_runs_beside_a_file_of_its_packages_name() -> None:
    shown = subprocess.run(
        [sys.executable, "-I", str(gguf.WRITER)], capture_output=True, text=True, check=False
    )
    assert "IndexError" in shown.stderr, shown.stderr
