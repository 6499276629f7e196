# SPDX-License-Identifier: Apache-2.0
# Copyright The dracpu authors
"""Every device mode and allocator, each with its own configuration of the driver."""

from e2e import guest
from e2e.base import wait_for
from e2e.cluster import ALL_CPUS, CLAIMS, expect, shown
from e2e.registry import case


def _device_names(cluster):
    return sorted(d["name"] for s in cluster.slices() for d in s["spec"]["devices"])


def _await_devices(cluster, wanted):
    wait_for(f"devices {wanted}", 30, lambda: _device_names(cluster) == wanted)


def _allocated(cluster, name, device, cpus, chosen=None, count=None):
    """A pod past the scheduler, and its claim with an allocation as an external allocator would write it."""
    exactly = {"deviceClassName": "dra.cpu", "capacity": {"requests": {"dra.cpu/cpu": str(cpus)}}}
    if count:
        exactly.update(allocationMode="ExactCount", count=count)
    claim = cluster.api.create(CLAIMS, {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "cpus", "exactly": exactly}]}}})
    node = cluster.slices()[0]["spec"]["nodeName"]
    result = {"request": "cpus", "driver": "dra.cpu", "pool": node, "device": device,
              "consumedCapacity": {"dra.cpu/cpu": str(cpus)}}
    results = [dict(result, shareID=f"0000000{i}-0000-4000-8000-000000000000") for i in range(count or 1)]
    devices = {"results": results}
    if chosen is not None:
        devices["config"] = [{"source": "FromClaim", "requests": ["cpus"], "opaque": {
            "driver": "dra.cpu",
            "parameters": {"apiVersion": "v1alpha1", "cpuConfig": {"cpuset": chosen}}}}]
    pod = cluster.pod(name, claims=[name], node=node)
    user = {"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}
    claim["status"] = {"reservedFor": [user], "allocation": {"devices": devices, "nodeSelector": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}}}
    cluster.api.call("PUT", f"{CLAIMS}/{name}/status", claim)


@case("mode-socket")
def mode_socket(cluster):
    """groupBy socket: one device per socket, claims pinned inside it."""
    with cluster.configured("apiVersion: v1alpha1\ngroupBy: socket\n"):
        _await_devices(cluster, ["cpudevsocket000", "cpudevsocket001"])
        cluster.claim("three", 3)
        cluster.pod("three", claims=["three"])
        cluster.wait_running("three")
        expect(len(cluster.seen("three")) == 3, "3 CPUs", shown(cluster.seen("three")))


@case("mode-individual")
def mode_individual(cluster):
    """cpuDeviceMode individual: one device per CPU, a claim of two devices is pinned to their CPUs."""
    with cluster.configured("apiVersion: v1alpha1\ncpuDeviceMode: individual\n"):
        _await_devices(cluster, [f"cpudev{n:03}" for n in range(8)])
        cluster.api.create(CLAIMS, {
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "two"},
            "spec": {"devices": {"requests": [{"name": "cpus", "exactly": {
                "deviceClassName": "dra.cpu", "allocationMode": "ExactCount", "count": 2}}]}}})
        cluster.pod("two", claims=["two"])
        cluster.pod("shared")
        cluster.wait_running("two", "shared")
        mine = cluster.seen("two")
        expect(len(mine) == 2, "2 CPUs", shown(mine))
        cluster.wait_seen("shared", ALL_CPUS - mine)


@case("mode-external")
def mode_external(cluster):
    """allocator external: the CPUs that the allocation names, and a refusal in the pod's event where none are named."""
    with cluster.configured("apiVersion: v1alpha1\nallocator: external\n"):
        _await_devices(cluster, ["cpudevnuma000", "cpudevnuma001"])
        attributes = cluster.slices()[0]["spec"]["devices"][0]["attributes"]
        layout = attributes.get("dra.cpu/smtLayout", attributes.get("smtLayout"))
        expect(layout and "string" in layout, "a text smtLayout", attributes)
        _allocated(cluster, "chosen", "cpudevnuma001", 2, chosen="5,7")
        cluster.wait_running("chosen")
        expect(cluster.seen("chosen") == {5, 7}, "CPUs 5,7", shown(cluster.seen("chosen")))
        cluster.claim("unchosen", 2)
        cluster.pod("unchosen", claims=["unchosen"])
        cluster.wait_refused("unchosen", r"has 0 opaque configurations for dra\.cpu")
        _allocated(cluster, "taken", "cpudevnuma001", 2, chosen="4-5")
        cluster.wait_refused("taken", r"cannot be satisfied")


@case("mode-machine")
def mode_machine(cluster):
    """groupBy machine with allocator external: one device, a hand-written allocation, count above 1 refused."""
    with cluster.configured("apiVersion: v1alpha1\nallocator: external\ngroupBy: machine\n"):
        _await_devices(cluster, ["cpudevmachine"])
        _allocated(cluster, "spread", "cpudevmachine", 2, chosen="3,6")
        cluster.wait_running("spread")
        expect(cluster.seen("spread") == {3, 6}, "CPUs 3,6", shown(cluster.seen("spread")))
        _allocated(cluster, "double", "cpudevmachine", 1, chosen="1-2", count=2)
        cluster.wait_refused("double", r"at most 1 is supported")


@case("device-metadata")
def device_metadata(cluster):
    """A container reads what it was given: the mounted metadata file is there."""
    cluster.claim("two", 2)
    cluster.pod("reader", claims=["two"])
    cluster.wait_running("reader")
    pod = cluster.get_pod("reader")
    container = cluster.container_ids(pod)["c0"]
    task = f"/run/containerd/io.containerd.runtime.v2.task/k8s.io/{container}"
    text = guest.read(f"cd /proc/$(cat {task}/init.pid)/root && cat var/run/kubernetes.io/dra-device-attributes/"
                      "resourceclaims/two/cpus/dra.cpu-metadata.json")
    expect('"dra.cpu/allocatedNumCPUs":{"int":2}' in text, "allocatedNumCPUs 2", text)
