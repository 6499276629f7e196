# SPDX-License-Identifier: Apache-2.0
# Copyright The dracpu authors
"""Moves from one driver to another under running claims, with an observer in the node."""

import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import tempfile

from e2e import control_plane, guest, images, peers
from e2e.base import REPO, cache_dir, log_dir, say, wait_for
from e2e.chart import helm
from e2e.cluster import DRIVER_IMAGE, NAMESPACE, PODS, SLICES, expect, shown

GO_IMAGE = "localhost/predecessor:0.2.0"
NEXT_IMAGE = "localhost/dracpu:e2e-next"  # the same program under another name: an update


def set_image(image):
    name, _, tag = image.rpartition(":")
    return ("--set", f"image.repository={name},image.tag={tag}")


class Releases:
    """What is installed by a case, and how to get it out again."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.names = []

    def install(self, name, chart, *flags):
        self.names.append(name)
        was_there = bool(drivers(self.cluster))
        helm("install", name, chart, "-n", "kube-system", *flags, "--wait", "--timeout", "180s")
        if not was_there:
            owner_is_there(self.cluster)

    def upgrade(self, name, chart, *flags, check=True):
        return helm("upgrade", name, chart, "-n", "kube-system", *flags, "--wait", "--timeout", "240s", check=check)

    def rollback(self, name, revision):
        helm("rollback", name, str(revision), "-n", "kube-system", "--wait", "--timeout", "240s")

    def uninstall(self, name):
        helm("uninstall", name, "-n", "kube-system", "--wait")
        self.names.remove(name)

    def remove_all(self):
        for name in self.names:
            helm("uninstall", name, "-n", "kube-system", "--wait", check=False)


def drivers(cluster):
    """Pods of any driver, ours or the Go one."""
    pods = cluster.api.get("/api/v1/namespaces/kube-system/pods")["items"]
    return [p for p in pods if (p["spec"]["containers"][0].get("args") or [""])[0] == "/dracpu"]


def load_predecessor():
    """The Go driver's image in the runtime of the node, built from its pinned module."""
    if guest.run(f"ctr -n k8s.io images list -q | grep -qx {GO_IMAGE}", check=False)[0] == 0:
        return
    peers.build(["predecessor"])
    work = pathlib.Path(tempfile.mkdtemp(prefix=".predecessor-", dir=cache_dir()))
    try:
        (work / "tree").mkdir()
        shutil.copy(peers.path("predecessor"), work / "tree/dracpu")
        images.archive(work / "tree", "/dracpu", GO_IMAGE, work / "image.tar", work / "storage", log_dir() / "images.log")
        guest.put(work / "image.tar", "/tmp/predecessor.tar")
        guest.run("ctr -n k8s.io images import /tmp/predecessor.tar && rm /tmp/predecessor.tar")
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextlib.contextmanager
def without_driver(cluster):
    """A node with no driver of the suite's own, which comes back at the end."""
    cluster.kubectl("delete", "-f", str(REPO / "deploy/manifest/dracpu.yaml"), "--wait=true", "--ignore-not-found")
    cluster.kubectl("delete", "configmap", "dracpu-config", "-n", "kube-system", "--ignore-not-found")
    wait_for("the driver's pod to be gone", 60, lambda: not drivers(cluster))
    releases = Releases(cluster)
    try:
        yield releases
    finally:
        # Claims need a driver to be cleaned up; one of the releases is there, or the manifest's comes.
        if not drivers(cluster):
            cluster.deploy_driver()
        cluster.settle()
        releases.remove_all()
        cluster.kubectl("delete", "-f", str(REPO / "deploy/manifest/dracpu.yaml"), "--wait=true", "--ignore-not-found")
        wait_for("drivers to be gone", 60, lambda: not drivers(cluster))
        cluster.deploy_driver()
        cluster.wait_driver()


def _look(cluster):
    """Of each container of the tests: its id, how often it was restarted, and its CPUs where it has a claim."""
    out = {}
    sets = cluster.container_sets()
    for pod in cluster.api.get(PODS)["items"]:
        claimed = {c["name"] for c in pod["spec"]["containers"] if c.get("resources", {}).get("claims")}
        for row in pod["status"].get("containerStatuses", []):
            ident = row.get("containerID", "//").split("//")[1]
            mine = shown(sets.get(ident, frozenset())) if row["name"] in claimed else None
            out[f"{pod['metadata']['name']}/{row['name']}"] = (ident, row["restartCount"], mine)
    return out


def _samples():
    rows = [line.split() for line in guest.read("cat /run/observe.log").splitlines()]
    return [(float(r[0]), *map(int, r[1:])) for r in rows if len(r) == 4]


def _gap(samples):
    """The longest time without a plugin at the runtime, in milliseconds."""
    longest, since = 0.0, None
    for now, runtime, _, _ in samples:
        if runtime == 0:
            since = now if since is None else since
            longest = max(longest, now - since)
        else:
            since = None
    return round(longest * 1000)


def owner_is_there(cluster, driver="dra.cpu"):
    """One driver at the runtime, known to the kubelet; a ready pod of it, and slices."""
    def check():
        slices = [s for s in cluster.api.get(SLICES)["items"] if s["spec"]["driver"] == driver]
        runtime, listeners, known = map(int, guest.read("observe once").split()[1:])
        ready = [p for p in drivers(cluster) if "deletionTimestamp" not in p["metadata"] and
                 (p["status"].get("containerStatuses") or [{}])[0].get("ready")]
        return runtime == 1 and listeners == 1 and known and ready and slices
    wait_for("one driver at the runtime, with slices", 120, check)


@contextlib.contextmanager
def move(cluster, path, settled=owner_is_there):
    """The body changes the driver. Nobody may overlap, and running containers keep what they have."""
    before = _look(cluster)
    guest.run("observe /run/observe.log /run/observe.stop </dev/null >/dev/null 2>&1 &")
    wait_for("the observer", 10, _samples)
    try:
        yield
        if settled:
            settled(cluster)
    finally:
        guest.run("touch /run/observe.stop; sleep 0.5")
    samples = _samples()
    after = {name: row for name, row in _look(cluster).items() if name in before}
    row = {
        "path": path,
        "overlap": sum(1 for _, runtime, kubelet, _ in samples if runtime > 1 or kubelet > 1),
        "gap_ms": _gap(samples),
        "samples": len(samples),
        "claims_kept": sum(1 for name, now in after.items() if now[2] and now[2] == before[name][2]),
        "claims": sum(1 for was in before.values() if was[2]),
        "restarted": sum(1 for name, was in before.items() if after.get(name, ("", 0))[:2] != was[:2]),
        "cpus_changed": sum(1 for name, was in before.items() if was[2] and after.get(name, ("", 0, ""))[2] != was[2]),
    }
    with (log_dir() / "upgrades.jsonl").open("a") as out:
        out.write(json.dumps(row) + "\n")
    say(f"  {path}: overlap {row['overlap']} of {row['samples']} samples, gap {row['gap_ms']} ms, claims kept "
        f"{row['claims_kept']} of {row['claims']}, restarted {row['restarted']}, CPUs changed {row['cpus_changed']}")
    expect(row["overlap"] == 0, f"{path}: never two drivers", row)
    expect(row["restarted"] == 0 and row["cpus_changed"] == 0 and row["claims_kept"] == row["claims"],
           f"{path}: containers and CPUs as they were", {"before": before, "after": after})


def ask(cluster, *arguments):
    """The program on a workstation with a kubeconfig; returns exit status and output."""
    done = subprocess.run([cluster.driver, *map(str, arguments)], env=control_plane.admin_env(), capture_output=True, text=True,
                          timeout=60, check=False)
    with (log_dir() / "upgrade.log").open("a") as log:
        log.write(f"$ dracpu {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}-- {done.returncode}\n")
    return done.returncode, done.stdout


def on_node(cluster, *arguments):
    """The program on the node, through kubectl debug as docs/user/cleanup.md says; returns exit status and output."""
    said = cluster.kubectl("debug", f"node/{control_plane.NODE_NAME}", "-n", NAMESPACE, f"--image={DRIVER_IMAGE}", "--", "/dracpu",
                           *arguments, "--kubelet-root-dir", "/host/var/lib/kubelet", "--cdi-dir", "/host/run/cdi")
    pod = re.search(r"node-debugger-\S+", said).group(0)

    def ended():
        rows = (cluster.get_pod(pod) or {}).get("status", {}).get("containerStatuses") or [{}]
        return rows[0].get("state", {}).get("terminated")
    status = wait_for(f"{pod} to end", 60, ended)["exitCode"]
    text = cluster.log(pod, "debugger")
    cluster.delete(pod)
    return status, text


def take(cluster, name, count=2):
    """A running pod with a claim; returns its CPUs, as the node has them."""
    cluster.claim(name, count)
    cluster.pod(name, claims=[name])
    pod = cluster.wait_running(name)
    mine = cluster.container_sets()[cluster.container_ids(pod)["c0"]]
    expect(len(mine) == count, f"{count} CPUs for {name}", shown(mine))
    for other in cluster.api.get(PODS)["items"]:
        if other["metadata"]["name"] != name and other["spec"].get("resourceClaims"):
            theirs = cluster.container_sets()[cluster.container_ids(other)["c0"]]
            expect(not mine & theirs, f"no CPU of {other['metadata']['name']} for {name}", shown(mine & theirs))
    return mine


def cdi_files():
    return guest.read("ls /var/run/cdi /etc/cdi 2>/dev/null | grep json; true").split()
