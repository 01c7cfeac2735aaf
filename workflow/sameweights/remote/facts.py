"""What a device's answers mean: a few plain facts, and marks on a device that is not at its best.

Each parser reads the text of one probe and returns {} for anything that it does not know.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from sameweights.remote.probe import NVIDIA_FIELDS

JETPACK = {
    "36.4.0": "6.1", "36.4.3": "6.2", "36.4.4": "6.2.1", "36.4.7": "6.2.1", "36.5.0": "6.2.2",
    "38.2.0": "7.0", "38.4.0": "7.1", "39.2.0": "7.2",
}  # fmt: skip
"""Release of L4T -> release of JetPack."""

HARMLESS = {"idle", "applications clocks setting", "display clock setting"}
"""Reasons for lower clocks that say nothing about heat or power."""

Found = dict[str, Any]


def parse_l4t(text: str) -> Found:
    """Read /etc/nv_tegra_release: `# R36 (release), REVISION: 4.3, ...`."""
    match = re.search(r"# R(\d+) \(release\), REVISION: ([\d.]+)", text)
    if match is None:
        return {}
    release = f"{match[1]}.{match[2]}"
    full = release if release.count(".") == 2 else f"{release}.0"
    return {"l4t": full, "jetpack": JETPACK.get(full)}


def parse_nvpmodel(text: str) -> Found:
    """Read `nvpmodel -q`; its numbers differ by board, so only the name counts."""
    match = re.search(r"^NV Power Mode: *(\S+)", text, re.MULTILINE)
    return {"power_mode": match[1]} if match else {}


def parse_jetson_clocks(text: str) -> Found:
    """Read `jetson_clocks --show`: clocks are locked where least and most are one."""
    ranges = re.findall(r"MinFreq=(\d+) MaxFreq=(\d+)", text)
    return {"clocks_locked": all(low == high for low, high in ranges)} if ranges else {}


def parse_nvidia_smi(text: str) -> Found:
    """Read the card's line of NVIDIA_FIELDS, the first card's where there are several."""
    lines = [line for line in text.splitlines() if line.strip()]
    names = NVIDIA_FIELDS.split(",")
    words = [word.strip() for word in lines[0].split(",")] if lines else []
    if len(words) != len(names):
        return {}
    card = dict(zip(names, words, strict=True))
    kept = ("name", "driver_version", "compute_cap", "ecc.mode.current", "power.limit")
    return {"cards": len(lines), **{f"gpu_{n.partition('.')[0]}": card[n] for n in kept}}


def parse_nvidia_throttle(text: str) -> Found:
    """Read the reasons section of `nvidia-smi -q -d PERFORMANCE`, under its old or new name."""
    section = re.search(r"Clocks (?:Event|Throttle) Reasons *\n((?: {8}.*\n?)+)", text)
    if section is None:
        return {}
    pairs = re.findall(r"^ +([^:\n]+?) *: *(Active|Not Active) *$", section[1], re.MULTILINE)
    active = [name for name, state in pairs if state == "Active" and name.lower() not in HARMLESS]
    return {"throttled_by": active} if pairs else {}


def parse_pmset(text: str) -> Found:
    """Read `pmset -g`: a line `lowpowermode 0` or 1 (absent on desktop Macs)."""
    match = re.search(r"^ *lowpowermode +([01])\b", text, re.MULTILINE)
    return {"low_power_mode": match[1] == "1"} if match else {}


def parse_mac_hardware(text: str) -> Found:
    """Read three lines of `sysctl -n`: chip, model, bytes of memory."""
    lines = text.split("\n")
    if len(lines) < 3 or not lines[2].strip().isdigit():
        return {}
    return {"chip": lines[0].strip(), "model": lines[1].strip(), "memory_bytes": int(lines[2])}


def parse_mac_gpu(text: str) -> Found:
    """Read `system_profiler SPDisplaysDataType -json`."""
    cards = json.loads(text)["SPDisplaysDataType"]
    return {"gpu": str(cards[0]["sppci_model"]), "gpu_cores": int(cards[0]["sppci_cores"])}


def parse_lscpu(text: str) -> Found:
    """Read `lscpu -J`, whose rows are flat in old releases and nested in new ones."""

    def rows(items: Any) -> list[tuple[str, str]]:
        found = []
        for item in items:
            found.append((str(item["field"]).rstrip(":"), str(item["data"])))
            found += rows(item.get("children", []))
        return found

    fields = dict(rows(json.loads(text)["lscpu"]))
    names = {"cpu": "Model name", "cpus": "CPU(s)", "architecture": "Architecture"}
    return {key: fields[name] for key, name in names.items() if name in fields}


def parse_governor(text: str) -> Found:
    """Read the first CPU's frequency governor, one word."""
    return {"governor": text.strip()} if re.fullmatch(r"[a-z_]+\n?", text) else {}


def parse_matmul(text: str) -> Found:
    """Read the product that must be exact: emulators and broken kernels get it wrong."""
    word = text.strip()
    return {"matmul_exact": word == "exact"} if word.startswith(("exact", "WRONG")) else {}


PARSERS: dict[str, Callable[[str], Found]] = {
    "l4t": parse_l4t,
    "nvpmodel": parse_nvpmodel,
    "jetson_clocks": parse_jetson_clocks,
    "nvidia_smi": parse_nvidia_smi,
    "nvidia_throttle": parse_nvidia_throttle,
    "mac_power": parse_pmset,
    "mac_hardware": parse_mac_hardware,
    "mac_gpu": parse_mac_gpu,
    "cpu": parse_lscpu,
    "governor": parse_governor,
    "matmul_fp32": parse_matmul,
}


def summarize(facts: Mapping[str, Mapping[str, Any]]) -> Found:
    """Return what could be read of all probes that ended well; hostile text reads as nothing."""
    found: Found = {}
    for name, parse in PARSERS.items():
        if name in facts and facts[name]["exit_code"] == 0:
            try:
                found |= parse(str(facts[name]["output"]))
            except (ValueError, LookupError, TypeError, RecursionError):
                continue
    return found


def find_marks(summary: Mapping[str, Any]) -> list[str]:
    """Return what makes the device's times or numbers doubtful; a run goes on all the same."""
    marks = [f"throttled: {reason}" for reason in summary.get("throttled_by", [])]
    if summary.get("low_power_mode"):
        marks.append("low power mode")
    if summary.get("clocks_locked") is False:
        marks.append("clocks are not locked (jetson_clocks)")
    if summary.get("matmul_exact") is False:
        marks.append("a matrix product of whole numbers is wrong")
    return marks
