"""The llama.cpp backend's options, refused before the runtime is imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runner.backends.llamacpp import Backend, _fill_batches, _window
from runner.contract import CellSpec
from runner.options import OptionError

Q8_KV = {"weights": "q8_0", "kv_cache": "q8_0", "library": "llama.cpp"}


def spec(options: dict[str, Any], recipe: dict[str, Any]) -> CellSpec:
    return CellSpec("c", "m", "d", "b", "p", 0, 0, "llamacpp", options, recipe, {}, 1, {}, "")


def test_a_quantized_cache_needs_flash_attention(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"'kv_cache' is 'q8_0'.*'flash_attention': true"):
        Backend(tmp_path, spec({}, Q8_KV))


def test_16_bit_recipes_of_torch_are_not_those_of_a_gguf(tmp_path: Path) -> None:
    recipe = {"weights": "bf16", "activations": "bf16", "compute": "bf16"}
    with pytest.raises(OptionError, match="key 'recipe'"):
        Backend(tmp_path, spec({}, recipe))


def test_batches_default_to_what_fits_and_never_shrink_unseen() -> None:
    nothing = {"n_batch": None, "n_ubatch": None}
    assert _fill_batches(nothing, 8192) == {"n_ctx": 8192, "n_batch": 512, "n_ubatch": 512}
    assert _fill_batches(nothing, 64) == {"n_ctx": 64, "n_batch": 64, "n_ubatch": 64}
    with pytest.raises(OptionError, match="'n_batch' is 65, above the window of 64: no effect"):
        _fill_batches({"n_batch": 65, "n_ubatch": None}, 64)
    with pytest.raises(OptionError, match="'n_ubatch' is 9, above 'n_batch' of 8"):
        _fill_batches({"n_batch": 8, "n_ubatch": 9}, 64)


def test_a_context_may_be_shorter_than_the_model_but_not_longer() -> None:
    assert _window(64, None) == 64
    assert _window(64, 32) == 32
    with pytest.raises(OptionError, match="'n_ctx' is 65; the model has 64"):
        _window(64, 65)
    with pytest.raises(OptionError, match="'n_ctx' is needed"):
        _window(None, None)
