# SPDX-License-Identifier: Apache-2.0
# Copyright The dracpu authors
"""Helm, and where the charts are."""

import os
import pathlib
import subprocess

from e2e import control_plane, peers
from e2e.base import HERE, REPO, command, log_dir
from e2e.cluster import expect

CHART = REPO / "deploy/helm/dra-driver-cpu"


def helm(*arguments, check=True):
    peers.build(["helm"])
    done = subprocess.run([peers.path("helm"), *map(str, arguments)], env=control_plane.admin_env(), capture_output=True,
                          text=True, check=False)
    with (log_dir() / "helm.log").open("a") as log:
        log.write(f"$ helm {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}\n")
    if check:
        expect(done.returncode == 0, f"success of helm {' '.join(map(str, arguments))}", done.stderr.strip()[-800:])
    return done


def predecessor_chart():
    """The chart of the Go driver, where Go keeps its module."""
    folder = command(["go", "list", "-m", "-f", "{{.Dir}}", "github.com/kubernetes-sigs/dra-driver-cpu"], log_dir() / "helm.log",
                     env={**os.environ, "GOTOOLCHAIN": "local"}, cwd=HERE / "components/predecessor")
    return pathlib.Path(folder.strip().splitlines()[-1]) / "deployment/helm/dra-driver-cpu"
