# SPDX-License-Identifier: Apache-2.0
# Copyright The dracpu authors
"""The guest's disk, kernel and initramfs, made once and kept in the cache."""

import os
import pathlib
import shutil
import tempfile

from e2e.base import HERE, cache_dir, command, digest, log_dir, step

SUITE = "bookworm"
MIRROR = os.environ.get("DRACPU_DEBIAN_MIRROR", "http://deb.debian.org/debian")
INCLUDE = ("runc,iproute2,iptables,procps,kmod,util-linux,mount,containernetworking-plugins,"
           "ca-certificates,dropbear-bin,busybox-static,numactl")
KERNEL = "linux-image-cloud-amd64"
DISK_SIZE = "6G"
DISK_MODULES = ("virtio_pci", "virtio_blk", "ext4")


def folder():
    key = digest(pathlib.Path(__file__), HERE / "guest" / "initramfs-init", MIRROR)
    return cache_dir() / f"guest-{key}"


def build():
    """Makes root.img, vmlinuz and initrd.img unless the cache has them."""
    final = folder()
    if (final / "complete").exists():
        return final
    log = log_dir() / "guest-build.log"
    cache_dir().mkdir(parents=True, exist_ok=True)
    work = pathlib.Path(tempfile.mkdtemp(prefix=".guest-", dir=cache_dir()))
    try:
        with step("guest: Debian base", log):
            root = _base(work, log)
        with step("guest: kernel, initramfs, disk", log):
            version = _kernel(work, root, log)
            _initramfs(work, root, version, log)
            # Without lazy initialization: the kernel would go on with it in every run.
            command(["mke2fs", "-q", "-F", "-t", "ext4", "-L", "root", "-E", "lazy_itable_init=0,lazy_journal_init=0",
                     "-d", root, work / "root.img", DISK_SIZE], log)
        shutil.rmtree(root)
        (work / "complete").write_text(f"kernel {version}\n")
        shutil.rmtree(final, ignore_errors=True)
        os.rename(work, final)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return final


def _base(work, log):
    root = work / "root"
    # A mount namespace of its own: what debootstrap mounts is never seen outside.
    command(["unshare", "--mount", "debootstrap", "--variant=minbase", f"--include={INCLUDE}", SUITE, root, MIRROR],
            log)
    for waste in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale"):
        shutil.rmtree(root / waste, ignore_errors=True)
    for mount_point in ("share", "root/.ssh", "var/lib/kubelet", "etc/dropbear"):
        (root / mount_point).mkdir(parents=True, exist_ok=True)
    (root / "sbin/init").unlink(missing_ok=True)
    (root / "usr/sbin/init").unlink(missing_ok=True)
    (root / "usr/sbin/init").symlink_to("/bin/busybox")
    (root / "etc/inittab").unlink(missing_ok=True)
    (root / "etc/inittab").symlink_to("/share/guest/inittab")
    (root / "root/.ssh/authorized_keys").symlink_to("/share/etc/authorized_keys")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    (root / "etc/resolv.conf").unlink(missing_ok=True)
    (root / "etc/resolv.conf").write_text("")
    for name in ("ctr", "containerd", "containerd-shim-runc-v2", "kubelet"):
        (root / "usr/local/bin" / name).symlink_to(f"/share/bin/{name}")
    return root


def _kernel(work, root, log):
    """Unpacks the kernel package (never installs it); returns its version."""
    depends = command(["apt-cache", "depends", "--no-recommends", KERNEL], log)
    package = next(line.split()[-1] for line in depends.splitlines() if "Depends: linux-image-" in line)
    place = work / "kernel"
    place.mkdir()
    command(["apt-get", "-o", "APT::Sandbox::User=root", "download", package], log, cwd=place)
    archive = next(place.glob("*.deb"))
    command(["dpkg-deb", "-x", archive, place / "x"], log)
    version = package.removeprefix("linux-image-")
    shutil.copy(place / "x/boot" / f"vmlinuz-{version}", work / "vmlinuz")
    shutil.copytree(place / "x/lib/modules" / version, root / "usr/lib/modules" / version, symlinks=True)
    command(["depmod", "-b", root, version], log)
    shutil.rmtree(place)
    return version


def _initramfs(work, root, version, log):
    tree = work / "initramfs"
    for name in ("bin", "modules", "proc", "sys", "dev", "new"):
        (tree / name).mkdir(parents=True)
    shutil.copy("/bin/busybox", tree / "bin/busybox")
    for tool in ("sh", "mount", "umount", "insmod", "sleep", "switch_root", "[", "echo"):
        (tree / "bin" / tool).symlink_to("busybox")
    shutil.copy(HERE / "guest" / "initramfs-init", tree / "init")
    order = []
    for module in DISK_MODULES:
        for line in command(["modprobe", "-d", root, "-S", version, "--show-depends", module], log).splitlines():
            word = line.split()
            if word[:1] == ["insmod"] and os.path.basename(word[1]) not in order:
                order.append(os.path.basename(word[1]))
                shutil.copy(word[1], tree / "modules")
    (tree / "modules/order").write_text("".join(f"{name}\n" for name in order))
    command(["sh", "-c", f"cd '{tree}' && find . | cpio -o -H newc --quiet | gzip -1 > '{work}/initrd.img'"], log)
    shutil.rmtree(tree)
