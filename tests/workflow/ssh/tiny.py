"""A small random Llama and cells for it, for runs of the real runner with torch."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from runner.contract import CellSpec, Request, file_sha256, read_responses, write_jsonl

VOCABULARY = 300
FP32 = {"weights": "fp32", "activations": "fp32", "compute": "fp32"}


def write_tiny_model(folder: Path) -> None:
    """Write a 2-layer Llama, hidden size 256, with a tokenizer of bytes; its weights are drawn."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(special_tokens=["<|end|>"], initial_alphabet=alphabet)
    tokenizer.train_from_iterator([], trainer)
    wrapper: Any = PreTrainedTokenizerFast
    wrapper(tokenizer_object=tokenizer, eos_token="<|end|>").save_pretrained(folder)
    torch.manual_seed(5)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=256, intermediate_size=512, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
        initializer_range=0.2, bos_token_id=None, eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)


def draw_requests(n: int) -> list[Request]:
    """Draw n log-likelihood and n generate requests; the same ones each time."""
    draw = random.Random(7)

    def ids(count: int) -> list[int]:
        return [draw.randrange(1, 250) for _ in range(count)]

    return [Request("loglikelihood", ids(12), ids(8)) for _ in range(n)] + [
        Request("generate", ids(12), max_new_tokens=12) for _ in range(n)
    ]


def write_cell(
    folder: Path, model: Path, device: str, adapter: str, env: dict[str, str], **options: Any
) -> Path:
    """Write cell.json of one device, and the requests if they are not there; return its path."""
    requests = folder / "requests.jsonl"
    if not requests.exists():
        write_jsonl(requests, (r.to_json() for r in draw_requests(10)))
    files = {p.name: file_sha256(p) for p in model.iterdir()}
    spec = CellSpec(
        cell=f"tiny/{device}/{adapter}/fp32/s0", model="tiny", device=device, backend=adapter,
        precision="fp32", seed=0, replicate=0, adapter=adapter, options=options, recipe=FP32,
        env=env, threads=1, files=files, requests_sha256=file_sha256(requests),
    )  # fmt: skip
    path = folder / f"{device}.{adapter}.json"
    path.write_text(json.dumps(spec.to_json()))
    return path


def without_times(responses: Path) -> list[dict[str, Any]]:
    """Return all responses; the time that one took is the only thing that may differ."""
    return [{**r.to_json(), "elapsed_s": None} for r in read_responses(responses)]
