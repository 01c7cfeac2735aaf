"""An emulated arm64 host with its own sshd, as a loopback device; see make_aarch64_host.sh."""

from __future__ import annotations

import shutil
from pathlib import Path

from sameweights.remote.loopback import LoopbackSshd

INSIDE = "/etc/sameweights"
"""Where the keys lie inside; sshd reads them there."""


class EmulatedSshd(LoopbackSshd):
    """sshd, shell and Python are aarch64 programs inside a chroot of an own mount namespace."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.root = root
        super().__init__(folder)
        self.write_config("tester")
        inside = self.root / INSIDE[1:]
        shutil.rmtree(inside, ignore_errors=True)
        inside.mkdir()
        for name in ("host_key", "user_key.pub"):
            shutil.copy(folder / name, inside)
        text = (folder / "sshd_config").read_text()
        # Without this CPU qemu computes wrong fp32 matrix products.
        text = text.replace(f'"{folder}/', f'"{INSIDE}/').replace(
            f'SetEnv "HOME={folder}"', "SetEnv QEMU_CPU=cortex-a76"
        )
        (inside / "sshd_config").write_text(text)

    def command(self) -> list[str]:
        inside = (
            'mkdir -p "$0/run/sshd" "$0/proc" "$0/dev" && mount --bind /dev "$0/dev"'
            ' && mount -t proc proc "$0/proc"'
            f' && exec chroot "$0" /usr/sbin/sshd -D -e -f {INSIDE}/sshd_config'
        )
        return ["unshare", "--mount", "sh", "-c", inside, str(self.root)]
