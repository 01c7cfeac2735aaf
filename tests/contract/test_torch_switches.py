"""torch's switches of a GPU, by what torch is told; no GPU is here, so its answers are stood in."""

from __future__ import annotations

from typing import Any

import pytest

from runner.checks import CheckFailure
from runner.options import OptionError, resolve_options

torch: Any = pytest.importorskip("torch")
switches = pytest.importorskip("runner.backends._torch_switches")


def options(**given: Any) -> dict[str, Any]:
    from runner.backends.torch import Backend

    return resolve_options(given, Backend.OPTIONS)


@pytest.mark.parametrize(
    ("given", "compute", "says"),
    [
        ({"tf32": True}, "fp32", "'tf32' has no effect on device 'cpu'"),
        ({"deterministic": True}, "fp32", "'deterministic' has no effect on device 'cpu'"),
        ({"device": "mps", "tf32": False}, "fp32", "no effect on device 'mps'"),
        ({"device": "cuda", "tf32": True}, "bf16", "no effect on products in bf16.*fp32"),
        (
            {"device": "cuda", "reduced_precision_reduction": False},
            "fp32",
            "no effect on products in fp32.*bf16, fp16",
        ),
        (
            {"device": "cuda", "attention": "eager", "sdpa_kernel": "math"},
            "bf16",
            "no effect on attention 'eager'",
        ),
    ],
)
def test_a_switch_without_effect_is_refused(given: dict[str, Any], compute: str, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        switches.check_switches(options(**given), compute)


@pytest.mark.parametrize(
    ("given", "compute"),
    [
        ({"device": "cuda", "tf32": False, "deterministic": True}, "fp32"),
        ({"device": "cuda", "reduced_precision_reduction": False, "sdpa_kernel": "math"}, "bf16"),
        ({}, "fp32"),
    ],
)
def test_a_switch_with_effect_is_taken(given: dict[str, Any], compute: str) -> None:
    switches.check_switches(options(**given), compute)


def test_a_gpu_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(CheckFailure, match="finds no device 'cuda' here"):
        switches.check_device("cuda")
    switches.check_device("cpu")


def test_a_silent_fallback_to_the_cpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    switches.check_device("mps")
    monkeypatch.setenv(switches.FALLBACK, "1")
    with pytest.raises(CheckFailure, match="MPS lacks would run on the CPU"):
        switches.check_device("mps")


def test_deterministic_needs_a_workspace_of_one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = options(device="cuda", deterministic=True)
    told: list[bool] = []
    monkeypatch.setattr(torch, "use_deterministic_algorithms", told.append)
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    with pytest.raises(CheckFailure, match=r"CUBLAS_WORKSPACE_CONFIG is None.*:4096:8"):
        switches.apply_switches(asked)
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    switches.apply_switches(asked)
    assert told == [True]


def test_switches_reach_torch_and_are_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    matmul = torch.backends.cuda.matmul
    names = ("fp32_precision", "allow_bf16_reduced_precision_reduction")
    before = {name: getattr(matmul, name) for name in names}
    kernels = (
        torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.mem_efficient_sdp_enabled(),
        torch.backends.cuda.math_sdp_enabled(), torch.backends.cuda.cudnn_sdp_enabled(),
    )  # fmt: skip
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "A GPU")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 7))
    try:
        switches.apply_switches(options(device="cuda", tf32=False, sdpa_kernel="math"))
        switches.apply_switches(options(device="cuda", reduced_precision_reduction=False))
        found = switches.describe_device("cuda")
    finally:
        for name, value in before.items():
            setattr(matmul, name, value)
        matmul.allow_fp16_reduced_precision_reduction = True
        flash, efficient, math, cudnn = kernels
        torch.backends.cuda.enable_flash_sdp(flash)
        torch.backends.cuda.enable_mem_efficient_sdp(efficient)
        torch.backends.cuda.enable_math_sdp(math)
        torch.backends.cuda.enable_cudnn_sdp(cudnn)
    assert found["matmul_fp32_precision"] == "ieee"
    assert found["sdpa_kernels"] == ["math"]
    assert found["bf16_reduced_precision_reduction"] is False
    assert found["compute_capability"] == "8.7"


def test_nothing_is_touched_without_a_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a default was changed")

    monkeypatch.setattr(torch, "use_deterministic_algorithms", refuse)
    monkeypatch.setattr(torch.backends.cuda, "enable_math_sdp", refuse)
    switches.apply_switches(options())
    assert switches.describe_device("cpu") == {}
