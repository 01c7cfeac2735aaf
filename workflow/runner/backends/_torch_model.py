"""Load a transformers causal LM under a precision recipe, and call it with or without a cache."""

from __future__ import annotations

import hashlib
import inspect
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from runner.backends._folder import refuse_unsupported
from runner.checks import CheckFailure

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Loaded:
    """A model ready to run, its tokenizer, and what its folder says about generation."""

    model: Any
    tokenizer: Any
    device: torch.device
    window: int | None
    eos_ids: frozenset[int]
    pad_id: int
    repetition_penalty: float
    quantized: list[str]
    cache_key: str

    def forward(
        self,
        ids: torch.Tensor,
        cache: Any = None,
        keep: int = 0,
        mask: torch.Tensor | None = None,
        positions: torch.Tensor | None = None,
        use_cache: bool = False,
    ) -> tuple[torch.Tensor, Any]:
        """Run ids [B, T] after `cache`; return logits [B, keep or T, vocab] and the cache."""
        out = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            use_cache=use_cache,
            logits_to_keep=keep,
            **{self.cache_key: cache},
        )
        return out.logits, getattr(out, self.cache_key)


def load_model(folder: Path, recipe: dict[str, Any], attention: str, device: str) -> Loaded:
    """Load weights, quantize by the recipe, and read what generation needs.

    Raises CheckFailure for a generation_config.json that asks for what is not implemented.
    """
    logging.getLogger("transformers").setLevel(logging.ERROR)
    hf_logging: Any = transformers.utils.logging
    hf_logging.disable_progress_bar()
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=DTYPES[recipe["compute"]],
        attn_implementation=attention,
        local_files_only=True,
        use_safetensors=True,
        trust_remote_code=False,
    )
    model.to(device).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(
        folder, local_files_only=True, trust_remote_code=False
    )
    generation = model.generation_config
    refuse_unsupported(folder, generation.to_dict())
    eos = generation.eos_token_id
    eos_ids = {*(eos if isinstance(eos, list) else [eos]), tokenizer.eos_token_id} - {None}
    parameters = inspect.signature(model.forward).parameters
    return Loaded(
        model=model,
        tokenizer=tokenizer,
        device=torch.device(device),
        window=getattr(model.config, "max_position_embeddings", None),
        eos_ids=frozenset(eos_ids),
        pad_id=tokenizer.pad_token_id or 0,
        repetition_penalty=float(generation.repetition_penalty or 1.0),
        quantized=quantize(model, recipe),
        # transformers renamed the argument in 5.x; devices may have either.
        cache_key="cache" if "cache" in parameters else "past_key_values",
    )


def quantize(model: Any, recipe: dict[str, Any]) -> list[str]:
    """Quantize every linear layer but the output head in place; return their names.

    The head keeps the compute type (it shares its weights with the embedding in many models).
    Weights `int8-dequantized` are the same int8 values times the same scales, rounded once to
    the compute type, in ordinary layers: the rounding of the weights without the integer kernel.
    Weights `int4` (symmetric, one scale a group of inputs) have no integer kernel on a CPU: the
    layer dequantizes them to the compute type at every call.
    """
    if recipe["weights"] not in ("int8", "int8-dequantized", "int4"):
        return []
    logging.getLogger("torchao").setLevel(logging.ERROR)
    from torchao.quantization import quantize_

    head = model.get_output_embeddings()
    chosen: dict[str, Any] = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and module is not head
    }
    quantize_(model, torchao_config(recipe), filter_fn=lambda _module, name: name in chosen)
    if recipe["weights"] == "int8-dequantized":
        for module in chosen.values():
            plain = module.weight.dequantize(output_dtype=DTYPES[recipe["compute"]])
            module.weight = torch.nn.Parameter(plain, requires_grad=False)
    return sorted(chosen)


def digest_quantized(loaded: Loaded) -> str | None:
    """Return the SHA-256 over all quantized weights, values and scales; None without any.

    They are made where the cell runs: this says whether two cells have the same bits.
    """
    if not loaded.quantized:
        return None
    sha = hashlib.sha256()
    for name in loaded.quantized:
        weight = loaded.model.get_submodule(name).weight
        parts = [getattr(weight, part, None) for part in ("qdata", "scale", "zero_point")]
        for part in [weight] if parts[0] is None else parts:
            if part is not None:
                sha.update(
                    part.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data
                )
    return sha.hexdigest()


def torchao_config(recipe: dict[str, Any]) -> Any:
    """Return torchao's configuration of a recipe."""
    from torchao import quantization

    bits: Any = torch
    if recipe["weights"] == "int4":
        group = quantization.granularity.PerGroup(recipe["group"])
        return quantization.IntxWeightOnlyConfig(weight_dtype=bits.int4, granularity=group)
    if recipe["activations"] == "int8-dynamic":
        return quantization.Int8DynamicActivationInt8WeightConfig()
    return quantization.Int8WeightOnlyConfig()


def set_threads(threads: int) -> None:
    """Fix torch's thread count; raises CheckFailure if another number is in force."""
    torch.set_num_threads(threads)
    if torch.get_num_threads() != threads:
        raise CheckFailure(f"torch uses {torch.get_num_threads()} threads, asked for {threads}")


def check_capability() -> str:
    """Return torch's CPU capability; raises CheckFailure if the cell's cap is not in force."""
    found = str(torch.backends.cpu.get_cpu_capability())
    asked = os.environ.get("ATEN_CPU_CAPABILITY")
    if asked is not None and asked.lower() != found.lower():
        raise CheckFailure(
            f"env: ATEN_CPU_CAPABILITY is {asked!r}, but torch runs with {found!r} on this CPU"
        )
    return found


def refuse_sliding_windows(loaded: Loaded) -> None:
    """Refuse shared scoring of a model whose layers do not all see the whole text.

    Raises CheckFailure: the mask of shared scoring would widen such a layer's view, silently.
    """
    kinds = set(getattr(loaded.model.config, "layer_types", None) or ["full_attention"])
    if kinds != {"full_attention"}:
        raise CheckFailure(
            f"cell.json: options: 'scoring' is 'shared', but the model has layers of the kinds "
            f"{sorted(kinds)}; allowed: full_attention. Use 'independent'"
        )
