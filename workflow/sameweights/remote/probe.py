"""What a device says about itself, and whether that is the mode that its entry declares."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sameweights.errors import UserError, did_you_mean
from sameweights.remote.transport import Transport, TransportError

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

Facts = dict[str, dict[str, Any]]


def read_facts(transport: Transport, names: Mapping[str, Any] = PROBES) -> Facts:
    """Run the named probes; {name: {"exit_code": int or null, "output": text or "missing"}}.

    Raises UserError for a probe that does not exist, TransportError for a device out of reach.
    """
    for name in names:
        if name not in PROBES:
            raise UserError(f"probe {name!r} does not exist{did_you_mean(name, PROBES)}")
    asked = {name: PROBES[name] for name in names}
    if any(words[0] == PYTHON for words in asked.values()):
        python = transport.interpreter()
        asked = {n: [*python, *w[1:]] if w[0] == PYTHON else w for n, w in asked.items()}
    return transport.facts(asked)


def require_mode(transport: Transport, out: Path) -> None:
    """Refuse a device that is not in its declared mode; what it said is kept in `device.json`.

    Raises TransportError naming each probe, what was declared, and what was found.
    """
    if not transport.expect:
        return
    facts = read_facts(transport, transport.expect)
    text = json.dumps(facts, indent=1, sort_keys=True) + "\n"
    (out / "device.json").write_text(text, encoding="utf-8")
    wrong = [
        f"probe {name!r} should show {pattern!r}, found {facts[name]['output'].strip()[:200]!r}"
        for name, pattern in transport.expect.items()
        if not re.search(pattern, str(facts[name]["output"]))
    ]
    if wrong:
        raise TransportError(f"device {transport.device!r}: not in its mode: {'; '.join(wrong)}")
