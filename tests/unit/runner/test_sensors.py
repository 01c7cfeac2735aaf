"""Temperature and power from files laid out as the kernel's, and from the tool's own text."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.sensors import Sensors, ask_card, describe, parse_card, read_kernel


def write(sys_class: Path, **files: str) -> None:
    for name, text in files.items():
        path = sys_class / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def test_the_hottest_plausible_zone_counts(tmp_path: Path) -> None:
    write(
        tmp_path,
        thermal__thermal_zone0__temp="48500",
        thermal__thermal_zone1__temp="61250",
        thermal__thermal_zone2__temp="-256000",  # a Jetson zone whose engine is off
        thermal__thermal_zone3__temp="not a number",
        hwmon__hwmon0__temp1_input="55000",
    )
    assert read_kernel(tmp_path) == {"temperature_c": 61.25}


def test_a_jetsons_input_rail_is_its_power(tmp_path: Path) -> None:
    write(
        tmp_path,
        hwmon__hwmon1__in1_label="VDD_IN", hwmon__hwmon1__in1_input="4984",
        hwmon__hwmon1__curr1_input="1200",
        hwmon__hwmon1__in2_label="VDD_CPU_GPU_CV", hwmon__hwmon1__in2_input="4984",
        hwmon__hwmon1__curr2_input="400",
    )  # fmt: skip
    assert read_kernel(tmp_path) == {"power_w": pytest.approx(5.9808)}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("61, 72.35\n", {"temperature_c": 61.0, "power_w": 72.35}),
        ("40, 60.00\n58, 70.50\n", {"temperature_c": 58.0, "power_w": 130.5}),
        ("47, [N/A]\n", {"temperature_c": 47.0}),
        ("No devices were found\n", {}),
        ("", {}),
    ],
)
def test_the_cards_answer_is_parsed_field_by_field(text: str, found: dict[str, float]) -> None:
    assert parse_card(text) == found


def test_a_tool_that_fails_is_no_reading(tmp_path: Path) -> None:
    assert ask_card("false") == {}
    assert ask_card(str(tmp_path / "missing")) == {}


def test_start_and_maximum_are_kept_and_the_card_is_asked_rarely(tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    calls = tmp_path / "calls"
    tool.write_text(f"#!/bin/sh\necho x >> {calls}\necho 50, 20.5\n")
    tool.chmod(0o755)
    sensors = Sensors(tmp_path, str(tool))
    for temperature in ("45000", "70000", "52000"):
        write(tmp_path, thermal__thermal_zone0__temp=temperature)
        sensors.sample()
    assert sensors.summary() == {
        "temperature_c_start": 50.0, "temperature_c_max": 70.0,
        "power_w_start": 20.5, "power_w_max": 20.5,
    }  # fmt: skip
    assert calls.read_text() == "x\n"


def test_a_machine_without_sensors_has_none(tmp_path: Path) -> None:
    sensors = Sensors(tmp_path, "/no/such/tool")
    assert sensors.sample() == {} and sensors.summary() == {}
    assert describe({}) == ""
    assert describe({"temperature_c": 61.4, "power_w": 7.25}) == ", 61 °C, 7.2 W"
