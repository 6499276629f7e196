# SPDX-License-Identifier: Apache-2.0
# Copyright The dracpu authors
"""Large messages between the runtime and the driver, in both directions."""

from e2e import guest
from e2e.base import wait_for
from e2e.cluster import ALL_CPUS, expect, shown
from e2e.registry import case

NOTE = 240 * 1024  # bytes of annotation in one pod; the API allows 256 KiB
ONE_MESSAGE, SPLIT = 16, 20  # pods: just under the 4 MiB of one message, and well over
CONTAINERS = 3  # in each pod, so that an owner's create answers with some 50 updates


@case("large-sync")
def large_sync(cluster):
    """Messages over 4096 bytes and near 4 MiB pass both ways: create, its large reply, Synchronize whole and split."""
    names = [f"big-{i}" for i in range(SPLIT)]
    for name in names[:ONE_MESSAGE]:
        _big_pod(cluster, name)
    cluster.wait_running(*names[:ONE_MESSAGE], seconds=240)
    # To the driver: a create with 240 KiB. From it: an update for every shared container.
    mine = _owner(cluster, "early")
    _all_shared(cluster, names[:ONE_MESSAGE], ALL_CPUS - mine)
    _reconnect(cluster)
    _all_shared(cluster, names[:ONE_MESSAGE], ALL_CPUS - mine)
    for name in names[ONE_MESSAGE:]:
        _big_pod(cluster, name)
    cluster.wait_running(*names[ONE_MESSAGE:], seconds=240)
    _reconnect(cluster)
    more = _owner(cluster, "late")
    expect(not more & mine, "claims apart", f"{shown(mine)} and {shown(more)}")
    _all_shared(cluster, names, ALL_CPUS - mine - more)


def _big_pod(cluster, name):
    cluster.pod(name, annotations={"e2e/weight": "x" * NOTE}, containers=[{}] * CONTAINERS)


def _owner(cluster, name):
    cluster.claim(name, 2)
    cluster.pod(name, claims=[name], annotations={"e2e/weight": "y" * NOTE})
    # The runtime tells the shared containers one by one before the owner starts: about a second each in this guest.
    cluster.wait_running(name, seconds=240)
    mine = cluster.seen(name)
    expect(len(mine) == 2, f"2 CPUs for {name}", shown(mine))
    return mine


def _reconnect(cluster):
    """The driver comes back and is told of everything at once."""
    old = cluster.driver_pod()["metadata"]["uid"]
    cluster.delete_driver_pod()
    cluster.wait_driver(other_than=old)
    log = guest.read("tail -n 400 /var/log/containerd.log")
    bad = [line for line in log.splitlines() if "message length" in line or "exceeds" in line and "nri" in line.lower()]
    expect(not bad, "no complaint of the runtime about message sizes", bad[-1:])


def _all_shared(cluster, names, wanted):
    ids = {i for n in names for i in cluster.container_ids(cluster.get_pod(n)).values()}
    expect(len(ids) == len(names) * CONTAINERS, f"{len(names) * CONTAINERS} containers", len(ids))

    def same():
        sets = cluster.container_sets()
        wrong = [f"{i[:12]} on {shown(sets.get(i, ()))}" for i in ids if sets.get(i) != wanted]
        if wrong:
            raise AssertionError(f"{len(wrong)} of {len(ids)} differ, first: {wrong[0]}")
        return True
    wait_for(f"all shared containers on {shown(wanted)}", 40, same, interval=1)
