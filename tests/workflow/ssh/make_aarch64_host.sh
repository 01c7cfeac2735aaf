#!/bin/bash
# Make an arm64 Debian with sshd and Python below DIR, for test_other_isa.py: about 430 MB and
# three CPU minutes. Needs root, and the Debian packages qemu-user-static and debootstrap.
# Usage: make_aarch64_host.sh DIR
set -euo pipefail
root=$(realpath -m "$1")
packages=openssh-server,python3,python3-venv
binfmt=/proc/sys/fs/binfmt_misc

[ -e "$root/.complete" ] && { echo "$root is complete"; exit 0; }
[ -e $binfmt/register ] || mount -t binfmt_misc none $binfmt
[ -e $binfmt/qemu-aarch64 ] || cat /usr/lib/binfmt.d/qemu-aarch64.conf > $binfmt/register
# The default CPU of qemu gives wrong fp32 matrix products.
export QEMU_CPU=cortex-a76
if [ ! -d "$root/debootstrap" ]; then
    debootstrap --foreign --arch=arm64 --variant=minbase --include=$packages bookworm "$root"
fi
printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"  # no daemon starts inside
chmod +x "$root/usr/sbin/policy-rc.d"
DEBIAN_FRONTEND=noninteractive chroot "$root" /debootstrap/debootstrap --second-stage
chroot "$root" useradd --create-home --shell /bin/bash tester
chroot "$root" usermod --password '*' tester  # a locked account may not log in by key
touch "$root/.complete"
