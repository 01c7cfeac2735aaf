"""The device's side by itself: states of a job, paths, and the oldest Python that it may meet."""

from __future__ import annotations

import ast
import fcntl
from pathlib import Path

import pytest

from sameweights.remote import agent


@pytest.mark.parametrize(
    ("files", "held", "state"),
    [
        ({}, False, ("absent", None)),
        ({"lock": ""}, True, ("running", None)),
        ({"lock": ""}, False, ("lost", None)),
        ({"lock": "", "rc": "3"}, False, ("done", 3)),
        ({"lock": "", "rc": "0"}, True, ("done", 0)),
    ],
)
def test_state_follows_from_lock_and_rc(
    tmp_path: Path, files: dict[str, str], held: bool, state: tuple[str, int | None]
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    if held:
        with (tmp_path / "lock").open() as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            assert agent.state_of(str(tmp_path)) == state
    else:
        assert agent.state_of(str(tmp_path)) == state


@pytest.mark.parametrize("path", ["", "/a", "..", "a/../b", "./a", "a//b", "a/", "a\0b"])
def test_a_path_that_leaves_is_refused(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        agent.checked(path)
    assert ended.value.code == agent.EXIT_REFUSED
    assert "leaves the work folder" in capsys.readouterr().err


def test_the_agent_is_python_3_8_and_standard_library_only() -> None:
    import sys

    tree = ast.parse(Path(agent.__file__).read_text(), feature_version=(3, 8))
    names = [
        alias.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    ]
    assert names and all(name in sys.stdlib_module_names for name in names)


def test_facts_stand_alone() -> None:
    found = agent.find_facts({"good": ["echo", "hi"], "bad": ["false"], "none": ["no-such-tool"]})
    assert found == {
        "good": {"exit_code": 0, "output": "hi\n"},
        "bad": {"exit_code": 1, "output": ""},
        "none": {"exit_code": None, "output": "missing"},
    }


def test_a_second_hub_may_make_the_work_folder_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other hub's marker appears just before this one looks into the folder."""
    monkeypatch.chdir(tmp_path)
    listdir = agent.os.listdir

    def other_hub_first(path: str) -> list[str]:
        (tmp_path / "work" / agent.MARKER).touch()
        return listdir(path)

    monkeypatch.setattr(agent.os, "listdir", other_hub_first)
    agent.enter_workdir(str(tmp_path / "work"))
    assert Path.cwd() == tmp_path / "work"


def test_a_folder_of_somebody_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "theirs").touch()
    with pytest.raises(SystemExit) as ended:
        agent.enter_workdir(str(tmp_path))
    assert ended.value.code == agent.EXIT_REFUSED
    assert "was not made by sameweights" in capsys.readouterr().err
