"""Registries: closed schemas whose errors name file, key and the likely meaning."""

from __future__ import annotations

from pathlib import Path

import pytest

from sameweights.cells import Registries
from sameweights.errors import UserError
from sameweights.registry import DeviceEntry, ModelEntry, Registry, read_entry


def write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


def test_every_shipped_entry_is_valid(root: Path) -> None:
    registries = Registries.read(root / "config")
    assert "smollm2-135m-instruct" in registries.models.entries
    assert {"cpu-avx512", "cpu-avx2", "cpu-baseline"} <= set(registries.devices.entries)


def test_unknown_key_is_refused_with_the_likely_one(tmp_path: Path) -> None:
    path = write(tmp_path, "box.yaml", "description: a\nthread: 2\n")
    with pytest.raises(UserError, match=r"box\.yaml.*unknown key 'thread'.*did you mean 'threads'"):
        read_entry(path, DeviceEntry)


def test_unknown_key_inside_a_source_lists_that_sources_keys(tmp_path: Path) -> None:
    path = write(
        tmp_path, "m.yaml", "description: a\nsource: {kind: folder, path: /x, revison: y}\n"
    )
    with pytest.raises(UserError, match=r"unknown key 'source\.folder\.revison'.*'revision'"):
        read_entry(path, ModelEntry)


def test_a_branch_is_no_pinned_revision(tmp_path: Path) -> None:
    path = write(
        tmp_path, "m.yaml", "description: a\nsource: {kind: hub, repo: a/b, revision: main}\n"
    )
    with pytest.raises(UserError, match=r"source\.hub\.revision.*'main'"):
        read_entry(path, ModelEntry)


def test_wrong_type_names_what_was_found(tmp_path: Path) -> None:
    path = write(tmp_path, "box.yaml", "description: a\nthreads: two\n")
    with pytest.raises(UserError, match=r"key 'threads': found 'two'"):
        read_entry(path, DeviceEntry)


@pytest.mark.parametrize("text", ["- a\n", "a: [1\n", ""])
def test_what_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, "box.yaml", text)
    with pytest.raises(UserError, match=r"box\.yaml"):
        read_entry(path, DeviceEntry)


def test_file_name_is_an_id_and_no_path(tmp_path: Path) -> None:
    write(tmp_path / "d", "Bad Name.yaml", "description: a\n")
    with pytest.raises(UserError, match=r"Bad Name\.yaml"):
        Registry(tmp_path / "d", DeviceEntry)


def test_unknown_id_says_what_there_is(tmp_path: Path) -> None:
    write(tmp_path / "d", "orin.yaml", "description: a\n")
    with pytest.raises(UserError, match=r"devices: 'orni' .*did you mean 'orin'"):
        Registry(tmp_path / "d", DeviceEntry).get("orni", "devices")
