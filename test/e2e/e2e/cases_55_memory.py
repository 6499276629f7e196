# SPDX-License-Identifier: Apache-2.0
# Copyright The dracpu authors
"""Memory and hugepages beside the CPUs, on a node with two NUMA nodes and 64 hugepages on each."""

import re

from e2e import guest, peers
from e2e.base import REPO, wait_for
from e2e.chart import CHART, helm
from e2e.cluster import CLAIMS, DRIVER_IMAGE, NAMESPACE, SLICES, cpus, expect, shown
from e2e.upgrade import set_image
from e2e.registry import case

MEMORY_ON = """\
apiVersion: dracpu/v1beta1
kind: DriverConfiguration
node: {reservedCPUs: none}
memory: {enabled: true, reserved: "0:memory=1Gi;1:memory=512Mi"}
"""
COMBINED = MEMORY_ON.replace("{enabled: true", "{enabled: true, mode: combined")
NODE_1 = [{"cel": {"expression": 'device.attributes["resource.kubernetes.io"].numaNode == 1'}}]
LIMITS = {"memory": "64Mi", "hugepages-2Mi": "64Mi"}


def _apply_classes(cluster):
    done = helm("template", "cpu", CHART, "--kube-version", peers.KUBERNETES, "--show-only", "templates/deviceclass.yaml",
                "--set", "driverConfig.apiVersion=dracpu/v1beta1,driverConfig.kind=DriverConfiguration,"
                "driverConfig.node.reservedCPUs=none,driverConfig.memory.enabled=true")
    cluster.kubectl("apply", "-f", "-", stdin=done.stdout)


def _claim(cluster, name, pages, count=None, selectors=()):
    """So much in hugepages, and CPUs of the same NUMA node where `count` says so."""
    requests = [{"name": "pages", "exactly": {"deviceClassName": "dra.hugepages-2m", "selectors": list(selectors),
                                              "capacity": {"requests": {"size": pages}}}}]
    constraints = []
    if count:
        requests.append({"name": "cpus", "exactly": {"deviceClassName": "dra.cpu",
                                                     "capacity": {"requests": {"dra.cpu/cpu": str(count)}}}})
        constraints = [{"requests": ["cpus", "pages"], "matchAttribute": "resource.kubernetes.io/numaNode"}]
    return cluster.api.create(CLAIMS, {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
        "spec": {"devices": {"requests": requests, "constraints": constraints}}})


def _slot(cluster, name, amounts):
    """CPUs and memory of NUMA node 1 in one request, as combined mode has it."""
    return cluster.api.create(CLAIMS, {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "slot", "exactly": {
            "deviceClassName": "dra.cpu", "selectors": NODE_1, "capacity": {"requests": amounts}}}]}}})


def _hand_allocated(cluster, claim, driver, device, amounts):
    """A claim with a pod that somebody allocated on NUMA node 1 without looking at what is left."""
    name = claim["metadata"]["name"]
    request = claim["spec"]["devices"]["requests"][0]["name"]
    node = cluster.slices()[0]["spec"]["nodeName"]
    pod = cluster.pod(name, claims=[name], node=node)
    claim["status"] = {
        "reservedFor": [{"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}],
        "allocation": {"devices": {"results": [{
            "request": request, "driver": driver, "pool": node, "device": device,
            "consumedCapacity": amounts, "shareID": "00000001-0000-4000-8000-000000000000"}]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": [node]}]}]}}}
    cluster.api.call("PUT", f"{CLAIMS}/{name}/status", claim)


def _check_node_1(cluster, pod):
    """2 CPUs, memory and 32 touched pages of NUMA node 1, and the limit of 64 MiB, as the container sees them."""
    mine = cluster.seen(pod)
    expect(len(mine) == 2 and mine <= {4, 5, 6, 7}, "2 CPUs of NUMA node 1", shown(mine))
    log = cluster.log(pod)
    expect(re.search(r"^cpus=\S+ effective=\S+ mems=1$", log, re.M), "cpuset.mems 1", log)
    _check_pages(cluster, pod)
    return mine


def _check_pages(cluster, pod):
    line = wait_for("the pages", 20, lambda: [m for m in re.findall(r"^pages=.*$", cluster.log(pod), re.M)])[0]
    expect(re.search(r"\bN1=32\b", line) and " N0=" not in line, "32 pages on NUMA node 1", line)
    expect("hugetlb.max=67108864" in line, "the limit of the claim", line)


def _restart_driver(cluster, pod):
    """A new driver pod; the container of `pod` stays."""
    before = cluster.container_ids(cluster.get_pod(pod))
    uid = cluster.driver_pod()["metadata"]["uid"]
    cluster.delete_driver_pod()
    cluster.wait_driver(other_than=uid)
    wait_for("the kubelet to know the driver", 60, lambda: guest.health("/readyz") == 200)
    expect(cluster.container_ids(cluster.get_pod(pod)) == before, "the same container", before)


def _memory_devices(cluster):
    return {d["name"]: d["capacity"]["size"]["value"] for s in cluster.api.get(SLICES)["items"]
            if s["spec"]["driver"] == "dra.memory" for d in s["spec"]["devices"]}


@case("memory")
def memory(cluster):
    """2 CPUs and 64 MiB of hugepages of NUMA node 1: pages, mems and limit seen inside; exhaustion; a restart between."""
    _apply_classes(cluster)
    with cluster.configured(MEMORY_ON):
        devices = wait_for("slices of dra.memory", 30, lambda: _memory_devices(cluster))
        expect(devices.get("hugepages-2mi-numa000") == "128Mi" and devices.get("hugepages-2mi-numa001") == "128Mi",
               "64 pages of 2Mi on each node", devices)
        expect({"memory-numa000", "memory-numa001"} <= set(devices), "base memory of both nodes", devices)

        _claim(cluster, "held", "64Mi", count=2, selectors=NODE_1)
        cluster.pod("held", claims=["held"], containers=[
            {"args": ["pages", "64"], "resources": {"claims": [{"name": "held"}], "limits": LIMITS}}])
        cluster.wait_running("held")
        mine = _check_node_1(cluster, "held")
        expect(guest.health("/readyz") == 200, "ready", guest.health("/readyz"))
        _restart_driver(cluster, "held")

        _hand_allocated(cluster, _claim(cluster, "toomuch", "96Mi", selectors=NODE_1), "dra.memory", "hugepages-2mi-numa001",
                        {"size": "96Mi"})
        cluster.wait_refused("toomuch", r"96Mi requested, 64Mi of 128Mi left")
        cluster.delete("toomuch", claims=["toomuch"])

        cluster.lend_image()
        cluster.kubectl("apply", "-n", NAMESPACE, "-f", str(REPO / "docs/examples/numa-memory.yaml"))
        cluster.wait_running("numa-memory")
        said = cluster.log("numa-memory", "app")
        found = cpus(re.search(r"Cpus_allowed_list:\s*(\S+)", said).group(1))
        expect(len(found) == 2 and not found & mine, "2 other CPUs", said)
        mems = re.search(r"Mems_allowed_list:\s*(\S+)", said).group(1)
        expect(found <= ({0, 1, 2, 3} if mems == "0" else {4, 5, 6, 7}), "CPUs and memory of one NUMA node", said)
        cluster.kubectl("delete", "-n", NAMESPACE, "--wait=true", "-f", str(REPO / "docs/examples/numa-memory.yaml"))
        cluster.delete("held", claims=["held"])
    wait_for("no slice of dra.memory when it is off", 120, lambda: not _memory_devices(cluster))


@case("memory-combined")
def memory_combined(cluster):
    """Combined mode: one request has CPUs, memory and pages of NUMA node 1; a restart; what is left; CPUs alone are not pinned to memory."""
    amounts = {"dra.cpu/cpu": "2", "dra.memory/memory": "64Mi", "dra.memory/hugepages_2Mi": "64Mi"}
    with cluster.configured(COMBINED):
        capacity = wait_for("memory with the CPUs", 30, lambda: {
            d["name"]: d["capacity"] for s in cluster.slices() for d in s["spec"]["devices"]
            if "dra.memory/memory" in d["capacity"]})
        expect(capacity["cpudevnuma001"]["dra.memory/hugepages_2Mi"]["value"] == "128Mi", "64 pages of 2Mi", capacity)
        expect(not _memory_devices(cluster), "no slice of dra.memory", _memory_devices(cluster))

        _slot(cluster, "held", amounts)
        cluster.pod("held", claims=["held"], containers=[
            {"args": ["pages", "64"], "resources": {"claims": [{"name": "held"}], "limits": LIMITS}}])
        cluster.wait_running("held")
        mine = _check_node_1(cluster, "held")
        _restart_driver(cluster, "held")

        _hand_allocated(cluster, _slot(cluster, "toomuch", amounts), "dra.cpu", "cpudevnuma001",
                        {"dra.cpu/cpu": "1", "dra.memory/memory": "0", "dra.memory/hugepages_2Mi": "96Mi"})
        cluster.wait_refused("toomuch", r"96Mi requested, 64Mi of 128Mi left")
        cluster.delete("toomuch", claims=["toomuch"])

        cluster.claim("alone", 2)
        cluster.pod("alone", claims=["alone"])
        cluster.wait_running("alone")
        found = cluster.seen("alone")
        expect(len(found) == 2 and not found & mine, "2 other CPUs", shown(found))
        expect(re.search(r"^cpus=\S+ effective=\S+ mems=0-1$", cluster.log("alone"), re.M), "memory of both nodes", cluster.log("alone"))
        cluster.delete("held", "alone", claims=["held", "alone"])
    expect(not any("dra.memory/memory" in d["capacity"] for s in cluster.slices() for d in s["spec"]["devices"]),
           "CPUs alone when memory is off", cluster.slices())


@case("memory-pod-limits")
def memory_pod_limits(cluster):
    """hugetlbEnforcement pod, by the chart: a pod with no hugepages in its spec uses those of its claim; through a restart."""
    values = ("apiVersion=dracpu/v1beta1,driverConfig.kind=DriverConfiguration,driverConfig.node.reservedCPUs=none,"
              "driverConfig.memory.enabled=true,driverConfig.memory.hugetlbEnforcement=pod")
    cluster.kubectl("delete", "-f", str(REPO / "deploy/manifest/dracpu.yaml"), "--wait=true")
    cluster.kubectl("delete", "configmap", "dracpu-config", "-n", "kube-system", "--ignore-not-found")
    for name in ("dra.memory", "dra.hugepages-2m", "dra.hugepages-1g"):  # of a case that ran before
        cluster.kubectl("delete", "deviceclass", name, "--ignore-not-found")
    try:
        helm("install", "cpu", CHART, "-n", "kube-system", "--set", "fullnameOverride=dracpu,podLabels.app=dracpu",
             *set_image(DRIVER_IMAGE), "--set", f"hostCgroups.enabled=true,driverConfig.{values}", "--wait", "--timeout", "180s")
        cluster.wait_driver()
        wait_for("slices of dra.memory", 30, lambda: _memory_devices(cluster))
        _claim(cluster, "held", "64Mi", count=2, selectors=NODE_1)
        cluster.pod("held", claims=["held"], containers=[{"args": ["pages", "64"]}])
        cluster.wait_running("held")
        _check_node_1(cluster, "held")
        _restart_driver(cluster, "held")
        guest.run(f"kill -9 {cluster.process_of('held')}")
        wait_for("another start of the container", 60, lambda: cluster.get_pod("held")["status"]["containerStatuses"][0]["restartCount"] > 0)
        cluster.wait_running("held")
        _check_pages(cluster, "held")
        cluster.delete("held", claims=["held"])
    finally:
        cluster.settle()
        helm("uninstall", "cpu", "-n", "kube-system", "--wait", check=False)
        cluster.deploy_driver()
        cluster.wait_driver()
