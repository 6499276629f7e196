# SPDX-License-Identifier: Apache-2.0
# Copyright The dracpu authors
"""Restarts: of the driver, the kubelet, the runtime, and the whole node."""

import time

from e2e import guest
from e2e.base import Problem, wait_for
from e2e.cluster import ALL_CPUS, cpus, expect, shown
from e2e.registry import case


def _scene(cluster):
    """A pinned and a shared pod; returns the pinned CPUs."""
    cluster.claim("two", 2)
    cluster.pod("pinned", claims=["two"])
    cluster.pod("shared")
    cluster.wait_running("pinned", "shared")
    mine = cluster.seen("pinned")
    cluster.wait_seen("shared", ALL_CPUS - mine)
    return mine


def _same_scene(cluster, mine, label):
    """Nothing moved, and a new claim gets other CPUs."""
    expect(cluster.seen("pinned") == mine, f"the pinned pod on {shown(mine)}", shown(cluster.seen("pinned")))
    cluster.wait_seen("shared", ALL_CPUS - mine)
    cluster.claim(label, 2)
    cluster.pod(label, claims=[label])
    cluster.wait_running(label)
    other = cluster.seen(label)
    expect(len(other) == 2 and not other & mine, f"2 CPUs beside {shown(mine)}", shown(other))
    cluster.wait_seen("shared", ALL_CPUS - mine - other)
    expect(cluster.seen("pinned") == mine, f"the pinned pod on {shown(mine)}", shown(cluster.seen("pinned")))
    cluster.delete(label, claims=[label])


@case("driver-restart", tier="smoke")
def driver_restart(cluster):
    """The driver's pod is deleted: running claims keep their CPUs and new ones do not collide."""
    mine = _scene(cluster)
    old = cluster.driver_pod()["metadata"]["uid"]
    cluster.delete_driver_pod()
    cluster.wait_driver(other_than=old)
    _same_scene(cluster, mine, "fresh")


@case("driver-killed")
def driver_killed(cluster):
    """The driver is killed with SIGKILL: the same promise."""
    mine = _scene(cluster)
    before = cluster.driver_pod()["status"]["containerStatuses"][0]["restartCount"]
    pid = cluster.driver_pid()
    expect(pid, "a driver process in the guest", "none")
    guest.run(f"kill -9 {pid}")
    cluster.wait_driver(min_restarts=before + 1)
    _same_scene(cluster, mine, "fresh")


@case("kubelet-restart")
def kubelet_restart(cluster):
    """The kubelet restarts: slices it wiped come back, claims stay."""
    mine = _scene(cluster)
    guest.run("svc restart kubelet")
    wait_for("the node to be Ready again", 90, cluster.node_ready)
    wait_for("the driver's slice", 60, cluster.slices)
    wait_for("the kubelet to take the driver back", 60, lambda: guest.health("/healthz") == 200)
    _same_scene(cluster, mine, "fresh")
    expect(len(cluster.slices()) == 1, "one slice", f"{len(cluster.slices())} slices")


@case("containerd-restart", tier="smoke")
def containerd_restart(cluster):
    """The runtime restarts: the driver connects again and nothing moves."""
    mine = _scene(cluster)
    guest.run("svc restart containerd")
    wait_for("the node to be Ready again", 90, cluster.node_ready)
    cluster.wait_driver()
    _same_scene(cluster, mine, "fresh")


@case("node-power-cut")
def node_power_cut(cluster):
    """The node loses power: after the boot all pods are back and nothing overlaps."""
    mine = _scene(cluster)
    ids = {n: cluster.container_ids(cluster.get_pod(n))["c0"] for n in ("pinned", "shared")}
    guest.run("sync")
    guest.power_off(cut=True)
    guest.boot()

    def back(name):
        pod = cluster.get_pod(name)
        row = pod["status"]["containerStatuses"][0]
        return row.get("ready") and row["containerID"].split("//")[1] != ids[name]
    for name in ("pinned", "shared"):
        wait_for(f"{name} to run again after the boot", 150, lambda n=name: back(n), interval=0.5)
    cluster.wait_driver()
    again = cluster.seen("pinned")
    expect(again == mine, f"the pinned pod on {shown(mine)}", shown(again))
    _same_scene(cluster, mine, "fresh")


@case("cpu-hotplug")
def cpu_hotplug(cluster):
    """A CPU goes offline and comes back: slices follow, nobody is given it meanwhile, a claim on it heals."""
    cluster.pod("shared")
    cluster.claim("two", 2)
    cluster.pod("pinned", claims=["two"])
    cluster.wait_running("shared", "pinned")
    mine = cluster.seen("pinned")
    cpu = max(ALL_CPUS - mine)
    try:
        _set_online(cluster, cpu, False)
        cluster.claim("next", 2)
        cluster.pod("next", claims=["next"])
        cluster.pod("later")
        cluster.wait_running("next", "later")
        expect(cpu not in cluster.seen("next"), f"a claim without CPU {cpu}", shown(cluster.seen("next")))
        cluster.wait_seen("later", ALL_CPUS - mine - cluster.seen("next") - {cpu})
        _set_online(cluster, cpu, True)
        expect(cluster.seen("pinned") == mine, f"the claim on {shown(mine)}", shown(cluster.seen("pinned")))

        _set_online(cluster, max(mine), False)
        cluster.wait_seen("pinned", mine - {max(mine)})
        _set_online(cluster, max(mine), True)
        if cluster.nri_version() >= (0, 12, 1):
            cluster.wait_seen("pinned", mine)
    finally:
        guest.run(f"echo 1 >/sys/devices/system/cpu/cpu{cpu}/online; echo 1 >/sys/devices/system/cpu/cpu{max(mine)}/online",
                  check=False)


def _set_online(cluster, cpu, wanted):
    """Switches one CPU and waits for the slices to say so, 5 s at most."""
    guest.run(f"echo {int(wanted)} >/sys/devices/system/cpu/cpu{cpu}/online")

    def published():
        return sum(d["attributes"][k]["int"] for s in cluster.slices() for d in s["spec"]["devices"]
                   for k in d["attributes"] if k.removeprefix("dra.cpu/") == "numCPUs")
    offline = len(cpus(guest.read("cat /sys/devices/system/cpu/offline")))
    wait_for(f"slices of {len(ALL_CPUS) - offline} CPUs", 5, lambda: published() == len(ALL_CPUS) - offline)


@case("churn-containerd-20-restarts")
def churn_containerd(cluster):
    """containerd is killed 20 times while pods come and go: no CPU is in two hands, no claim moves."""
    cluster.claim("steady", 2)
    cluster.pod("steady", claims=["steady"])
    cluster.wait_running("steady")
    mine = cluster.seen("steady")
    steady = cluster.container_ids(cluster.get_pod("steady"))["c0"]
    alive = []
    for turn in range(20):
        alive.append(_arrival(cluster, turn))
        if turn % 3 == 2:
            guest.run("sleep 0.5")
        guest.run("svc kill containerd; svc start containerd")
        while len(alive) > 3:
            pod, claim = alive.pop(0)
            cluster.delete(pod, claims=[claim] if claim else [], grace=0, wait=False)
        sets = cluster.container_sets()
        expect(sets.get(steady) == mine, f"turn {turn}: the steady claim on {shown(mine)}",
               shown(sets.get(steady, ())))
    wait_for("the node to be Ready again", 120, cluster.node_ready)
    cluster.wait_driver(seconds=180)
    cluster.wait_running(*(pod for pod, _ in alive), seconds=180)
    owners = ["steady"] + [pod for pod, claim in alive if claim]
    _no_overlap(cluster, owners, [pod for pod, claim in alive if not claim])
    expect(cluster.seen("steady") == mine, f"the steady claim on {shown(mine)}", shown(cluster.seen("steady")))


def _arrival(cluster, turn):
    """Every second newcomer has a claim of one CPU."""
    name = f"churn-{turn}"
    claim = name if turn % 2 else None
    if claim:
        cluster.claim(claim, 1)
    cluster.pod(name, claims=[claim] if claim else [])
    return name, claim


def _no_overlap(cluster, owners, shared, seconds=30):
    """Settles first (updates travel), then judges every container of the node by its cgroup."""
    def judged():
        taken = set()
        for name in owners:
            own = cluster.seen(name)
            if own & taken:
                raise AssertionError(f"{name} overlaps another claim on {shown(own & taken)}")
            taken |= own
        owner_ids = {i for n in owners for i in cluster.container_ids(cluster.get_pod(n)).values()}
        shared_ids = {i for n in shared for i in cluster.container_ids(cluster.get_pod(n)).values()}
        shared_ids |= set(cluster.container_ids(cluster.driver_pod()).values()) - owner_ids
        sets = cluster.container_sets()
        for one in shared_ids:
            if one not in sets:
                raise AssertionError(f"shared container {one[:12]} has no cgroup")
            if sets[one] & taken:
                raise AssertionError(f"shared container {one[:12]} sits on exclusive {shown(sets[one] & taken)}")
        return True
    try:
        wait_for("no shared container on exclusive CPUs", seconds, judged, interval=1)
    except Problem:
        time.sleep(1)
        judged()
