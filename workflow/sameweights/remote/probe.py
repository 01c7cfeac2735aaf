"""What is asked of a device about itself, by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sameweights.errors import UserError, did_you_mean
from sameweights.remote.transport import Transport

PYTHON = "{python}"
"""As a first word it stands for the device's own interpreter, in its container if it has one."""

MATMUL = """\
import numpy
rows = numpy.arange(96 * 96, dtype=numpy.int64).reshape(96, 96) % 17 - 8
exact = rows @ rows.T
found = rows.astype(numpy.float32) @ rows.T.astype(numpy.float32)
print("exact" if (found == exact).all() else "WRONG: %g" % abs(found - exact).max())
"""
"""Whole numbers small enough that fp32 must give the exact product in every order of summation."""

NVIDIA_FIELDS = (
    "name,uuid,driver_version,vbios_version,compute_cap,memory.total,ecc.mode.current,"
    "mig.mode.current,power.limit,clocks.sm,temperature.gpu"
)

PROBES: dict[str, list[str]] = {
    # Everywhere.
    "system": ["uname", "-a"],
    "python": [PYTHON, "-c", "import platform, sys; print(sys.version, platform.machine())"],
    "packages": [PYTHON, "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"],
    "matmul_fp32": [PYTHON, "-c", MATMUL],
    "torch": [PYTHON, "-c", "import torch; print(torch.__config__.show())"],
    "disk": ["df", "-k", "."],
    # Linux CPUs.
    "os_release": ["cat", "/etc/os-release"],
    "cpu": ["lscpu", "-J"],
    "cpuinfo": ["sh", "-c", "grep -m1 microcode /proc/cpuinfo"],
    "governor": ["cat", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"],
    "memory": ["free", "-b"],
    "swap": ["swapon", "--show"],
    # NVIDIA cards; absent on Jetson.
    "nvidia_smi": ["nvidia-smi", f"--query-gpu={NVIDIA_FIELDS}", "--format=csv,noheader,nounits"],
    "nvidia_throttle": ["nvidia-smi", "-q", "-d", "PERFORMANCE"],
    "nvcc": ["sh", "-c", "PATH=$PATH:/usr/local/cuda/bin nvcc --version"],
    # Jetson; the power mode decides clocks and cores, so it is part of the device.
    "l4t": ["cat", "/etc/nv_tegra_release"],
    "board": ["cat", "/proc/device-tree/model"],
    "l4t_packages": [
        "dpkg-query", "-W", "nvidia-l4t-core", "nvidia-jetpack",
        "tensorrt*", "libnvinfer*", "libcudnn*",
    ],
    "nvpmodel": ["nvpmodel", "-q"],
    "jetson_clocks": ["jetson_clocks", "--show"],
    # macOS.
    "sw_vers": ["sw_vers"],
    "mac_hardware": ["sysctl", "-n", "machdep.cpu.brand_string", "hw.model", "hw.memsize"],
    "mac_gpu": ["system_profiler", "SPDisplaysDataType", "-json"],
    "mac_power": ["pmset", "-g"],
    "mlx": [PYTHON, "-c", "import mlx.core; print(mlx.core.__version__)"],
}  # fmt: skip
"""Every probe stands alone: one that is missing or fails says nothing about the others."""

RUN_PROBES = [name for name, words in PROBES.items() if words[0] != PYTHON]
"""Asked before every run: what starts no Python there, so that it takes no time."""

Facts = dict[str, dict[str, Any]]


def read_facts(transport: Transport, names: Iterable[str] = PROBES) -> Facts:
    """Run the named probes; {name: {"exit_code": int or null, "output": text or "missing"}}.

    Raises UserError for a probe that does not exist, TransportError for a device out of reach.
    """
    names = list(names)
    for name in names:
        if name not in PROBES:
            raise UserError(f"probe {name!r} does not exist{did_you_mean(name, PROBES)}")
    asked = {name: PROBES[name] for name in names}
    if any(words[0] == PYTHON for words in asked.values()):
        python = transport.interpreter()
        asked = {n: [*python, *w[1:]] if w[0] == PYTHON else w for n, w in asked.items()}
    return transport.facts(asked)
