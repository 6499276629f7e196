# SPDX-License-Identifier: Apache-2.0
# Copyright The dracpu authors
"""The chart: what it renders, what it refuses, and a release of it on the cluster."""

import json
import shutil
import tempfile

from e2e import peers
from e2e.base import REPO, wait_for
from e2e.chart import CHART, helm
from e2e.cluster import expect, shown
from e2e.registry import Skip, case

NESTED = ("driverConfig.apiVersion=dracpu/v1beta1,driverConfig.kind=DriverConfiguration,"
          "driverConfig.node.reservedCPUs=none")
# As the Go driver's suite and the other cases look for it.
OURS = ("--set", "fullnameOverride=dracpu,podLabels.app=dracpu,image.repository=localhost/dracpu,image.tag=e2e")

# --set, words of the refusal
REFUSED = (
    ("image.repository=registry.k8s.io/dra-driver-cpu/dra-driver-cpu", ("image of the Go driver", "--reuse-values")),
    ("driverConfig.groupBy=machine", ("groupBy: machine", "driverConfig.allocator: external")),
    ("args.groupBy=machine", ("groupBy: machine", "driverConfig.allocator: external")),
    (NESTED + ",driverConfig.cpu.groupBy=machine", ("driverConfig.cpu.allocator: external",)),
    (NESTED + ",args.reservedCPUs=0-1", ("args.reservedCPUs", "exclude each other")),
    (NESTED + ",args.exposePCIeRoots=true", ("driverConfig.publish.pcieRoots",)),
    (NESTED + ",driverConfig.observe.bindAddress=:9090", ("healthzPort",)),
    (NESTED + ",driverConfig.groupBy=socket", ("groupBy",)),
    ("driverConfig.apiVersion=dracpu/v1beta1", ("driverConfig",)),
    ("driverConfig.allocator=internal", ("driverConfig",)),
    ("driverConfig.groupby=socket", ("driverConfig",)),
    ("extraArgs={--x}", ("extraArgs",)),
    ("image.digest=x", ("digest",)),
    ("rbac.extra=true", ("extra",)),
    ("resources.requests.gpu=1", ("gpu",)),
    ("image.pullPolicy=Sometimes", ("pullPolicy",)),
    ("args.logLevel=-1", ("logLevel",)),
    ("args.cpuDeviceMode=grouping", ("cpuDeviceMode",)),
    ("healthzPath=/health", ("healthzPath",)),
    ("healthzPort=0", ("healthzPort",)),
    ("kubeletRootDir=", ("empty",)),
    ("kubeletRootDir= /a", ("white space",)),
    ("kubeletRootDir=var/lib", ("absolute",)),
    ("kubeletrootdir=/a", ("kubeletRootDir",)),
    ("kubeletRootDir=/a$(b)", ("$(",)),
    ("kubeletRootDir=/" + "a" * 74, ("107",)),
    ("updateStrategy.maxSurge=1", ("standby.enabled",)),
    ("updateStrategy.maxSurge=1,standby.enabled=true", ("maxUnavailable: 0",)),
    ("updateStrategy.maxUnavailable=0", ("both be 0",)),
    ("tolerations[0].operator=Sometimes", ("tolerations",)),
)


def _yaml():
    """PyYAML of whatever Python runs this; the Debian package serves Debian's."""
    try:
        import yaml
    except ImportError:
        raise Skip("this Python has no yaml module (Debian package python3-yaml)") from None
    return yaml


def _render(*sets, chart=CHART):
    flags = [flag for s in sets for flag in ("--set", s)]
    done = helm("template", "r", chart, "--namespace", "kube-system", "--kube-version", peers.KUBERNETES, *flags)
    return {(o["kind"], o["metadata"]["name"]): o for o in _yaml().safe_load_all(done.stdout) if o}


def _daemonset(objects):
    return next(o for (kind, _), o in objects.items() if kind == "DaemonSet")


def _container(objects):
    return _daemonset(objects)["spec"]["template"]["spec"]["containers"][0]


@case("chart-templates")
def chart_templates(_):
    """The chart renders what 0.3.0 users expect, and refuses the rest with a sentence."""
    helm("lint", "--strict", CHART)
    plain = _render()
    kinds = sorted(kind for kind, _ in plain)
    expect(kinds == ["ClusterRole", "ClusterRoleBinding", "DaemonSet", "DeviceClass", "ServiceAccount"], "five objects", kinds)
    pod = _daemonset(plain)["spec"]["template"]["spec"]
    container = _container(plain)
    expect(container["args"] == ["/dracpu", "--v=4", "--bind-address=:8080", "--expose-pcie-roots=false"], "the arguments",
           container["args"])
    expect("ports" not in container, "no declared port", container)
    guard = container["securityContext"]
    expect(guard["readOnlyRootFilesystem"] and guard["capabilities"] == {"drop": ["ALL"]} and
           not guard["allowPrivilegeEscalation"] and not guard.get("privileged"), "no privilege", guard)
    expect(pod["hostNetwork"] and pod["priorityClassName"] == "system-node-critical", "host network, priority", pod)
    expect(_daemonset(plain)["spec"]["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": 1, "maxSurge": 0}, "no surge",
           _daemonset(plain)["spec"]["updateStrategy"])

    shown_config = _render("args.groupBy=socket", "driverConfig.groupBy=numanode", "driverConfig.reservedCPUs=0-1")
    config = _yaml().safe_load(shown_config[("ConfigMap", "r-dra-driver-cpu-config")]["data"]["config.yaml"])
    expect(config == {"groupBy": "socket", "reservedCPUs": "0-1"}, "args win over driverConfig", config)
    expect("--config=/etc/dracpu/config.yaml" in _container(shown_config)["args"], "the file is named", _container(shown_config)["args"])
    checksums = {_daemonset(_render(f"driverConfig.reservedCPUs={n}"))["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
                 for n in ("0-1", "0-3")}
    expect(len(checksums) == 2, "a change of the configuration restarts the pods", checksums)

    nested = _render(NESTED + ",driverConfig.publish.driverName=cpu.example.com,driverConfig.runtime.kubeletRootDir=/data/k,"
                     "driverConfig.observe.events=false")
    expect(("DeviceClass", "cpu.example.com") in nested, "the class has the driver's name", list(nested))
    mounts = {m["mountPath"] for m in _container(nested)["volumeMounts"]}
    expect({"/data/k/plugins", "/data/k/plugins_registry"} <= mounts, "the kubelet's folder of the configuration", mounts)
    rules = [r["resources"] for r in nested[("ClusterRole", "r-dra-driver-cpu")]["rules"]]
    expect(["events"] not in rules, "no right to write events when they are off", rules)

    surge = _render("updateStrategy.maxSurge=1,updateStrategy.maxUnavailable=0,standby.enabled=true")
    expect("exec" in _container(surge)["livenessProbe"], "probes that ask this very pod", _container(surge)["livenessProbe"])
    extras = _render("podMonitor.enabled=true,dashboard.enabled=true,admissionPolicy.enabled=true")
    wanted = {"PodMonitor", "ConfigMap", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    expect(wanted <= {kind for kind, _ in extras}, "what is optional", list(extras))
    json.loads(extras[("ConfigMap", "r-dra-driver-cpu-dashboard")]["data"]["dracpu.json"])
    for odd in ("global=null", "global.x=1", "kubeletRootDir=null", "kubeletRootDir=/a//b/", "kubeletRootDir=/a$b"):
        _render(odd)
    _reused_values()
    for sets, words in REFUSED:
        done = helm("template", "r", CHART, "--kube-version", peers.KUBERNETES, "--set", sets, check=False)
        expect(done.returncode != 0, f"refusal of {sets}", "rendered")
        for word in words:
            expect(word in done.stderr, f"{word!r} in the refusal of {sets}", done.stderr.strip()[-300:])


_OURS = 'device.driver == "dra.memory" && '
_HUGETLB = 'device.attributes["resource.kubernetes.io"].hugeTLB'


def _memory_classes(*sets):
    """Name and selector, white space made even, of each class but that of the CPUs."""
    found = {name: o["spec"]["selectors"] for (kind, name), o in _render(*sets).items()
             if kind == "DeviceClass" and name != "dra.cpu"}
    return {name: [" ".join(s["cel"]["expression"].split()) for s in selectors] for name, selectors in found.items()}


@case("chart-memory-classes")
def chart_memory_classes(_):
    """With memory on, and only then, the classes of memory, with the selectors that the standalone driver's claims need."""
    def of_pages(page):
        return [f'{_OURS}{_HUGETLB} && device.attributes["resource.kubernetes.io"].pageSize == "{page}"']

    usual = {"dra.memory": [f"{_OURS}!{_HUGETLB}"], "dra.hugepages-2m": of_pages("2Mi"), "dra.hugepages-1g": of_pages("1Gi")}
    further = {f"dra.hugepages-{name}": of_pages(page)
               for name, page in (("64k", "64Ki"), ("32m", "32Mi"), ("512m", "512Mi"), ("16g", "16Gi"))}
    on = NESTED + ",driverConfig.memory.enabled=true"
    all_sizes = "hugepageClasses={64k,32m,512m,16g}"
    for sets, wanted in (((), {}), ((NESTED,), {}), ((NESTED, all_sizes), {}), ((on,), usual), ((on, all_sizes), usual | further)):
        got = _memory_classes(*sets)
        expect(got == wanted, f"the memory classes with {' '.join(sets) or 'the defaults'}", got)
    done = helm("template", "r", CHART, "--kube-version", peers.KUBERNETES, "--set", "hugepageClasses={3m}", check=False)
    expect(done.returncode != 0 and "hugepageClasses" in done.stderr, "refusal of a size that no kernel has", done.stderr[-300:])


def _reused_values():
    """Values kept from release 0.2.0 or 0.3.0 lack everything that came later."""
    with tempfile.TemporaryDirectory() as place:
        old = shutil.copytree(CHART, f"{place}/chart")
        values = _yaml().safe_load((CHART / "values.yaml").read_text())
        for later in ("updateStrategy", "standby", "podMonitor", "dashboard", "admissionPolicy", "hostCgroups", "hugepageClasses"):
            del values[later]
        with open(f"{old}/values.yaml", "w", encoding="utf-8") as out:
            _yaml().safe_dump(values, out)
        expect(_render(chart=old) == _render(), "the same objects from older values", "others")


@case("chart-install")
def chart_install(cluster):
    """A release of the chart: install, upgrade with another configuration, roll back; claims keep their CPUs."""
    cluster.kubectl("delete", "-f", str(REPO / "deploy/manifest/dracpu.yaml"), "--wait=true")
    # Of a case that ran before: a release does not take over what it did not make.
    cluster.kubectl("delete", "configmap", "dracpu-config", "-n", "kube-system", "--ignore-not-found")
    try:
        helm("install", "cpu", CHART, "-n", "kube-system", *OURS, "--wait", "--timeout", "180s")
        cluster.wait_driver()
        cluster.claim("kept", 2)
        cluster.pod("kept", claims=["kept"])
        cluster.wait_running("kept")
        mine = cluster.seen("kept")
        expect(len(mine) == 2, "2 CPUs", shown(mine))
        free = next(c for c in range(7, -1, -1) if c not in mine)
        for what in (("upgrade", "cpu", CHART, "-n", "kube-system", *OURS, "--set-string", f"driverConfig.reservedCPUs={free}",
                      "--wait", "--timeout", "180s"), ("rollback", "cpu", "1", "-n", "kube-system", "--wait", "--timeout", "180s")):
            old = cluster.driver_pod()["metadata"]["uid"]
            helm(*what)
            wait_for("another driver pod", 60, lambda old=old: (cluster.driver_pod() or {"metadata": {"uid": old}})["metadata"]["uid"] != old)
            cluster.wait_driver(other_than=old)
            total = sum(int(d["capacity"]["dra.cpu/cpu"]["value"]) for s in cluster.slices() for d in s["spec"]["devices"])
            wanted = 7 if what[0] == "upgrade" else 8
            expect(total == wanted, f"{wanted} CPUs published after the {what[0]}", total)
            expect(cluster.seen("kept") == mine, f"the same CPUs after the {what[0]}", shown(cluster.seen("kept")))
        cluster.delete("kept", claims=["kept"])
    finally:
        cluster.settle()
        helm("uninstall", "cpu", "-n", "kube-system", "--wait", check=False)
        cluster.deploy_driver()
        cluster.wait_driver()
