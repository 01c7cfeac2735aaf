"""The SSH transport against a real sshd: equal to local, nothing sent twice, checked, cleaned."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from runner.contract import read_responses
from sameweights.remote.client import Session
from sameweights.remote.local import LocalTransport
from sameweights.remote.transport import Parcel, TransportError


def test_result_equals_the_local_transports_byte_for_byte(device: Any) -> None:
    local = device.run(LocalTransport(device.folder / "local", sys.executable), out="local-out")
    remote = device.run()
    assert (local.outcome, local.reason) == ("complete", None)
    assert remote == local
    for name in ("responses.jsonl", "run.json"):
        found = (device.folder / "out" / name).read_bytes()
        assert found == (device.folder / "local-out" / name).read_bytes()
    assert len(read_responses(device.folder / "out" / "responses.jsonl")) == 20
    assert device.items() == [f"item {n}" for n in range(20)]


def test_nothing_is_sent_or_run_twice(device: Any) -> None:
    device.run()
    again = device.transport()
    assert device.run(again, out="again").outcome == "complete"
    log_bytes = (device.folder / "again" / "runner.log").stat().st_size
    assert again.moved_bytes == log_bytes
    assert len(device.starts()) == 1


def test_a_file_known_under_another_name_is_not_sent(device: Any, tmp_path: Path) -> None:
    source = tmp_path / "a"
    source.write_bytes(b"same" * 1000)
    transport = device.transport()
    transport.push(Parcel(source, "one"))
    moved = transport.moved_bytes
    assert transport.push(Parcel(source, "folder/two")) == ["folder/two"]
    assert transport.moved_bytes == moved
    assert (device.work / "folder/two").read_bytes() == source.read_bytes()


def test_a_model_version_gets_a_folder_of_its_own(device: Any, tmp_path: Path) -> None:
    model = tmp_path / "m"
    model.mkdir()
    (model / "w").write_text("one")
    transport = device.transport()
    (first,) = transport.push(Parcel(model, "models/m"))
    (model / "w").write_text("two")
    (second,) = transport.push(Parcel(model, "models/m"))
    assert first != second
    assert (device.work / first / "w").read_text() == "one"
    assert (device.work / second / "w").read_text() == "two"


def test_a_push_cut_in_the_middle_is_taken_up_where_it_stopped(
    device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "large"
    size = 48 << 20
    source.write_bytes(bytes(range(256)) * (size // 256))
    transport = device.transport()
    plain_send = Session.send

    def send(session: Session, data: bytes) -> None:
        plain_send(session, data)
        if transport.moved_bytes == 32 << 20:
            device.sshd.cut()

    monkeypatch.setattr(Session, "send", send)
    transport.push(Parcel(source, "large"))
    assert (device.work / "large").read_bytes() == source.read_bytes()
    # Only what was under way when the link broke is sent again.
    assert size <= transport.moved_bytes < size + (24 << 20)


def test_a_model_that_changed_under_way_is_refused(device: Any, tmp_path: Path) -> None:
    model = tmp_path / "m"
    model.mkdir()
    (model / "w").write_text("tampered")
    with pytest.raises(TransportError, match=r"'box': push .*hashes to"):
        device.transport().push(Parcel(model, "models/m", {"w": "0" * 64}))


def test_names_with_quotes_and_newlines_arrive_as_they_are(device: Any, tmp_path: Path) -> None:
    source = tmp_path / "x"
    source.write_text("x")
    name = "a 'b' \"c\" $(touch pwned) `id`; d\n&"
    device.transport().push(Parcel(source, name))
    assert (device.work / name).read_text() == "x"
    assert device.transport().fetch(name, tmp_path / "back")
    assert (tmp_path / "back").read_text() == "x"
    assert not list(device.work.rglob("pwned"))


def test_arguments_and_environment_arrive_as_they_are(device: Any, tmp_path: Path) -> None:
    script = tmp_path / "s.py"
    script.write_text("import os, sys; print(sys.argv[1:], os.environ['X'])")
    words = ["a b", "$HOME", "'", '"', "", "*", "-o", "\\"]
    transport = device.transport(env={"X": "1 2;3"})
    assert transport.run([*transport.push(Parcel(script, "s.py")), *words], tmp_path / "log") == 0
    assert (tmp_path / "log").read_text() == f"{words} 1 2;3\n"


@pytest.mark.parametrize("path", ["../out", "/etc/passwd", "a/../../b", "a//b"])
def test_paths_out_of_the_work_folder_are_refused(device: Any, tmp_path: Path, path: str) -> None:
    with pytest.raises(TransportError, match="leaves the work folder"):
        device.transport().fetch(path, tmp_path / "x")


def test_a_missing_file_is_no_error(device: Any, tmp_path: Path) -> None:
    assert device.transport().fetch("nothing/here", tmp_path / "x") is False
    assert not (tmp_path / "x").exists()


def test_exit_codes_and_signals_come_back(device: Any, tmp_path: Path) -> None:
    transport = device.transport()
    assert transport.run(["-c", "raise SystemExit(7)"], tmp_path / "log") == 7
    assert transport.run(["-c", "import os; os.kill(os.getpid(), 9)"], tmp_path / "log") == 137


def test_clean_removes_results_and_keeps_what_was_sent(device: Any) -> None:
    device.run()
    transport = device.transport()
    transport.clean()
    assert {p.name for p in device.work.iterdir()} >= {"models", "requests", "store"}
    assert not (device.work / "cells").exists()
    transport.clean(everything=True)
    assert [p.name for p in device.work.iterdir()] == [".sameweights"]
