"""vLLM's settings on its stand-in: what is asked of the engine for each recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.contract.conftest import WINDOW, make_spec
from tests.contract.trtllm_stub import open_on_stub

FP8 = {"weights": "fp8", "activations": "fp8-dynamic", "compute": "bf16", "library": "vllm"}
BF16 = {"weights": "bf16", "activations": "bf16", "compute": "bf16"}


@pytest.mark.parametrize(("recipe", "method"), [(FP8, "fp8_per_tensor"), (BF16, None)])
def test_weights_are_quantized_where_the_recipe_says_so(
    recipe: dict[str, Any], method: str | None, tiny_model: Path, tmp_path: Path
) -> None:
    spec = make_spec("vllm", {"max_seq_len": WINDOW + 1}, recipe)
    backend: Any = open_on_stub("vllm_0_33", spec, tiny_model, tmp_path)
    asked = backend.engine.llm.arguments
    assert (asked.dtype, asked.quantization) == ("bfloat16", method)
    assert not asked.enable_prefix_caching
    assert asked.max_num_batched_tokens == asked.max_model_len
