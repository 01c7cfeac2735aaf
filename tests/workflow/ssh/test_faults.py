"""Everything that breaks on the way: no response is lost, doubled, or computed again in vain."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.contract import read_responses
from sameweights.remote.local import LocalTransport
from sameweights.remote.transport import Parcel, TransportError

N = 40

KILLED_IN_A_PUSH = """
import os, signal
from sameweights.remote.client import Session
plain, sent = Session.send, []
def send(session, data):
    plain(session, data)
    sent.append(len(data))
    if sum(sent) > 32 << 20:
        os.kill(os.getpid(), signal.SIGKILL)
Session.send = send
"""


def reference(device: Any) -> bytes:
    device.run(LocalTransport(device.folder / "local", sys.executable), out="local-out")
    return (device.folder / "local-out" / "responses.jsonl").read_bytes()


def assert_whole(device: Any) -> None:
    """The responses are those of an unbroken local run, and the log has each item once."""
    assert (device.folder / "out" / "responses.jsonl").read_bytes() == reference(device)
    assert device.items() == [f"item {n}" for n in range(N)]


def test_connection_cut_at_twenty_random_moments(device: Any) -> None:
    moments = sorted(random.Random(5).sample(range(N), 20))
    spec = device.write_cell(N, gates=moments)
    cuts: list[int] = []

    def cut() -> None:
        # The hub has just read this item over an open connection, and the payload waits.
        cuts.append(device.sshd.cut())
        (device.work / "cells" / spec.identity / f"gate-{moments[len(cuts) - 1]}").touch()

    device.when([f"item {n}" for n in moments], cut)
    assert device.run().outcome == "complete"
    assert len(cuts) == 20 and all(cuts)
    device.write_cell(N)  # no gates, equal results
    assert len(device.starts()) == 1
    assert_whole(device)


def test_server_restarted_during_a_run(device: Any) -> None:
    device.write_cell(N, item_s=0.05)

    def restart() -> None:
        device.sshd.stop()
        device.sshd.start()

    restarted = device.when(["item 3"], restart)
    assert device.run().outcome == "complete"
    restarted.join()
    assert len(device.starts()) == 1
    assert_whole(device)


@pytest.mark.parametrize("moment", [0, 1, 2, 5, 9, 14, 20, 27, 33, N - 1])
def test_hub_killed_and_started_again_joins_the_run(device: Any, moment: int) -> None:
    device.write_cell(N, item_s=0.03)
    hub = device.start_hub()
    device.await_log(f"item {moment}")
    hub.kill()
    hub.wait()
    assert device.run().outcome == "complete"
    assert len(device.starts()) == 1
    assert_whole(device)


def test_hub_killed_during_a_push_resumes_it(device: Any) -> None:
    size = 48 << 20
    (device.folder / "model").mkdir(exist_ok=True)
    (device.folder / "model" / "large").write_bytes(bytes(range(256)) * (size // 256))
    device.write_cell(N)
    hub = device.start_hub(KILLED_IN_A_PUSH)
    assert hub.wait() == -signal.SIGKILL
    assert not device.starts()
    transport = device.transport()
    assert device.run(transport).outcome == "complete"
    # What had left the hub but not reached the disk is sent again: a few buffers.
    assert transport.moved_bytes < size - (16 << 20)
    assert_whole(device)


def test_device_rebooted_during_a_run(device: Any) -> None:
    device.write_cell(N, item_s=0.05)
    device.when(["item 7"], device.reboot)
    assert device.run().outcome == "complete"
    assert len(device.starts()) == 2
    assert (device.folder / "out" / "responses.jsonl").read_bytes() == reference(device)


def test_a_job_that_always_vanishes_is_given_up(device: Any, tmp_path: Path) -> None:
    suicide = "import os; os.killpg(0, 9)"
    with pytest.raises(TransportError, match=r"'box': run: the job vanished 3 times.*linger"):
        device.transport().run(["-c", suicide], tmp_path / "log")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_hub_leaves_no_process(
    device: Any, number: signal.Signals, is_alive: Any
) -> None:
    device.write_cell(mode="hang")
    hub = device.start_hub()
    device.await_log("hanging")
    hub.send_signal(number)
    assert hub.wait() == 128 + number
    assert hub.stderr.read() == b""
    payload, child = device.starts()
    assert not is_alive(payload)
    assert not is_alive(child)


def test_a_cancelled_run_can_be_started_again(device: Any) -> None:
    device.write_cell(N, item_s=0.05)
    hub = device.start_hub()
    device.await_log("item 3")
    hub.send_signal(signal.SIGINT)
    hub.wait()
    assert device.run().outcome == "complete"
    assert (device.folder / "out" / "responses.jsonl").read_bytes() == reference(device)


def test_two_hubs_share_one_run(device: Any) -> None:
    device.write_cell(N, item_s=0.01)
    records = []
    hubs = [
        threading.Thread(target=lambda out=out: records.append(device.run(out=out)))
        for out in ("out", "other")
    ]
    for hub in hubs:
        hub.start()
    for hub in hubs:
        hub.join()
    assert [r.outcome for r in records] == ["complete", "complete"]
    assert len(device.starts()) == 1
    assert_whole(device)
    assert device.items("other") == device.items("out")


def test_a_flooded_log_is_capped_and_the_run_completes(device: Any) -> None:
    device.write_cell(mode="flood")
    assert device.run().outcome == "complete"
    log = device.folder / "out" / "runner.log"
    assert log.stat().st_size <= (16 << 20) + 100
    assert log.read_bytes().endswith(b"agent: the log is full; what follows is dropped\n")
    assert len(read_responses(device.folder / "out" / "responses.jsonl")) == 20


def test_a_runner_that_hangs_is_ended_and_recorded(device: Any, is_alive: Any) -> None:
    device.write_cell(mode="hang")
    record = device.run(device.transport(timeout_s=0.5))
    assert record.outcome == "failed"
    assert "ended with code 124" in record.reason
    assert not any(map(is_alive, device.starts()))


def test_a_result_changed_on_the_device_is_refused(device: Any) -> None:
    device.run()
    (journal,) = device.work.glob("cells/*/responses.jsonl")
    journal.write_bytes(journal.read_bytes().replace(b'"ok"', b'"OK"', 1))
    record = device.run(out="again")
    assert record.outcome == "failed"
    assert "SHA-256" in record.reason and "run.json says" in record.reason


def test_a_result_changed_in_flight_is_refused(device: Any, tmp_path: Path) -> None:
    (tmp_path / "flip").write_text(
        f"#!{sys.executable}\n"
        "import os, subprocess, sys\n"
        "ssh = subprocess.Popen(['ssh', *sys.argv[1:]], stdin=0, stdout=-1)\n"
        "while block := os.read(ssh.stdout.fileno(), 1 << 16):\n"
        "    os.write(1, block.replace(b'weights', b'WEIGHTS'))\n"
        "sys.exit(ssh.wait())\n"
    )
    (tmp_path / "flip").chmod(0o755)
    source = tmp_path / "x"
    source.write_text("my weights")
    device.transport().push(Parcel(source, "x"))
    device.endpoint = replace(device.endpoint, program=str(tmp_path / "flip"))
    with pytest.raises(TransportError, match=r"'box': fetch x: SHA-256 is"):
        device.transport().fetch("x", tmp_path / "y")
    assert not (tmp_path / "y").exists()


def test_a_full_disk_is_said_before_anything_is_sent(device: Any, tmp_path: Path) -> None:
    model = tmp_path / "huge"
    model.mkdir()
    (model / "w").touch()
    os.truncate(model / "w", shutil.disk_usage(tmp_path).free + (1 << 40))
    transport = device.transport()
    with pytest.raises(TransportError, match=r"'box': push .*disk full: \d+ bytes are needed"):
        transport.push(Parcel(model, "models/huge", {"w": "0" * 64}))
    assert transport.moved_bytes == 0
