"""Temperature and power of the device during a run: files of the kernel, then nvidia-smi.

Linux and Jetson boards from /sys (a Jetson's tegrastats shows the same files), NVIDIA cards from
their tool. A Mac tells an ordinary user neither. What cannot be read is left out.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

SYS = Path("/sys/class")
MAX_SHARE = 0.02
"""Share of the run's time that asking the card's tool may take."""
COLDEST_C, HOTTEST_C = 1.0, 150.0
"""Sensors that are switched off show 0 or nonsense."""


class Sensors:
    """Samples when asked, and remembers the first and the highest values."""

    def __init__(self, sys_class: Path = SYS, nvidia_smi: str | None = None) -> None:
        self.sys_class = sys_class
        self.nvidia_smi = nvidia_smi or shutil.which("nvidia-smi")
        self._ask_card_at = 0.0
        self.card: dict[str, float] = {}
        self.first: dict[str, float] = {}
        self.highest: dict[str, float] = {}

    def sample(self) -> dict[str, float]:
        """Return {"temperature_c", "power_w"} as far as readable: the hottest zone, all power."""
        now = read_kernel(self.sys_class)
        if self.nvidia_smi and time.monotonic() >= self._ask_card_at:
            began = time.monotonic()
            self.card = ask_card(self.nvidia_smi)
            took_s = time.monotonic() - began
            self._ask_card_at = began + took_s / MAX_SHARE
        for name, value in self.card.items():
            now[name] = max(value, now.get(name, value))
        self.first = self.first or now
        for name, value in now.items():
            self.highest[name] = max(value, self.highest.get(name, value))
        return now

    def summary(self) -> dict[str, float]:
        """Return {"temperature_c_start", "temperature_c_max", ...} for run.json."""
        started = {f"{name}_start": value for name, value in self.first.items()}
        return started | {f"{name}_max": value for name, value in self.highest.items()}


def describe(sample: dict[str, float]) -> str:
    """Return the tail of a progress line: `, 61 °C, 12.3 W`, or nothing."""
    units = (("temperature_c", "{:.0f} °C"), ("power_w", "{:.1f} W"))
    return "".join(f", {form.format(sample[name])}" for name, form in units if name in sample)


def read_kernel(sys_class: Path) -> dict[str, float]:
    """Read thermal zones, hwmon temperatures and a Jetson's input power (rail VDD_IN)."""
    found = {}
    zones = [*sys_class.glob("thermal/thermal_zone*/temp"), *sys_class.glob("hwmon/*/temp*_input")]
    degrees = [value / 1e3 for value in map(_number, zones) if value is not None]
    usable = [value for value in degrees if COLDEST_C <= value <= HOTTEST_C]
    if usable:
        found["temperature_c"] = max(usable)
    rails = list(_jetson_input(sys_class))
    if rails:
        found["power_w"] = rails[0]
    return found


def _jetson_input(sys_class: Path) -> Iterator[float]:
    for label in sorted(sys_class.glob("hwmon/*/in*_label")):
        if _text(label) == "VDD_IN":
            number = label.name.removeprefix("in").removesuffix("_label")
            millivolts = _number(label.with_name(f"in{number}_input"))
            milliamperes = _number(label.with_name(f"curr{number}_input"))
            if millivolts is not None and milliamperes is not None:
                yield millivolts * milliamperes / 1e6


def ask_card(nvidia_smi: str) -> dict[str, float]:
    """Return the hottest card's temperature and all cards' power; nothing where it fails."""
    query = "--query-gpu=temperature.gpu,power.draw"
    command = [nvidia_smi, query, "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    return parse_card(done.stdout)


def parse_card(text: str) -> dict[str, float]:
    """Parse lines of `TEMPERATURE, POWER`; a card that does not know one says [N/A]."""
    temperatures: list[float] = []
    powers: list[float] = []
    for line in text.splitlines():
        for values, word in zip((temperatures, powers), line.split(","), strict=False):
            try:
                values.append(float(word))
            except ValueError:
                continue
    found = {}
    if temperatures:
        found["temperature_c"] = max(temperatures)
    if powers:
        found["power_w"] = sum(powers)
    return found


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None


def _number(path: Path) -> float | None:
    try:
        return float(_text(path) or "")
    except ValueError:
        return None
