"""Pack the runner into one file, runner.pyz, with the same bytes on every machine."""

from __future__ import annotations

import zipfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
SHEBANG = b"#!/usr/bin/env python3\n"
MAIN = """\
import sys

if sys.version_info < (3, 10):
    found = ".".join(map(str, sys.version_info[:3]))
    sys.exit("the runner needs Python 3.10 or newer; %s is %s" % (sys.executable, found))
from runner.cli import main

raise SystemExit(main())
"""
EPOCH = (1980, 1, 1, 0, 0, 0)


def build_pyz(out: Path) -> Path:
    """Write the packed runner to `out` and return it; equal sources give equal bytes."""
    sources = {
        f"runner/{path.relative_to(PACKAGE).as_posix()}": path.read_bytes()
        for path in PACKAGE.rglob("*.py")
        if "__pycache__" not in path.parts
    }
    sources["__main__.py"] = MAIN.encode()
    part = out.with_name(out.name + ".part")
    with part.open("wb") as handle:
        handle.write(SHEBANG)
        # Stored, not deflated: zlib builds differ in the bytes they choose.
        with zipfile.ZipFile(handle, "w", zipfile.ZIP_STORED) as archive:
            for name in sorted(sources):
                entry = zipfile.ZipInfo(name, EPOCH)
                entry.create_system = 3
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, sources[name])
    part.chmod(0o755)
    part.replace(out)
    return out
