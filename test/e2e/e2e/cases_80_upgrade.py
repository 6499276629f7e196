# SPDX-License-Identifier: Apache-2.0
# Copyright The dracpu authors
"""Every step of docs/user/upgrading.md, executed: who owned the node meanwhile, and what running pods noticed."""

import json
import os
import tempfile

from e2e import control_plane, guest, peers
from e2e.base import REPO, command, wait_for
from e2e.chart import CHART, predecessor_chart
from e2e.cluster import ALL_CPUS, CLAIMS, DRIVER_IMAGE, NAMESPACE, expect, shown
from e2e.registry import case
from e2e.upgrade import (GO_IMAGE, NEXT_IMAGE, ask, cdi_files, drivers, load_predecessor, move, on_node, owner_is_there,
                         set_image, take, without_driver)

OURS = set_image(DRIVER_IMAGE)
STANDBY = ("--set", "standby.enabled=true,updateStrategy.maxSurge=1,updateStrategy.maxUnavailable=0")


def _config(*settings):
    return tuple(word for s in settings for word in ("--set-string", f"driverConfig.{s}"))


NESTED = _config("apiVersion=dracpu/v1beta1", "kind=DriverConfiguration", "node.reservedCPUs=none")


def _name_next():
    guest.run(f"ctr -n k8s.io images tag --force {DRIVER_IMAGE} {NEXT_IMAGE}")


@case("upgrade-go-0.2.0")
def upgrade_go(cluster):
    """The Go release 0.2.0 to ours, back, and again, by helm upgrade and rollback with claims changing at each stage."""
    load_predecessor()
    with without_driver(cluster) as releases:
        releases.install("cpu", predecessor_chart(), *set_image(GO_IMAGE))
        take(cluster, "one")
        take(cluster, "two")
        cluster.pod("plain")
        cluster.wait_running("plain")

        refused = releases.upgrade("cpu", CHART, "--reset-then-reuse-values", "--set", "image.repository=x/dra-driver-cpu/dra-driver-cpu",
                                   check=False)
        expect(refused.returncode != 0 and "image of the Go driver" in refused.stderr, "a refusal that names the image", refused.stderr)
        with move(cluster, "Go 0.2.0 to ours, helm upgrade with its values"):
            releases.upgrade("cpu", CHART, "--reset-then-reuse-values", *OURS)
        take(cluster, "three")
        cluster.delete("one", claims=["one"])

        with move(cluster, "ours to Go 0.2.0, helm rollback"):
            releases.rollback("cpu", 1)
        cluster.delete("two", claims=["two"])
        take(cluster, "four")

        with move(cluster, "Go 0.2.0 to ours again"):
            releases.upgrade("cpu", CHART, "--reset-then-reuse-values", *OURS)
        take(cluster, "five")
        cluster.delete("three", "four", "five", claims=["three", "four", "five"])
        wait_for("no file of a claim that is gone", 30, lambda: not [f for f in cdi_files() if "claim" in f])


@case("upgrade-own")
def upgrade_own(cluster):
    """Ours to the next version, without and with a standby, and back."""
    _name_next()
    with without_driver(cluster) as releases:
        releases.install("cpu", CHART, *OURS)
        take(cluster, "kept")
        cluster.pod("plain")
        cluster.wait_running("plain")
        with move(cluster, "ours to next, no standby"):
            releases.upgrade("cpu", CHART, *set_image(NEXT_IMAGE))
        with move(cluster, "next to ours, helm rollback"):
            releases.rollback("cpu", 1)
        with move(cluster, "standby switched on"):
            releases.upgrade("cpu", CHART, *OURS, *STANDBY)
        with move(cluster, "ours to next, with a standby"):
            releases.upgrade("cpu", CHART, *set_image(NEXT_IMAGE), *STANDBY)
        take(cluster, "later")


@case("upgrade-config")
def upgrade_config(cluster):
    """The flat configuration to dracpu/v1beta1, and individual mode to an external allocator, under running claims."""
    with without_driver(cluster) as releases:
        releases.install("cpu", CHART, *OURS, *_config("reservedCPUs=0"))
        take(cluster, "kept")
        with move(cluster, "configuration v1alpha1 to v1beta1"):
            releases.upgrade("cpu", CHART, *OURS, *NESTED[:-2], *_config("node.reservedCPUs=0"))
        take(cluster, "later")
        cluster.delete("kept", "later", claims=["kept", "later"])

        releases.upgrade("cpu", CHART, *OURS, *_config("cpuDeviceMode=individual"))
        owner_is_there(cluster)
        cluster.api.create(CLAIMS, {
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "single"},
            "spec": {"devices": {"requests": [{"name": "cpus", "exactly": {"deviceClassName": "dra.cpu", "count": 2}}]}}})
        cluster.pod("single", claims=["single"])
        cluster.wait_running("single")
        with move(cluster, "individual to external, a claim running"):
            releases.upgrade("cpu", CHART, *OURS, *_config("groupBy=machine", "allocator=external"))
        wait_for("the machine as a device", 30,
                 lambda: [d["name"] for s in cluster.slices() for d in s["spec"]["devices"]] == ["cpudevmachine"])


@case("upgrade-legacy-manifest")
def upgrade_legacy(cluster):
    """The manifest of old (selector app: dracpu, one CDI file for all claims) to the chart: adopted, then cleaned."""
    load_predecessor()
    manifest = (REPO / "deploy/manifest/dracpu.yaml").read_text().replace(DRIVER_IMAGE, GO_IMAGE)
    for ours in ("/livez", "/readyz"):
        manifest = manifest.replace(f"path: {ours},", "path: /healthz,")
    with without_driver(cluster) as releases:
        cluster.kubectl("apply", "-f", "-", stdin=manifest)
        owner_is_there(cluster)
        mine = take(cluster, "kept")
        with move(cluster, "manifest of 0.1.0 to the chart"):
            cluster.kubectl("delete", "--wait=true", "-f", "-", stdin=manifest)
            wait_for("the old driver to be gone", 60, lambda: not drivers(cluster))
            _leave_as_0_1_0()
            releases.install("cpu", CHART, *OURS)
        expect(not mine & take(cluster, "later"), "other CPUs for the next claim", shown(mine))
        cluster.delete("kept", "later", claims=["kept", "later"])
        wait_for("no CDI file left", 30, lambda: not cdi_files())


def _leave_as_0_1_0():
    """The claims' files of later releases put together in the one file of release 0.1.0."""
    names = [n for n in cdi_files() if "claim" in n]
    expect(names, "CDI files of the old driver", cdi_files())
    devices = [d for n in names for d in json.loads(guest.read(f"cat /var/run/cdi/{n}"))["devices"]]
    kind = json.loads(guest.read(f"cat /var/run/cdi/{names[0]}"))["kind"]
    guest.run("umask 077; cat >/var/run/cdi/dra.cpu.json",
              stdin=json.dumps({"cdiVersion": "0.8.0", "kind": kind, "devices": devices}).encode())
    guest.run("cd /var/run/cdi && rm -f " + " ".join(f"'{n}'" for n in names))


@case("upgrade-from-0.3.0-traces")
def upgrade_from_0_3_0_traces(cluster):
    """What release 0.3.0 leaves, device metadata and a claim it forgot included: adopted, restarted with, cleaned."""
    forgotten = "0f0f0f0f-0000-4000-8000-000000000030"
    with without_driver(cluster) as releases:
        # Ours stands in for 0.3.0 before the kubelet: it answers with the same CDI ids. The files are then written anew.
        releases.install("cpu", CHART, *OURS)
        mine = take(cluster, "kept")
        cluster.pod("plain")
        cluster.wait_running("plain")
        uid = cluster.api.get(f"{CLAIMS}/kept")["metadata"]["uid"]
        with move(cluster, "traces of 0.3.0 to the chart"):
            releases.uninstall("cpu")
            wait_for("the driver to be gone", 60, lambda: not drivers(cluster))
            _leave_as_0_3_0({"kept": (uid, mine), "forgotten": (forgotten, sorted(ALL_CPUS - mine)[:2])})
            releases.install("cpu", CHART, *OURS)
        wait_for("the claim that only metadata names to be released", 60, lambda: not _traces(forgotten, "forgotten"))
        cluster.wait_seen("plain", ALL_CPUS - mine)

        # The container starts again with the ids that the kubelet remembers, so both files have to be there.
        guest.run(f"kill -9 {cluster.process_of('kept')}")
        wait_for("the container to be started again", 90, lambda: _restarts(cluster, "kept") == 1)
        cluster.wait_seen("kept", mine)
        text = guest.read(f"cat /proc/{cluster.process_of('kept')}/root/{_inside('kept')}")
        expect(json.loads(text)["metadata"]["uid"] == uid, f"the metadata of claim {uid} in the container", text)
        expect(not mine & take(cluster, "later"), "other CPUs for the next claim", shown(mine))
        cluster.delete("kept", "later", claims=["kept", "later"])
        wait_for("no trace of the claim", 30, lambda: not _traces(uid, "kept"))


CDI, PLUGIN = "/var/run/cdi", "/var/lib/kubelet/plugins/dra.cpu"


def _inside(claim):
    return f"/var/run/kubernetes.io/dra-device-attributes/resourceclaims/{claim}/cpus/dra.cpu-metadata.json"


def _leave_as_0_3_0(claims):
    """Nothing of ours stays on the node; in its place the three files that 0.3.0 writes for each claim, by its own layout."""
    guest.run(f"rm -rf {CDI} {PLUGIN} /var/lib/kubelet/plugins/dracpu; mkdir -p {CDI}; mkdir -m 0750 {PLUGIN}")
    for name, (uid, numbers) in claims.items():
        folder = f"{PLUGIN}/dra-device-metadata/{NAMESPACE}_{name}/cpus"
        guest.run(f"mkdir -p {folder}")
        for path, indent, content in (
            (f"{CDI}/dra.k8s.io-cpu_claim-{uid}.json", None, {
                "cdiVersion": "0.8.0", "kind": "dra.k8s.io/cpu", "containerEdits": {}, "devices": [
                    {"name": f"claim-{uid}", "containerEdits": {"env": [f"DRA_CPUSET_{uid}={shown(numbers)}"]}}]}),
            (f"{folder}/metadata.json", None, {
                "kind": "DeviceMetadata", "apiVersion": "metadata.resource.k8s.io/v1beta1",
                "metadata": {"name": name, "namespace": NAMESPACE, "uid": uid, "generation": 1},
                "requests": [{"name": "cpus", "devices": [
                    {"driver": "dra.cpu", "pool": control_plane.NODE_NAME, "name": "cpudevnuma000",
                     "attributes": {"dra.cpu/allocatedNumCPUs": {"int": len(numbers)}}}]}]}),
            (f"{CDI}/dra.cpu_metadata_{uid}_cpus.json", 2, {
                "cdiVersion": "0.5.0", "kind": "dra.cpu/metadata", "containerEdits": {}, "devices": [
                    {"name": f"{uid}_cpus", "containerEdits": {"mounts": [
                        {"hostPath": f"{folder}/metadata.json", "containerPath": _inside(name), "options": ["ro", "bind"]}]}}]}),
        ):
            guest.run(f"cat >{path}", stdin=(json.dumps(content, indent=indent) + "\n").encode())


def _traces(uid, claim):
    return guest.read(f"ls -d {CDI}/*{uid}* {PLUGIN}/dra-device-metadata/*_{claim} 2>/dev/null; true").split()


def _restarts(cluster, pod):
    row = ((cluster.get_pod(pod) or {}).get("status", {}).get("containerStatuses") or [{}])[0]
    return row.get("restartCount") if row.get("ready") else None


@case("upgrade-two-releases")
def upgrade_two_releases(cluster):
    """Two installs by mistake: the second waits, says whom for, and takes over when the first goes."""
    with without_driver(cluster) as releases:
        releases.install("cpu", CHART, *OURS)
        take(cluster, "kept")

        def second_waits(_):
            wait_for("the second driver to wait", 60, lambda: any(
                "Another instance owns this node" in text for text in _logs(cluster)))

        with move(cluster, "a second install beside ours", settled=second_waits):
            cluster.kubectl("apply", "-f", str(REPO / "deploy/manifest/dracpu.yaml"))
        with move(cluster, "the first of two uninstalled"):
            releases.uninstall("cpu")
            # The class went with the release that made it.
            cluster.kubectl("apply", "-f", str(REPO / "deploy/manifest/dracpu.yaml"))
        take(cluster, "later")


def _logs(cluster):
    out = []
    for pod in drivers(cluster):
        status, text = cluster.api.raw("GET", f"/api/v1/namespaces/kube-system/pods/{pod['metadata']['name']}/log")
        if status < 300:
            out.append(text)
    return out


@case("upgrade-manifest-to-helm")
def upgrade_manifest_to_helm(cluster):
    """The rendered manifest is taken over by Helm, the DeviceClass included; then the chart is renamed."""
    command([REPO / "tools/manifests", *OURS], env=_with_helm())
    rendered = REPO / "dist/dracpu.yaml"
    with without_driver(cluster) as releases:
        cluster.kubectl("apply", "-f", str(rendered))
        owner_is_there(cluster)
        take(cluster, "kept")
        with move(cluster, "rendered manifest to Helm, --take-ownership"):
            releases.install("dracpu", CHART, *OURS, "--take-ownership")
        with move(cluster, "chart renamed: uninstall, install under another name"):
            releases.uninstall("dracpu")
            releases.install("cpu", CHART, *OURS, "--set", "nameOverride=cpus")
        take(cluster, "later")


def _with_helm():
    peers.build(["helm"])
    return {**os.environ, "HELM": str(peers.path("helm"))}


@case("upgrade-reinstall")
def upgrade_reinstall(cluster):
    """Uninstalled while claims run, then installed: what runs keeps its CPUs, what ends meanwhile waits for a driver."""
    with without_driver(cluster) as releases:
        releases.install("cpu", CHART, *OURS)
        take(cluster, "kept")
        take(cluster, "ended")
        with move(cluster, "uninstall under claims, then install"):
            releases.uninstall("cpu")
            releases.install("cpu", CHART, *OURS)
        releases.uninstall("cpu")
        # Without a driver the kubelet cannot unprepare: the pod stays until one is back.
        cluster.delete("ended", wait=False)
        releases.install("cpu", CHART, *OURS)
        wait_for("the pod that ended without a driver to go", 90, lambda: cluster.get_pod("ended") is None)
        take(cluster, "later")

        # The last uninstall, and what the node keeps.
        status, text = on_node(cluster, "cleanup")
        expect(status == 3, "no cleanup under a working driver", text)
        cluster.delete("kept", "later", claims=["kept", "ended", "later"])
        releases.uninstall("cpu")
        status, text = on_node(cluster, "cleanup", "--apply")
        expect(status == 0, "a clean node", text)
        left = guest.read("find /var/lib/kubelet/plugins /var/lib/kubelet/plugins_registry /var/run/cdi -name '*dra*'; true")
        expect(not left.strip(), "nothing of the driver on the node", left)


@case("upgrade-check")
def upgrade_check(cluster):
    """dracpu upgrade check against a cluster with the Go driver: what would break is found, and nothing else."""
    load_predecessor()
    with without_driver(cluster) as releases:
        releases.install("cpu", predecessor_chart(), *set_image(GO_IMAGE))
        status, text = ask(cluster, "upgrade", "check")
        expect(status == 0, "nothing that breaks", text)
        cluster.api.create(CLAIMS, {
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "twice"},
            "spec": {"devices": {"requests": [{"name": "cpus", "exactly": {"deviceClassName": "dra.cpu", "count": 2}}]}}})
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as values:
            values.write("driverConfig: {groupBy: machine}\nextraArgs: [--v=9]\nupdateStrategy: {maxSurge: 1}\n"
                         "image: {repository: registry.example/dra-driver-cpu/dra-driver-cpu}\n")
            values.flush()
            status, text = ask(cluster, "upgrade", "check", "--values", values.name, "-o", "json")
        found = {(f["severity"], f["id"]) for f in json.loads(text)["findings"]}
        wanted = {("error", name) for name in ("machine-without-external", "machine-count", "chart-value-unknown", "go-image",
                                               "surge-without-standby")}
        expect(status == 3 and wanted <= found, wanted, found)


@case("upgrade-identity")
def upgrade_identity(cluster):
    """The driver gets another name: not while claims hold devices of the old one; then moved, and cleaned up after."""
    name = "cpu.example.com"
    identity = ("upgrade", "identity", "--to", name)
    with without_driver(cluster) as releases:
        releases.install("cpu", CHART, *OURS, *NESTED)
        take(cluster, "kept")
        cluster.pod("plain")
        cluster.wait_running("plain")
        status, text = ask(cluster, *identity)
        expect(status == 3 and "e2e/kept" in text, "a refusal that names the claim", text)
        cluster.delete("kept", claims=["kept"])
        status, text = ask(cluster, *identity, "--apply")
        expect(status == 3, "no removal while the old name is at work", text)
        with move(cluster, "driver name dra.cpu to cpu.example.com", settled=lambda c: owner_is_there(c, name)):
            releases.upgrade("cpu", CHART, *OURS, *NESTED, *_config(f"publish.driverName={name}"))
        status, text = ask(cluster, *identity, "--apply")
        expect(status == 0 and not cluster.slices(), "no slice of the old name", text)
        status, text = on_node(cluster, "cleanup", "--driver", "dra.cpu", "--apply")
        expect(status == 0, "the old name's files removed", text)
        cluster.api.create(CLAIMS, {
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "new"},
            "spec": {"devices": {"requests": [{"name": "cpus", "exactly": {
                "deviceClassName": name, "capacity": {"requests": {f"{name}/cpu": "2"}}}}]}}})
        cluster.pod("new", claims=["new"])
        cluster.wait_running("new")
        expect(len(cluster.seen("new")) == 2, "2 CPUs under the new name", shown(cluster.seen("new")))
        cluster.delete("new", claims=["new"])
        # Back, so that the suite's own driver finds what it left.
        releases.upgrade("cpu", CHART, *OURS, *NESTED)
        owner_is_there(cluster)
        status, text = ask(cluster, "upgrade", "identity", "--from", name, "--to", "dra.cpu", "--apply")
        expect(status == 0, "the new name's slices removed", text)
        status, text = on_node(cluster, "cleanup", "--driver", name, "--apply")
        expect(status == 0, "the new name's files removed", text)
