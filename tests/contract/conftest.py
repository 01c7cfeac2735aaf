"""A tiny random Llama with its own tokenizer, made on the spot, and the backends under test."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.contract.trtllm_stub import EXAMPLES, open_on_stub

import runner.backends
from runner.backends import Backend, load_adapter
from runner.contract import CellSpec
from sameweights.artifacts import gguf, mlx, onnx, openvino
from sameweights.models import spell_rope_both_ways

WINDOW = 64
FIXTURES = Path(__file__).parents[1] / "fixtures" / "backends"
"""Adapters that are no part of the package."""

EOS_PROMPT = "the end"
"""The tiny model answers this prompt with nothing but its end-of-text token."""

CORPUS = (
    "the cat sat on the mat and the dog ran to the door",
    "one two three four five six seven eight nine ten",
    "a red fox jumps over the lazy brown dog at the end of the day",
)

FP32 = {"weights": "fp32", "activations": "fp32", "compute": "fp32"}


@dataclass(frozen=True)
class Case:
    """A backend ready to run, an oracle of its numbers, and how it writes text."""

    name: str
    spec: CellSpec
    backend: Backend
    next_logprobs: Callable[[list[int]], list[float]]
    encode: Callable[[str], list[int]]
    decode: Callable[[list[int]], str]
    eos: int


def make_spec(adapter: str, options: dict[str, Any], recipe: dict[str, Any] = FP32) -> CellSpec:
    return CellSpec(
        cell=f"tiny/here/{adapter}/fp32/s0",
        model="tiny",
        device="here",
        backend=adapter,
        precision="fp32",
        seed=0,
        replicate=0,
        adapter=adapter,
        options=options,
        recipe=recipe,
        env={},
        threads=1,
        files={},
        requests_sha256="",
    )


@pytest.fixture(scope="module", autouse=True)
def _fixture_adapters() -> Iterator[None]:
    """Find the fixtures' adapters by their names, for these tests only."""
    path: Any = runner.backends.__path__
    path.append(str(FIXTURES))
    yield
    path.remove(str(FIXTURES))


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a 2-layer Llama, hidden size 32, vocabulary 300, window 64, fp32."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("tiny-llama")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|end|>", "<|pad|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer_class: Any = PreTrainedTokenizerFast
    wrapped = tokenizer_class(tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|pad|>")
    wrapped.save_pretrained(folder)
    torch.set_num_threads(1)  # a second thread only waits on a model of this size
    torch.manual_seed(11)
    config = LlamaConfig(
        vocab_size=len(wrapped),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=WINDOW,
        initializer_range=0.3,
        # Not the default: a reader that misses the key must be found out.
        rope_parameters={"rope_type": "default", "rope_theta": 50.0},
        bos_token_id=None,
        eos_token_id=wrapped.eos_token_id,
        pad_token_id=wrapped.pad_token_id,
        tie_word_embeddings=False,
    )
    model: Any = LlamaForCausalLM(config)
    model.eval()
    with torch.no_grad():
        prompt = torch.tensor([wrapped.encode(EOS_PROMPT)])
        hidden = model.model(prompt).last_hidden_state[0, -1]
        model.lm_head.weight[wrapped.eos_token_id] = 9 * hidden / hidden.dot(hidden)
    model.save_pretrained(folder)
    spell_rope_both_ways(folder / "config.json")
    assert "float32" in json.loads((folder / "config.json").read_text()).get("dtype", "")
    return folder


def converted(adapter: str, folder: Path) -> Path:
    """Return the folder that the adapter reads, made from the model by its converter if it has one.

    Skips the test where the adapter's runtime is not installed.
    """
    if adapter not in CONVERTED:
        return folder
    runtime, convert = CONVERTED[adapter]
    pytest.importorskip(runtime)
    out = folder.with_name(f"{folder.name}-{adapter}")
    if not out.exists():
        convert(folder, FP32, out, sys.executable)
        for path in folder.glob("*.json"):
            shutil.copyfile(path, out / path.name)
    return out


def open_case(name: str, folder: Path, make_workdir: Callable[[], Path]) -> Case:
    adapter, options = BACKENDS[name]
    spec = make_spec(adapter, options)
    if name in STUBS:
        spec = make_spec(adapter, {**options, **STUB_OPTIONS[adapter]})
        backend = open_on_stub(STUBS[name], spec, folder, make_workdir())
    else:
        backend = load_adapter(adapter)(converted(adapter, folder), spec)
    if adapter == "fake":
        return _fake_case(name, spec, backend)
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    oracle = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float64, attn_implementation="eager"
    )
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def next_logprobs(ids: list[int]) -> list[float]:
        with torch.no_grad():
            row: list[float] = oracle(torch.tensor([ids])).logits[0, -1].log_softmax(-1).tolist()
        return row

    return Case(
        name,
        spec,
        backend,
        next_logprobs,
        lambda text: tokenizer.encode(text, add_special_tokens=False),
        lambda ids: str(tokenizer.decode(ids, skip_special_tokens=True)),
        tokenizer.eos_token_id,
    )


def _fake_case(name: str, spec: CellSpec, backend: Backend) -> Case:
    import numpy as np

    def next_logprobs(ids: list[int]) -> list[float]:
        columns = np.arange(64)
        row = (7 * ids[-1] + (13 + ids[-1]) * columns) % 11 / 3
        logprobs: list[float] = (row - np.log(np.exp(row).sum())).tolist()
        return logprobs

    def encode(text: str) -> list[int]:
        return [ord(c) % 63 + 1 for c in text]

    return Case(name, spec, backend, next_logprobs, encode, lambda ids: "", 0)


BACKENDS: dict[str, tuple[str, dict[str, Any]]] = {
    "fake": ("fake", {"batch_size": 3}),
    "torch-independent": ("torch", {"batch_size": 1}),
    "torch-eager": ("torch", {"batch_size": 3, "attention": "eager"}),
    "torch-left": ("torch", {"batch_size": 3, "padding_side": "left"}),
    "torch-shared": ("torch", {"batch_size": 3, "scoring": "shared"}),
    "onnxruntime": ("onnxruntime", {"batch_size": 3}),
    "openvino": ("openvino", {"batch_size": 3}),
    "llamacpp": ("llamacpp", {"n_batch": 8, "n_ubatch": 4}),
    "mlx": ("mlx", {"device": "cpu"}),
    "numpy-llama": ("numpy_llama", {"batch_size": 3}),
    "lmeval": (
        "lmeval",
        {"batch_size": 1, "model_args": {"device": "cpu", "add_bos_token": False}},
    ),
    "trtllm-engine-0.12": ("trtllm_engine", {"engines": "two"}),
    "trtllm-engine-1.2": ("trtllm_engine", {}),
    "vllm": ("vllm", {}),
    "sglang": ("sglang", {"deterministic": True}),
}
STUBS = {
    "trtllm-engine-0.12": "trtllm_0_12",
    "trtllm-engine-1.2": "trtllm_1_2",
    "vllm": "vllm_0_33",
    "sglang": "sglang_0_5",
}
"""Backends whose runtime cannot be installed here, and the stand-in that they run on."""

STUB_OPTIONS: dict[str, dict[str, Any]] = {
    "trtllm_engine": {"examples": str(EXAMPLES), "max_seq_len": WINDOW + 1},
    "vllm": {"max_seq_len": WINDOW + 1},
    "sglang": {"max_seq_len": WINDOW + 1},
}

CONVERTED: dict[str, tuple[str, Callable[..., Any]]] = {
    "onnxruntime": ("onnxruntime", onnx.convert),
    "openvino": ("openvino", openvino.convert),
    "llamacpp": ("llama_cpp", gguf.convert),
    "mlx": ("mlx_lm", mlx.convert),
}
"""Adapters that read a converted model: the module of their runtime, and the converter."""


@pytest.fixture(scope="session")
def open_backend(
    tiny_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Case]:
    cases: dict[str, Case] = {}

    def get(name: str) -> Case:
        if name not in cases:
            cases[name] = open_case(name, tiny_model, lambda: tmp_path_factory.mktemp(name))
        return cases[name]

    return get


@pytest.fixture(params=sorted(BACKENDS))
def case(request: pytest.FixtureRequest, open_backend: Callable[[str], Case]) -> Case:
    return open_backend(request.param)
