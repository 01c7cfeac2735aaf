"""The journal's writes where the disk refuses them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from runner.contract import Response, read_responses
from runner.journal import Journal

IDS = {"a" * 64, "b" * 64}


def open_journal(out: Path) -> Journal:
    return Journal(out, "identity", IDS, print)


def test_no_space_left_keeps_whole_lines_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = open_journal(tmp_path)
    journal.append(Response("a" * 64, "ok", loglikelihood=-1.0))
    real_write = os.write

    def write_half_then_fail(descriptor: int, data: bytes) -> int:
        if len(data) < 40:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real_write(descriptor, bytes(data[: len(data) - 30]))

    monkeypatch.setattr(os, "write", write_half_then_fail)
    with pytest.raises(OSError, match="No space left"):
        journal.append(Response("b" * 64, "ok", loglikelihood=-2.0))
    monkeypatch.undo()
    journal.close()
    assert [r.request_id for r in read_responses(tmp_path / "responses.jsonl")] == ["a" * 64]
    assert set(open_journal(tmp_path).done) == {"a" * 64}


def test_nan_is_never_written(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    with pytest.raises(ValueError, match="JSON compliant"):
        journal.append(Response("a" * 64, "ok", loglikelihood=float("nan")))
    journal.close()
    assert (tmp_path / "responses.jsonl").read_bytes() == b""


def test_a_journal_without_a_line_end_is_emptied_with_a_note(tmp_path: Path) -> None:
    open_journal(tmp_path).close()
    (tmp_path / "responses.jsonl").write_bytes(b'{"request_id"')
    notes: list[str] = []
    journal = Journal(tmp_path, "identity", IDS, notes.append)
    assert journal.done == {}
    assert "13 bytes" in notes[0]
    assert (tmp_path / "responses.jsonl").read_bytes() == b""
