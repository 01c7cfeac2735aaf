"""The machine as the runner finds it: environment set before the backend, facts for the record."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from runner.contract import RUNNER_VERSION

PACKAGES = (
    "torch",
    "transformers",
    "torchao",
    "tokenizers",
    "safetensors",
    "numpy",
    "lm-eval",
    "accelerate",
    "onnxruntime",
    "onnxruntime-genai",
    "openvino",
    "llama-cpp-python",
    "mlx",
    "mlx-lm",
    "sglang",
    "vllm",
    "tensorrt-llm",
)

NUMERIC_PREFIXES = (
    "ATEN_",
    "CUBLAS_",
    "DNNL_",
    "GOMP_",
    "KMP_",
    "MKL_",
    "NVIDIA_TF32",
    "OMP_",
    "ONEDNN_",
    "OPENBLAS_",
    "PYTORCH_",
    "SGLANG_",
    "TORCH_",
    "VLLM_",
)
"""Variables that can change numbers: one that the cell does not name is removed."""

OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def set_environment(env: Mapping[str, str], threads: int) -> list[str]:
    """Put the cell's environment in force; call before any backend is imported.

    Returns the names of variables that were removed because the cell does not name them.
    Raises RuntimeError when a numeric library has been loaded too early to notice.
    """
    early = [name for name in ("torch", "numpy") if name in sys.modules]
    if early:
        raise RuntimeError(f"{early} imported before the cell's environment was set")
    removed = [name for name in os.environ if name.startswith(NUMERIC_PREFIXES) and name not in env]
    for name in removed:
        del os.environ[name]
    count = str(threads)
    os.environ.update(OFFLINE)
    os.environ.update({"OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count})
    os.environ.update(env)
    return sorted(removed)


def host_facts() -> dict[str, Any]:
    """Return the facts of this machine as JSON; one that cannot be read is null."""
    return {
        "runner_version": RUNNER_VERSION,
        "python": platform.python_version(),
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()).strip() or None,
        "cpu": _try(cpu_model),
        "cpu_flags": _try(cpu_flags),
        "microcode": _try(lambda: _cpuinfo("microcode")),
        "cpus": os.cpu_count(),
        "governor": _try(
            lambda: _text(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"))
        ),
        "memory_bytes": _try(lambda: os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")),
        "board": _try(lambda: _text(Path("/proc/device-tree/model")).strip("\0")),
        "l4t": _try(lambda: _text(Path("/etc/nv_tegra_release"))),
        "gpu": _try(_nvidia_smi),
        "packages": package_versions(),
    }


def package_versions() -> dict[str, str]:
    """Return installed versions of the packages that can change a number, without imports."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def cpu_model() -> str:
    """Return the CPU's name as the kernel (or macOS) gives it."""
    if platform.system() == "Darwin":
        return _output("sysctl", "-n", "machdep.cpu.brand_string")
    return _cpuinfo("model name")


def cpu_flags() -> list[str]:
    """Return the CPU's instruction-set flags, sorted ("flags" on x86, "Features" on ARM)."""
    key = "Features" if platform.machine() == "aarch64" else "flags"
    return sorted(_cpuinfo(key).split())


def _cpuinfo(key: str) -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    raise LookupError(key)


def _nvidia_smi() -> list[str]:
    fields = "name,uuid,driver_version,compute_cap,memory.total"
    return _output("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader").splitlines()


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    return done.stdout.strip()


def _text(path: Path) -> str:
    return path.read_text().strip()


def _try(read: Callable[[], Any]) -> Any:
    """Read one fact on its own: what this machine lacks must not hide the others."""
    try:
        return read()
    except (OSError, LookupError, ValueError, subprocess.SubprocessError):
        return None
