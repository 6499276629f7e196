# SPDX-License-Identifier: Apache-2.0
# Copyright The dracpu authors
"""Placement: who gets which CPUs, and what is refused."""

from e2e import guest
from e2e.base import wait_for
from e2e.cluster import ALL_CPUS, SLICES, expect, shown
from e2e.registry import Skip, case


@case("pinned-and-shared", tier="smoke")
def pinned_and_shared(cluster):
    """A claim of 2 CPUs pins its container; a best-effort pod is kept off them."""
    cluster.pod("before")
    cluster.wait_running("before")
    cluster.wait_seen("before", ALL_CPUS)
    cluster.claim("two", 2)
    cluster.pod("pinned", claims=["two"])
    cluster.wait_running("pinned")
    mine = cluster.seen("pinned")
    expect(len(mine) == 2, "2 CPUs in the pinned container", shown(mine))
    expect("mems=" in cluster.log("pinned"), "a report of memory nodes", cluster.log("pinned"))
    cluster.pod("after")
    cluster.wait_running("after")
    cluster.wait_seen("before", ALL_CPUS - mine)
    cluster.wait_seen("after", ALL_CPUS - mine)


@case("claims-disjoint")
def claims_disjoint(cluster):
    """Two claims never share a CPU."""
    for name in ("one", "two"):
        cluster.claim(name, 2)
        cluster.pod(name, claims=[name])
    cluster.wait_running("one", "two")
    one, two = cluster.seen("one"), cluster.seen("two")
    expect(len(one) == 2 and len(two) == 2, "2 CPUs each", f"{shown(one)} and {shown(two)}")
    expect(not one & two, "no CPU in both", f"{shown(one)} and {shown(two)}")


@case("release-returns-cpus")
def release_returns_cpus(cluster):
    """After a claim ends, new containers see all CPUs, and running ones grow where the runtime allows."""
    cluster.claim("two", 2)
    cluster.pod("pinned", claims=["two"])
    cluster.pod("shared")
    cluster.wait_running("pinned", "shared")
    mine = cluster.seen("pinned")
    cluster.wait_seen("shared", ALL_CPUS - mine)
    cluster.delete("pinned", claims=["two"])
    cluster.pod("later")
    cluster.wait_running("later")
    cluster.wait_seen("later", ALL_CPUS)
    if cluster.nri_version() >= (0, 12, 1):
        cluster.wait_seen("shared", ALL_CPUS, seconds=20)


@case("malformed-variable-refused")
def malformed_variable_refused(cluster):
    """A container with a DRA_CPUSET_ variable that is no CPU set is not created."""
    cluster.pod("bad", env={"DRA_CPUSET_FOO": "abc"})
    cluster.wait_refused("bad", r"DRA_CPUSET|cpuset|malformed|parse")


@case("forged-variable-refused")
def forged_variable_refused(cluster):
    """A container that makes up a claim's variable, or copies a real one, is not created."""
    cluster.pod("forged", env={"DRA_CPUSET_11111111-2222-3333-4444-555555555555": "0-1"})
    claim = cluster.claim("two", 2)
    cluster.pod("owner", claims=["two"])
    cluster.wait_running("owner")
    mine = cluster.seen("owner")
    cluster.pod("thief", env={f"DRA_CPUSET_{claim['metadata']['uid']}": shown(mine)})
    cluster.wait_refused("forged", r"claim|prepared|CPUSET")
    cluster.wait_refused("thief", r"claim|own|CPUSET")
    expect(cluster.seen("owner") == mine, f"the owner on {shown(mine)}", shown(cluster.seen("owner")))


@case("sharing-refused")
def sharing_refused(cluster):
    """A claim belongs to one container: a second one, in the same pod or another, is refused."""
    cluster.claim("inpod", 2)
    cluster.pod("twins", claims=["inpod"], containers=[{}, {}])
    cluster.claim("across", 2)
    cluster.pod("first", claims=["across"])
    cluster.wait_running("first")
    cluster.pod("second", claims=["across"])
    cluster.wait_refused("twins", r"claim|own")
    cluster.wait_refused("second", r"claim|own")
    expect(len(cluster.seen("first")) == 2, "the first owner keeps 2 CPUs", shown(cluster.seen("first")))


@case("crash-restart-keeps-cpus")
def crash_restart_keeps_cpus(cluster):
    """A container that crashes comes back on the same CPUs."""
    cluster.claim("two", 2)
    cluster.pod("crasher", claims=["two"], containers=[{
        "args": ["crash", "/keep/crashed"], "volumeMounts": [{"name": "keep", "mountPath": "/keep"}]}],
        volumes=[{"name": "keep", "emptyDir": {}}])

    def restarted():
        rows = (cluster.get_pod("crasher") or {}).get("status", {}).get("containerStatuses", [])
        return rows and rows[0]["restartCount"] >= 1 and rows[0].get("ready")
    wait_for("the crashed container to run again", 90, restarted)
    before = cluster.seen_in(cluster.log("crasher", previous=True), "crasher before the crash")
    after = cluster.seen("crasher")
    expect(before == after and len(after) == 2, f"the same 2 CPUs ({shown(before)})", shown(after))


@case("slices-documented-names")
def slices_documented_names(cluster):
    """Slices carry the documented device names, attributes and capacities, and heal when deleted."""
    _check_slices(cluster)
    old = cluster.slices()
    for row in old:
        cluster.api.delete(f"{SLICES}/{row['metadata']['name']}")
    gone = {row["metadata"]["uid"] for row in old}
    wait_for("a new slice after deletion by hand", 15,
             lambda: [s for s in cluster.slices() if s["metadata"]["uid"] not in gone])
    _check_slices(cluster)


def _check_slices(cluster):
    slices = cluster.slices()
    expect(len(slices) == 1, "one slice", f"{len(slices)} slices")
    spec = slices[0]["spec"]
    node = spec["nodeName"]
    expect(spec["pool"]["name"] == node, f"a pool named as the node, {node}", spec["pool"]["name"])
    devices = {d["name"]: d for d in spec["devices"]}
    expect(sorted(devices) == ["cpudevnuma000", "cpudevnuma001"], "cpudevnuma000 and cpudevnuma001", sorted(devices))
    for number, name in enumerate(sorted(devices)):
        device = devices[name]
        expect(device.get("allowMultipleAllocations") is True, f"{name} with allowMultipleAllocations", device)
        capacity = device["capacity"]
        amount = capacity.get("dra.cpu/cpu", capacity.get("cpu", {})).get("value")
        expect(amount == "4", f"{name} with 4 of dra.cpu/cpu", capacity)
        wanted = {
            "resource.kubernetes.io/numaNode": {"int": number}, "dra.cpu/socketID": {"int": number},
            "dra.cpu/numCPUs": {"int": 4}, "dra.cpu/smtEnabled": {"bool": True},
            "dra.cpu/numaNodeID": {"int": number}, "dra.net/numaNode": {"int": number},
        }
        seen = device["attributes"]
        for key, value in wanted.items():
            # The driver's own domain may be left out of a key: both name the same attribute.
            found = seen.get(key, seen.get(key.removeprefix("dra.cpu/")))
            expect(found == value, f"{name}: {key} = {value}", found)


@case("health-endpoints", tier="smoke")
def health_endpoints(cluster):
    """The driver answers on its health paths."""
    for path in sorted({"/healthz", *cluster.probe_paths}):
        expect(guest.health(path) == 200, f"200 from {path}", guest.health(path))


@case("too-much-refused")
def too_much_refused(cluster):
    """A claim that no NUMA node can hold stays pending and takes nothing."""
    cluster.claim("five", 5)
    cluster.pod("greedy", claims=["five"])
    wait_for("the scheduler to say that it does not fit", 30,
             lambda: "FailedScheduling" in cluster.events("greedy"))
    cluster.pod("shared")
    cluster.wait_running("shared")
    cluster.wait_seen("shared", ALL_CPUS)
    if cluster.get_pod("greedy")["spec"].get("nodeName"):
        raise Skip("the scheduler placed it")
