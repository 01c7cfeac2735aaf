"""torch's switches that change numbers on a GPU: put in force, read back, refused without effect.

On a CPU torch has none of them; nothing is touched there. Written from torch 2.13's
documentation; not run on a GPU.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch

from runner.checks import CheckFailure
from runner.options import Option, OptionError

BOTH = (True, False)
SWITCHES: dict[str, Option] = {
    "deterministic": Option(bool, None, BOTH),
    "tf32": Option(bool, None, BOTH),
    "reduced_precision_reduction": Option(bool, None, BOTH),
    "sdpa_kernel": Option(str, None, ("math", "flash", "efficient", "cudnn")),
}
"""Of CUDA alone; one that is not set keeps the library's default."""

WORKSPACES = (":4096:8", ":16:8")
"""Values of CUBLAS_WORKSPACE_CONFIG under which cuBLAS adds up in one order (cuBLAS 10.2 on)."""

FALLBACK = "PYTORCH_ENABLE_MPS_FALLBACK"


def check_switches(options: Mapping[str, Any], compute: str) -> None:
    """Raise OptionError for a switch that has no effect on this device, type or attention."""
    for name in SWITCHES:
        if options[name] is None:
            continue
        if options["device"] != "cuda":
            raise OptionError(
                f"cell.json: options: {name!r} has no effect on device {options['device']!r}; "
                "allowed with 'cuda'"
            )
        wanted = {"tf32": ("fp32",), "reduced_precision_reduction": ("bf16", "fp16")}.get(name)
        if wanted and compute not in wanted:
            raise OptionError(
                f"cell.json: options: {name!r} has no effect on products in {compute}; "
                f"allowed with {', '.join(wanted)}"
            )
        if name == "sdpa_kernel" and options["attention"] != "sdpa":
            raise OptionError(
                f"cell.json: options: {name!r} has no effect on attention "
                f"{options['attention']!r}; allowed with 'sdpa'"
            )


def check_device(device: str) -> None:
    """Raise CheckFailure for a GPU that is not there, or that would leave work to the CPU."""
    mps: Any = torch.backends.mps
    found = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": mps.is_available()}
    if not found[device]:
        raise CheckFailure(f"torch {torch.__version__} finds no device {device!r} here")
    if device == "mps" and os.environ.get(FALLBACK, "0") != "0":
        raise CheckFailure(
            f"environment: {FALLBACK} is set: what MPS lacks would run on the CPU, silently"
        )


def apply_switches(options: Mapping[str, Any]) -> None:
    """Put the switches in force; raises CheckFailure where cuBLAS could still pick its order."""
    if options["deterministic"]:
        found = os.environ.get("CUBLAS_WORKSPACE_CONFIG")
        if found not in WORKSPACES:
            raise CheckFailure(
                f"environment: CUBLAS_WORKSPACE_CONFIG is {found!r}; option 'deterministic' needs "
                f"one of {', '.join(WORKSPACES)}: set it in the device's 'env'"
            )
    if options["deterministic"] is not None:
        torch.use_deterministic_algorithms(options["deterministic"])
    if options["tf32"] is not None:
        torch.backends.cuda.matmul.fp32_precision = "tf32" if options["tf32"] else "ieee"
    if options["reduced_precision_reduction"] is not None:
        matmul: Any = torch.backends.cuda.matmul
        matmul.allow_bf16_reduced_precision_reduction = options["reduced_precision_reduction"]
        matmul.allow_fp16_reduced_precision_reduction = options["reduced_precision_reduction"]
    if options["sdpa_kernel"] is not None:
        cuda: Any = torch.backends.cuda
        for name, enable in {
            "math": cuda.enable_math_sdp,
            "flash": cuda.enable_flash_sdp,
            "efficient": cuda.enable_mem_efficient_sdp,
            "cudnn": cuda.enable_cudnn_sdp,
        }.items():
            enable(name == options["sdpa_kernel"])


def describe_device(device: str) -> dict[str, Any]:
    """Return what is in force on a GPU; nothing on a CPU."""
    if device == "mps":
        return {"mps_fallback": os.environ.get(FALLBACK)}
    if device != "cuda":
        return {}
    cuda: Any = torch.backends.cuda
    cudnn: Any = torch.backends.cudnn
    return {
        "gpu": torch.cuda.get_device_name(),
        "compute_capability": ".".join(map(str, torch.cuda.get_device_capability())),
        "cuda": torch.version.cuda,
        "cudnn": cudnn.version(),
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "cublas_workspace_config": os.environ.get("CUBLAS_WORKSPACE_CONFIG"),
        "matmul_fp32_precision": cuda.matmul.fp32_precision,
        "bf16_reduced_precision_reduction": cuda.matmul.allow_bf16_reduced_precision_reduction,
        "fp16_reduced_precision_reduction": cuda.matmul.allow_fp16_reduced_precision_reduction,
        "sdpa_kernels": [
            name
            for name, enabled in {
                "math": cuda.math_sdp_enabled,
                "flash": cuda.flash_sdp_enabled,
                "efficient": cuda.mem_efficient_sdp_enabled,
                "cudnn": cuda.cudnn_sdp_enabled,
            }.items()
            if enabled()
        ],
    }
