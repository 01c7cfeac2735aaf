"""One matrix on instruction-set caps, local and behind sshd: every bit of every answer is equal.

The small version of benchmarks/ssh_demo.py: two devices of config/devices, torch, a tiny model.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.host import cpu_flags
from runner.pack import build_pyz
from sameweights.registry import DeviceEntry, Registry
from sameweights.remote.driver import run_on_device
from sameweights.remote.hostkeys import pin_host_key
from sameweights.remote.local import LocalTransport

sys.path.insert(0, str(Path(__file__).parent))
from tiny import without_times, write_cell, write_tiny_model

DEVICES = ("cpu-avx2", "cpu-sse")


def test_two_isa_caps_behind_ssh_equal_the_local_ones_bit_for_bit(
    device: Any, root: Path, tmp_path: Path
) -> None:
    entries = Registry(root / "config/devices", DeviceEntry).entries
    missing = {f for d in DEVICES for f in entries[d].requires_cpu_flags} - set(cpu_flags())
    if missing:
        pytest.skip(f"this CPU lacks {sorted(missing)}")
    model = tmp_path / "tiny"
    write_tiny_model(model)
    build_pyz(tmp_path / "runner.pyz")
    answers = {}
    for name in DEVICES:
        cell = write_cell(tmp_path, model, name, "torch", entries[name].env, batch_size=4)
        device.endpoint = replace(
            device.endpoint, device=name, workdir=str(tmp_path / f"remote-{name}"),
            known_hosts=tmp_path / "pins" / name,
        )  # fmt: skip
        pin_host_key(device.endpoint)
        remote = device.transport()
        for side, transport in (
            ("local", LocalTransport(tmp_path / f"local-{name}", sys.executable)),
            ("ssh", remote),
        ):
            out = tmp_path / side / name
            requests = tmp_path / "requests.jsonl"
            record = run_on_device(transport, tmp_path / "runner.pyz", cell, requests, model, out)
            assert (record.outcome, record.reason) == ("complete", None)
            answers[side, name] = without_times(out / "responses.jsonl")
        remote.client.close()
        assert answers["ssh", name] == answers["local", name]
        assert all(len(r["logits_sha256"]) == 64 for r in answers["ssh", name])
    # The caps must have been in force there: the two devices give different bits.
    assert answers["ssh", "cpu-avx2"] != answers["ssh", "cpu-sse"]
