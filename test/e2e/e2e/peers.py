# SPDX-License-Identifier: Apache-2.0
# Copyright The dracpu authors
"""Builds the cluster's own programs from pinned Go modules, once per version."""

import os
import shutil

from e2e.base import HERE, cache_dir, command, digest, log_dir, step

KUBERNETES = "1.37.2"
_MAJOR, _MINOR, _ = KUBERNETES.split(".")
_VERSION = "k8s.io/component-base/version"
_KUBE_FLAGS = (f"-s -w -X {_VERSION}.gitVersion=v{KUBERNETES} "
               f"-X {_VERSION}.gitMajor={_MAJOR} -X {_VERSION}.gitMinor={_MINOR}")

# program -> (folder of the module under components/, package, linker flags)
PROGRAMS = {
    "etcd": ("etcd", ".", "-s -w"),
    "helm": ("helm", "helm.sh/helm/v3/cmd/helm", "-s -w"),
    "predecessor": ("predecessor", "github.com/kubernetes-sigs/dra-driver-cpu/cmd/dracpu", "-s -w"),
    **{name: ("kubernetes", f"k8s.io/kubernetes/cmd/{name}", _KUBE_FLAGS)
       for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kubelet")},
    **{name: ("containerd", f"github.com/containerd/containerd/v2/cmd/{name}", "-s -w")
       for name in ("containerd", "containerd-shim-runc-v2", "ctr")},
}
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
NODE = ("containerd", "containerd-shim-runc-v2", "ctr", "kubelet")


def path(name):
    """Where a program lies (or will lie) in the cache."""
    folder, _, flags = PROGRAMS[name]
    key = digest(HERE / "components" / folder, flags)
    return cache_dir() / "peers" / f"{folder}-{key}" / name


def build(names):
    """Builds what the cache does not hold yet."""
    for name in names:
        target = path(name)
        if target.exists():
            continue
        folder, package, flags = PROGRAMS[name]
        log = log_dir() / f"build-{name}.log"
        target.parent.mkdir(parents=True, exist_ok=True)
        with step(f"build {name}", log):
            draft = target.with_name(f".{name}.{os.getpid()}")
            env = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false"}
            try:
                command(["go", "build", "-trimpath", "-ldflags", flags, "-o", draft, package],
                        log, env=env, cwd=HERE / "components" / folder)
                os.replace(draft, target)
            finally:
                if draft.exists():
                    draft.unlink()


def gather(names, folder):
    """Copies programs into a folder, for the guest's second disk."""
    for name in names:
        shutil.copy2(path(name), folder / name)
