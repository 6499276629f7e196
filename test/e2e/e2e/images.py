# SPDX-License-Identifier: Apache-2.0
# Copyright The dracpu authors
"""The two images of the tests, `pause` and `probe`, and the node's observer, made from our own C."""

import os
import shutil
import tempfile
import pathlib

from e2e.base import HERE, cache_dir, command, digest, log_dir, step

PAUSE = "localhost/e2e-pause:1"
PROBE = "localhost/e2e-probe:1"


def build():
    """Makes pause.tar, probe.tar and observe unless the cache has them; returns their folder."""
    final = cache_dir() / f"images-{digest(HERE / 'images', pathlib.Path(__file__))}"
    if final.exists():
        return final
    log = log_dir() / "images.log"
    work = pathlib.Path(tempfile.mkdtemp(prefix=".images-", dir=cache_dir()))
    try:
        with step("test images", log):
            out = work / "out"
            out.mkdir()
            for name, image in (("pause", PAUSE), ("probe", PROBE)):
                tree = work / name
                (tree / "bin").mkdir(parents=True)
                _compile(name, tree / "bin", log)
                if name == "probe":
                    (tree / "tmp").mkdir()
                    shutil.copy("/bin/busybox", tree / "bin/busybox")
                    for tool in ("sh", "cat", "grep", "sleep", "env", "ls"):
                        (tree / "bin" / tool).symlink_to("busybox")
                archive(tree, f"/bin/{name}", image, out / f"{name}.tar", work / "storage", log)
            _compile("observe", out, log)
            os.rename(out, final)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return final


def _compile(name, folder, log):
    command(["gcc", "-static", "-Os", "-Wall", "-Werror", "-s", "-o", folder / name, HERE / "images" / f"{name}.c"], log)


def archive(tree, entry, image, target, storage, log):
    """Packs a folder as an OCI archive with a private buildah storage."""
    script = ('b="buildah --root $1/root --runroot $1/run --storage-driver vfs"; '
              'c=$($b from scratch) && $b copy -q $c "$2" / && '
              '$b config --entrypoint "[\\"$3\\"]" --env PATH=/bin --created-by e2e $c && '
              '$b commit -q --rm --timestamp 0 --format oci $c "oci-archive:$5:$4"')
    command(["sh", "-c", script, "sh", storage, tree, entry, image, target], log)
