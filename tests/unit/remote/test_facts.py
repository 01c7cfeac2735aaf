"""Parsers of probes, on samples written after the tools' documented formats.

No Jetson, Mac or NVIDIA card was at hand: the samples are not recordings.
"""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sameweights.remote.facts import PARSERS, find_marks, summarize

CLOCKS = """\
SOC family:tegra234  Machine:NVIDIA Jetson Orin Nano Developer Kit
Online CPUs: 0-5
cpu0: Online=1 Governor=schedutil MinFreq={low} MaxFreq=1728000 CurrentFreq=1728000
GPU MinFreq=1020000000 MaxFreq=1020000000 CurrentFreq=1020000000
EMC MinFreq=3199000000 MaxFreq=3199000000 CurrentFreq=3199000000 FreqOverride=1
NV Power Mode: MAXN_SUPER
"""

PERFORMANCE = """\
==============NVSMI LOG==============

Attached GPUs                             : 1
GPU 00000000:00:04.0
    Performance State                     : P0
    Clocks {word} Reasons
        Idle                              : Active
        Applications Clocks Setting       : Not Active
        SW Power Cap                      : {cap}
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : {heat}
            HW Power Brake Slowdown       : Not Active
        Sync Boost                        : Not Active
    Sparse Operation Mode                 : N/A
"""

CARD = (
    "NVIDIA L4, GPU-1b2c, 580.95.05, 95.04.29.00.06, 8.9, 23034, Enabled, [N/A], 72.00, 2040, 45\n"
)

PMSET = """\
System-wide power settings:
Currently in use:
 standby              1
 lowpowermode         {}
 displaysleep         2
"""

MAC_GPU = json.dumps(
    {"SPDisplaysDataType": [{"_name": "Apple M2", "sppci_model": "Apple M2", "sppci_cores": "10"}]}
)

LSCPU_FLAT = json.dumps(
    {
        "lscpu": [
            {"field": "Architecture:", "data": "x86_64"},
            {"field": "CPU(s):", "data": "4"},
            {"field": "Model name:", "data": "A CPU"},
        ]
    }
)
LSCPU_NESTED = json.dumps(
    {
        "lscpu": [
            {"field": "Architecture:", "data": "aarch64", "children": []},
            {"field": "CPU(s):", "data": "6", "children": [{"field": "On-line", "data": "0-5"}]},
            {
                "field": "Vendor ID:",
                "data": "ARM",
                "children": [{"field": "Model name:", "data": "Cortex-A78AE"}],
            },
        ]
    }
)


@pytest.mark.parametrize(
    ("probe", "text", "found"),
    [
        ("l4t", "# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic, EABI: aarch64\n",
         {"l4t": "36.4.3", "jetpack": "6.2"}),
        ("l4t", "# R38 (release), REVISION: 2, GCID: 1\n", {"l4t": "38.2.0", "jetpack": "7.0"}),
        ("l4t", "# R99 (release), REVISION: 1.1\n", {"l4t": "99.1.1", "jetpack": None}),
        ("nvpmodel", "NV Power Mode: MAXN_SUPER\n2\n", {"power_mode": "MAXN_SUPER"}),
        ("nvpmodel", "NV Fan Mode:quiet\nNV Power Mode: 15W\n0\n", {"power_mode": "15W"}),
        ("jetson_clocks", CLOCKS.format(low=1728000), {"clocks_locked": True}),
        ("jetson_clocks", CLOCKS.format(low=729600), {"clocks_locked": False}),
        ("nvidia_smi", CARD + CARD,
         {"cards": 2, "gpu_name": "NVIDIA L4", "gpu_driver_version": "580.95.05",
          "gpu_compute_cap": "8.9", "gpu_ecc": "Enabled", "gpu_power": "72.00"}),
        ("nvidia_throttle", PERFORMANCE.format(word="Event", cap="Not Active", heat="Not Active"),
         {"throttled_by": []}),
        ("nvidia_throttle", PERFORMANCE.format(word="Throttle", cap="Active", heat="Active"),
         {"throttled_by": ["SW Power Cap", "HW Thermal Slowdown"]}),
        ("mac_power", PMSET.format(1), {"low_power_mode": True}),
        ("mac_power", PMSET.format(0), {"low_power_mode": False}),
        ("mac_hardware", "Apple M2\nMac14,2\n17179869184\n",
         {"chip": "Apple M2", "model": "Mac14,2", "memory_bytes": 17179869184}),
        ("mac_gpu", MAC_GPU, {"gpu": "Apple M2", "gpu_cores": 10}),
        ("cpu", LSCPU_FLAT, {"cpu": "A CPU", "cpus": "4", "architecture": "x86_64"}),
        ("cpu", LSCPU_NESTED, {"cpu": "Cortex-A78AE", "cpus": "6", "architecture": "aarch64"}),
        ("governor", "performance\n", {"governor": "performance"}),
        ("matmul_fp32", "exact\n", {"matmul_exact": True}),
        ("matmul_fp32", "WRONG: 1e+36\n", {"matmul_exact": False}),
    ],
)  # fmt: skip
def test_a_probes_documented_text_is_understood(
    probe: str, text: str, found: dict[str, Any]
) -> None:
    assert summarize({probe: {"exit_code": 0, "output": text}}) == found


@given(text=st.text() | st.sampled_from(["[]", "{}", '{"lscpu": 1}', "null", "[" * 100_000]))
@settings(max_examples=30, deadline=None)
def test_text_that_nobody_documented_is_no_fact(text: str) -> None:
    facts = {name: {"exit_code": 0, "output": text} for name in PARSERS}
    assert set(summarize(facts)) <= {"governor"}


def test_a_probe_that_failed_says_nothing_and_hides_no_other() -> None:
    facts = {
        "nvpmodel": {"exit_code": 1, "output": "NV Power Mode: 15W"},
        "l4t": {"exit_code": None, "output": "missing"},
        "cpu": {"exit_code": 0, "output": "not json"},
        "governor": {"exit_code": 0, "output": "ondemand\n"},
    }
    assert summarize(facts) == {"governor": "ondemand"}


def test_this_machines_lscpu_is_understood() -> None:
    try:
        done = subprocess.run(["lscpu", "-J"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("lscpu is not installed")
    facts = {"cpu": {"exit_code": 0, "output": done.stdout}}
    assert summarize(facts)["architecture"]


def test_doubts_become_marks() -> None:
    assert find_marks({}) == []
    assert find_marks({"clocks_locked": True, "low_power_mode": False, "throttled_by": []}) == []
    assert find_marks(
        {
            "throttled_by": ["SW Power Cap"], "low_power_mode": True, "clocks_locked": False,
            "matmul_exact": False,
        }
    ) == [
        "throttled: SW Power Cap", "low power mode", "clocks are not locked (jetson_clocks)",
        "a matrix product of whole numbers is wrong",
    ]  # fmt: skip
