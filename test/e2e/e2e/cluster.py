# SPDX-License-Identifier: Apache-2.0
# Copyright The dracpu authors
"""What the cases work with: pods, claims, the driver, and CPU lists."""

import contextlib
import json
import pathlib
import re

from e2e import control_plane, guest, images, peers
from e2e.api import ApiError
from e2e.base import REPO, BedProblem, Problem, State, command, digest, log_dir, run_dir, step, wait_for

DRIVER_IMAGE = "localhost/dracpu:e2e"
NAMESPACE = "e2e"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
CLAIMS = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
DRIVER_PODS = "/api/v1/namespaces/kube-system/pods?labelSelector=app%3Ddracpu"
ALL_CPUS = frozenset(range(8))


def cpus(text):
    """Reads a Linux CPU list such as "0-2,5"."""
    result = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        result.update(range(int(first), int(last or first) + 1))
    return frozenset(result)


def shown(numbers):
    return ",".join(str(n) for n in sorted(numbers)) or "none"


def expect(condition, expected, seen):
    if not condition:
        raise AssertionError(f"expected {expected}; seen {seen}")


class Cluster:
    """One bed with one driver in it."""

    def __init__(self, driver, probe_paths=("/livez", "/readyz")):
        self.driver = pathlib.Path(driver)
        self.probe_paths = probe_paths
        self.api = None

    # -- bring-up ---------------------------------------------------------------------------------

    def driver_archive(self):
        """The driver's image, made by the same script that makes the released one."""
        if not self.driver.is_file():
            raise Problem(f"There is no driver binary at {self.driver}; build it first or name one with --driver.")
        target = run_dir() / "driver.tar"
        with step("driver image", log_dir() / "driver-image.log"):
            command([REPO / "deploy/image/build", "--binary", self.driver, "--output", target,
                     "--name", DRIVER_IMAGE], log_dir() / "driver-image.log")
        return target

    def up(self):
        """Brings up the bed, which is none of the driver's business, and then the driver."""
        try:
            self._bed_up()
        except Problem as problem:
            raise BedProblem(str(problem)) from problem
        with step("driver deployed", log_dir() / "driver.log"):
            self.deploy_driver()
            self.wait_driver()
        State().update(driver=digest(self.driver))

    def _bed_up(self):
        archive = self.driver_archive()
        self.api = control_plane.start()
        guest.start(archive)
        with step("node ready", log_dir() / "kubelet.log"):
            wait_for("the node to be Ready", 240, self.node_ready, interval=0.5)
            wait_for("images in the runtime", 120,
                     lambda: guest.run("test -e /run/images-done", check=False)[0] == 0, interval=0.5)
        self.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})

    def attach(self):
        """Takes the bed that `up` left; brings the driver up to date if it changed."""
        self.api = control_plane.connect()
        self.settle()
        if State().read().get("driver") == digest(self.driver):
            return
        archive = self.driver_archive()
        with step("driver replaced in the running bed"):
            guest.put(archive, "/tmp/driver.tar")
            guest.run("ctr -n k8s.io images import /tmp/driver.tar && rm /tmp/driver.tar")
            self._replace_driver(None)
        State().update(driver=digest(self.driver))

    def kubectl(self, *arguments, stdin=None, check=True):
        return command([peers.path("kubectl"), *arguments], log_dir() / "kubectl.log", stdin=stdin,
                       env=control_plane.admin_env(), check=check)

    def node_ready(self):
        node = self.api.get_or_none(f"/api/v1/nodes/{control_plane.NODE_NAME}")
        conditions = (node or {}).get("status", {}).get("conditions", [])
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def deploy_driver(self, config=None):
        """Applies the manifest; `config` is the text of a configuration file for the driver."""
        text = (REPO / "deploy/manifest/dracpu.yaml").read_text()
        for documented, used in zip(("/livez", "/readyz"), self.probe_paths):
            text = text.replace(f"path: {documented},", f"path: {used},")
        if config is not None:
            self.kubectl("apply", "-f", "-", stdin=json.dumps({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dracpu-config", "namespace": "kube-system"},
                "data": {"config.yaml": config}}))
            text = text.replace("            - --bind-address=:8080\n",
                                "            - --bind-address=:8080\n"
                                "            - --config=/etc/dracpu/config.yaml\n")
            text = text.replace("          volumeMounts:\n", "          volumeMounts:\n            - name: config\n"
                                "              mountPath: /etc/dracpu\n")
            text = text.replace("      volumes:\n", "      volumes:\n        - name: config\n"
                                "          configMap: { name: dracpu-config }\n")
        self.kubectl("apply", "-f", "-", stdin=text)

    @contextlib.contextmanager
    def configured(self, config):
        """The driver with another configuration, and as it was afterwards."""
        self._replace_driver(config)
        try:
            yield
        finally:
            self.settle()
            self._replace_driver(None)

    def _replace_driver(self, config):
        old = self.driver_pod()
        self.deploy_driver(config)
        # The API server may keep a DaemonSet as it is if only the ConfigMap changed: the pod goes in any case.
        self.delete_driver_pod()
        self.wait_driver(other_than=old and old["metadata"]["uid"])
        wait_for("the kubelet to know the driver", 60, lambda: guest.health("/readyz") == 200)

    # -- the driver ------------------------------------------------------------------------------

    def driver_pod(self):
        pods = [p for p in self.api.get(DRIVER_PODS)["items"] if "deletionTimestamp" not in p["metadata"]]
        return pods[0] if pods else None

    def wait_driver(self, other_than=None, seconds=120, min_restarts=0):
        """Waits for a ready driver pod (not the named one) and its slice."""
        def ready():
            pod = self.driver_pod()
            if not pod or pod["metadata"]["uid"] == other_than:
                return None
            status = (pod["status"].get("containerStatuses") or [{}])[0]
            if not status.get("ready") or status.get("restartCount", 0) < min_restarts:
                return None
            return pod
        pod = wait_for("the driver's pod to be ready", seconds, ready)
        wait_for("the driver's slice", 30, self.slices)
        return pod

    def delete_driver_pod(self):
        pod = self.driver_pod()
        if pod:
            self.api.delete(f"/api/v1/namespaces/kube-system/pods/{pod['metadata']['name']}")

    def driver_pid(self):
        text = guest.read("for d in /proc/[0-9]*; do [ \"$(cat $d/comm 2>/dev/null)\" = dracpu ] && "
                          "echo ${d#/proc/}; done; true").split()
        return int(text[0]) if text else None

    def slices(self):
        return [s for s in self.api.get(SLICES)["items"] if s["spec"]["driver"] == "dra.cpu"]

    # -- pods and claims -------------------------------------------------------------------------

    def claim(self, name, count):
        """Creates a claim of `count` CPUs; returns it with its uid."""
        return self.api.create(CLAIMS, {
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
            "spec": {"devices": {"requests": [{"name": "cpus", "exactly": {
                "deviceClassName": "dra.cpu", "capacity": {"requests": {"dra.cpu/cpu": str(count)}}}}]}}})

    def pod(self, name, claims=(), containers=None, annotations=None, restart="Always", env=None, args=(),
            volumes=(), node=None):
        """Creates a pod of probes. `containers` is a list of dicts that go over the plain one."""
        plain = {"image": images.PROBE, "imagePullPolicy": "Never",
                 **({"args": list(args)} if args else {}),
                 **({"env": [{"name": k, "value": v} for k, v in env.items()]} if env else {}),
                 **({"resources": {"claims": [{"name": c} for c in claims]}} if claims else {})}
        rows = [{"name": f"c{i}", **plain, **extra} for i, extra in enumerate(containers or [{}])]
        return self.api.create(PODS, {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "annotations": annotations or {}},
            "spec": {"terminationGracePeriodSeconds": 1, "restartPolicy": restart,
                     "automountServiceAccountToken": False, "enableServiceLinks": False, "dnsPolicy": "Default",
                     "resourceClaims": [{"name": c, "resourceClaimName": c} for c in claims],
                     "containers": rows, "volumes": list(volumes), **({"nodeName": node} if node else {})}})

    @staticmethod
    def lend_image():
        """The image of docs/examples; here it is our probe, which has busybox in it."""
        guest.run(f"ctr -n k8s.io images tag --force {images.PROBE} docker.io/library/busybox:1.36")

    def get_pod(self, name):
        return self.api.get_or_none(f"{PODS}/{name}")

    def wait_running(self, *names, seconds=90):
        """Waits until every container of the pods is ready; returns the last pod."""
        def running(name):
            pod = self.get_pod(name)
            rows = (pod or {}).get("status", {}).get("containerStatuses", [])
            if rows and all(r.get("ready") for r in rows):
                return pod
            raise AssertionError(f"{name}: {self.waiting_reason(pod) or 'not running yet'}")
        found = None
        for name in names:
            found = wait_for(f"pod {name} to run", seconds, lambda n=name: running(n))
        return found

    @staticmethod
    def waiting_reason(pod):
        for row in (pod or {}).get("status", {}).get("containerStatuses", []):
            waiting = row.get("state", {}).get("waiting")
            if waiting:
                return f"{waiting.get('reason')}: {waiting.get('message', '')}"
        return ""

    def events(self, name):
        rows = self.api.get(f"/api/v1/namespaces/{NAMESPACE}/events?fieldSelector=involvedObject.name%3D{name}")
        return "\n".join(f"{e['reason']}: {e.get('message', '')}" for e in rows["items"])

    def wait_refused(self, name, pattern, seconds=60):
        """Waits until an event of the pod says that its container was refused."""
        def refused():
            text = self.events(name)
            if re.search(pattern, text, re.I):
                return text
            raise AssertionError(text[-600:] or "no event yet")
        text = wait_for(f"pod {name} to be refused with /{pattern}/", seconds, refused)
        pod = self.get_pod(name)
        rows = pod["status"].get("containerStatuses", [])
        expect(not rows or not all(r.get("ready") for r in rows), f"pod {name} not running", "it runs")
        return text

    def delete(self, *pods, claims=(), grace=None, wait=True):
        for name in pods:
            self.api.delete(f"{PODS}/{name}", grace)
        if wait:
            for name in pods:
                wait_for(f"pod {name} to be gone", 90, lambda n=name: self.get_pod(n) is None)
        for name in claims:
            self.api.delete(f"{CLAIMS}/{name}")

    def settle(self):
        """Removes what a case left, so that the next begins with nothing."""
        names = [p["metadata"]["name"] for p in self.api.get(PODS)["items"]]
        for name in names:
            self.api.delete(f"{PODS}/{name}", 1)
        for name in names:
            wait_for(f"pod {name} to be gone", 300, lambda n=name: self.get_pod(n) is None)
        for claim in self.api.get(CLAIMS)["items"]:
            self.api.delete(f"{CLAIMS}/{claim['metadata']['name']}")
        wait_for("claims to be gone", 60, lambda: not self.api.get(CLAIMS)["items"])

    # -- what is seen inside ---------------------------------------------------------------------

    def log(self, pod, container="c0", previous=False):
        """A container's output; a kubelet that is just starting gets some time."""
        suffix = "&previous=true" if previous else ""

        def fetched():
            status, text = self.api.raw("GET", f"{PODS}/{pod}/log?container={container}{suffix}")
            if status >= 300:
                raise ApiError(status, text)
            return [text]
        return wait_for(f"the log of {pod}/{container}", 30, fetched, interval=0.5)[0]

    def seen(self, pod, container="c0"):
        """The CPUs that the probe inside the container last reported; a fresh one gets time for its first word."""
        who = f"{pod}/{container}"
        return wait_for(f"the report of {who}", 20, lambda: [self.seen_in(self.log(pod, container), who)])[0]

    @staticmethod
    def seen_in(log, who):
        """The last report in a probe's log; affinity and cpuset must agree in it."""
        lines = [line for line in log.splitlines() if line.startswith("cpus=")]
        if not lines:
            raise AssertionError(f"{who} has not reported yet")
        values = dict(word.split("=", 1) for word in lines[-1].split())
        if values["effective"] not in ("?", "") and cpus(values["effective"]) != cpus(values["cpus"]):
            raise AssertionError(f"{who}: affinity and cpuset differ: {lines[-1]}")
        return cpus(values["cpus"])

    def wait_seen(self, pod, wanted, seconds=20, container="c0"):
        def same():
            now = self.seen(pod, container)
            if now == wanted:
                return True
            raise AssertionError(f"{pod} sees {shown(now)}")
        wait_for(f"{pod} to see {shown(wanted)}", seconds, same)

    def container_sets(self):
        """Container id -> effective CPUs, read from the node's cgroups."""
        rows = (line.split() for line in guest.read("cpusets").splitlines())
        return {row[0]: cpus(row[1]) for row in rows if len(row) >= 2}

    @staticmethod
    def container_ids(pod):
        rows = (pod or {}).get("status", {}).get("containerStatuses", [])
        return {r["name"]: r["containerID"].split("//")[1] for r in rows if r.get("containerID")}

    def process_of(self, pod, container="c0"):
        """The first process of a container, as the node numbers it."""
        task = self.container_ids(self.get_pod(pod))[container]
        return int(guest.read(f"cat /run/containerd/io.containerd.runtime.v2.task/k8s.io/{task}/init.pid"))

    def nri_version(self):
        """The NRI library of the runtime, as far as its version tells."""
        modules = (pathlib.Path(__file__).resolve().parent.parent / "components/containerd/go.mod").read_text()
        found = re.search(r"github.com/containerd/nri v(\d+)\.(\d+)\.(\d+)", modules)
        return tuple(int(n) for n in found.groups())
