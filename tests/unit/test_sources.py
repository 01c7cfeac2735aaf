"""A digest of sources changes with their bytes and names, whatever the clock says."""

from __future__ import annotations

import os
from pathlib import Path

from sameweights.sources import ASSETS, assets_digest


def test_an_edit_below_the_assets_changes_their_digest(tmp_path: Path) -> None:
    page = tmp_path / "sections" / "page.html.j2"
    page.parent.mkdir()
    page.write_text("one")
    before = assets_digest(tmp_path)
    stamp = page.stat()
    page.write_text("two")
    os.utime(page, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    after = assets_digest(tmp_path)
    page.rename(page.with_name("other.html.j2"))
    assert len({before, after, assets_digest(tmp_path)}) == 3


def test_the_pages_own_assets_are_found() -> None:
    assert (ASSETS / "template.html.j2").is_file()
