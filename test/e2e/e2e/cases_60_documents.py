# SPDX-License-Identifier: Apache-2.0
# Copyright The dracpu authors
"""What the documents tell people to type, typed."""

import contextlib
import pathlib
import re
import shutil
import subprocess
import tempfile

from e2e import control_plane, peers
from e2e.base import REPO, State, log_dir, wait_for
from e2e.cluster import ALL_CPUS, NAMESPACE, PODS, cpus, expect, shown
from e2e.registry import case

# There is no registry here: the image of the driver is in the runtime already.
NOT_HERE = ("make image", "skopeo copy")


def _commands(document):
    """The indented lines of each section, by its heading."""
    out, heading = {}, ""
    for line in (REPO / document).read_text().splitlines():
        if line.startswith("## "):
            heading = line[3:]
        elif line.startswith("    ") and re.match(r"(kubectl|sed|make|skopeo) ", line.strip()):
            out.setdefault(heading, []).append(line.strip())
    return out


def _type(line, folder=REPO, *programs):
    env = control_plane.admin_env()
    env["PATH"] = ":".join(map(str, [peers.path("kubectl").parent, *programs, env["PATH"]]))
    done = subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=folder, env=env, capture_output=True, text=True,
                          timeout=240, check=False)
    with (log_dir() / "documents.log").open("a") as log:
        log.write(f"$ {line}\n{done.stdout}{done.stderr}")
    expect(done.returncode == 0, f"success of: {line}", done.stderr.strip() or done.stdout.strip())
    return done.stdout


@case("quickstart")
def quickstart(cluster):
    """docs/user/quickstart.md, every command in order, word for word but for the registry."""
    cluster.lend_image()
    said = {}
    try:
        for heading, lines in _commands("docs/user/quickstart.md").items():
            if heading.startswith("Remove"):
                continue
            for line in lines:
                if not line.startswith(NOT_HERE):
                    said[line] = _type(line.replace("REGISTRY/dracpu:dev", "localhost/dracpu:e2e"))
        offers = next(text for line, text in said.items() if "custom-columns" in line)
        expect("cpudevnuma000" in offers and "cpudevnuma001" in offers, "both NUMA nodes offered", offers)
        seen = {}
        for line, text in said.items():
            if found := re.match(r"kubectl exec (\w+) -- grep Cpus_allowed_list", line):
                seen[found[1]] = cpus(text.split(":")[1].strip())
        expect(len(seen["pinned"]) == 2, "2 CPUs for the pod of the quickstart", shown(seen["pinned"]))
        expect(seen["shared"] == ALL_CPUS - seen["pinned"], "the rest for the other", shown(seen["shared"]))
        for line in next(lines for heading, lines in _commands("docs/user/quickstart.md").items() if heading.startswith("Remove")):
            _type(line)
        expect(cluster.driver_pod() is None, "no driver after the removal", True)
    finally:
        cluster.kubectl("delete", "--ignore-not-found", "--wait=true", "-f", str(REPO / "docs/examples/two-cpus.yaml"), check=False)
        cluster.deploy_driver()
        cluster.wait_driver()


def _is_core(found):
    return len({n // 2 for n in found}) == 1


# Example -> the configuration it names, and what its pinned containers must see besides the number that they ask for.
EXAMPLES = {
    "two-cpus.yaml": (None, None),
    "named-claim.yaml": (None, None),
    "deployment.yaml": (None, None),
    "two-containers.yaml": (None, None),
    "first-available.yaml": (None, None),
    "numa-node.yaml": (None, ("CPUs of NUMA node 1", lambda found: found <= {4, 5, 6, 7})),
    "individual.yaml": ("config-individual.yaml", ("one core", _is_core)),
    "external-allocator.yaml": ("config-external.yaml", ("CPUs 2 and 3", lambda found: found == {2, 3})),
}
# Needs a network card whose driver publishes its PCIe root; the API server judges its form.
ONLY_ACCEPTED = {"nic-pcie-root.yaml"}
NOT_HERE_EITHER = {"external-allocated.yaml", "numa-memory.yaml"}  # for `dracpu plan`; the case memory has it


def _first_look(cluster, pod, container):
    line = cluster.log(pod, container).splitlines()[0]
    return cpus(line.split(":")[1].strip())


def _run_example(cluster, name, also):
    file = str(REPO / "docs/examples" / name)
    cluster.kubectl("apply", "-n", NAMESPACE, "-f", file)
    made = wait_for(f"pods of {name}", 30, lambda: [p["metadata"]["name"] for p in cluster.api.get(PODS)["items"]])
    pods = []
    for pod in made:
        cluster.wait_running(pod)
        pods.append(cluster.get_pod(pod))
    taken = set()
    for pod in pods:
        for container in pod["spec"]["containers"]:
            resources = container["resources"]
            if not resources.get("claims"):
                continue
            who = f"{name}: {pod['metadata']['name']}/{container['name']}"
            found = _first_look(cluster, pod["metadata"]["name"], container["name"])
            expect(len(found) == int(resources["requests"]["cpu"]), f"{who}: the CPUs it asks for", shown(found))
            expect(not found & taken, f"{who}: CPUs of its own", shown(found & taken))
            expect(also is None or also[1](found), f"{who}: {also and also[0]}", shown(found))
            taken |= found
    expect(taken, f"{name}: a container with CPUs of its own", "none")
    cluster.kubectl("delete", "-n", NAMESPACE, "--wait=true", "-f", file)
    cluster.settle()


@case("examples")
def examples(cluster):
    """docs/examples: each is applied with the configuration it names, and its containers see the CPUs they ask for."""
    cluster.lend_image()
    there = {p.name for p in (REPO / "docs/examples").glob("*.yaml") if not p.name.startswith("config-")}
    expect(there <= set(EXAMPLES) | ONLY_ACCEPTED | NOT_HERE_EITHER, "every example in the table", sorted(there))
    for name in ONLY_ACCEPTED:
        cluster.kubectl("apply", "-n", NAMESPACE, "--dry-run=server", "-f", str(REPO / "docs/examples" / name))
    for config in (None, "config-individual.yaml", "config-external.yaml"):
        with contextlib.ExitStack() as stack:
            if config:
                text = (REPO / "docs/examples" / config).read_text()
                # The name is for `dracpu plan`; the file says that a cluster does without it.
                stack.enter_context(cluster.configured(re.sub(r"^  name: worker-1\n", "", text, flags=re.M)))
            for name, (wanted, also) in EXAMPLES.items():
                if wanted == config:
                    _run_example(cluster, name, also)


# What is not typed here, and why. Everything else that the documents indent as a command is.
NOT_TYPED = (
    (r"^make image|^skopeo|^sed ", "there is no registry; the quickstart case types what follows"),
    (r"port-forward", "it does not end; the page is tested with a browser"),
    (r"^helm |^kubectl (apply|delete|debug) |^kubectl -n team ", "the cases quickstart, examples, chart-install and upgrade-* do it"),
    (r"^make manifests", "the case upgrade-manifest-to-helm does it"),
    (r"^echo 1 >/sys|^grep \. /sys", "on the node; the case cpu-hotplug does it"),
    (r"^dracpu upgrade|^dracpu cleanup", "the cases upgrade-* do it"),
    (r"docs/examples/two-cpus|^kubectl (wait|exec (pinned|shared))|rollout status daemonset/dracpu$", "the quickstart case"),
)
KNOWN = r"(kubectl|dracpu|helm|make|sed|skopeo|curl|grep|echo) "


def _documented():
    """Indented commands of all documents, with continued lines joined and comments taken off."""
    out = []
    for file in sorted((REPO / "docs/user").glob("*.md")):
        lines = iter(file.read_text().splitlines())
        for line in lines:
            if not re.match("    " + KNOWN, line):
                continue
            while line.endswith("\\"):
                line = line[:-1].rstrip() + " " + next(lines).strip()
            out.append((file.name, re.sub(r"\s{2,}#.*$", "", line.strip())))
    return out


@case("documents")
def documents(cluster):
    """Every command in docs/user is typed on the cluster, or named here with the reason why not."""
    work = pathlib.Path(tempfile.mkdtemp(prefix="dracpu-documents-"))
    try:
        (work / "config.yaml").write_text("apiVersion: v1alpha1\ngroupBy: numanode\n")
        (work / "old.yaml").write_text("apiVersion: v1alpha1\nreservedCPUs: \"0\"\n")
        example = (REPO / "docs/examples/named-claim.yaml").read_text()
        (work / "claims.yaml").write_text(re.sub(r'dra.cpu/cpu: "\d+"', 'dra.cpu/cpu: "1"', example))
        with cluster.configured((work / "config.yaml").read_text()):
            claim = cluster.claim("documented", 2)
            cluster.pod("documented", claims=["documented"])
            cluster.wait_running("documented")
            places = {
                r"\bDRIVER\b": cluster.driver_pod()["metadata"]["name"], r"-n NAMESPACE\b": "-n kube-system",
                r"daemonset/NAME\b": "daemonset/dracpu", r"exec POD\b": f"-n {NAMESPACE} exec documented",
                r"\bCLAIM_UID\b": claim["metadata"]["uid"], r"NODE:8080": f"127.0.0.1:{State().read()['guest_ports']['health']}",
                r"--claims FILE": "--claims claims.yaml", r"--config FILE": "--config config.yaml", r"(check|migrate) FILE": r"\1 config.yaml",
                r" \[FLAGS\]": "", r"--sysfs-root \S+": "--sysfs-root /",
            }
            typed = 0
            for _, line in _documented():
                if any(re.search(pattern, line) for pattern, _ in NOT_TYPED):
                    continue
                for place, value in places.items():
                    line = re.sub(place, value, line)
                _type(line, work, cluster.driver.parent)
                typed += 1
            expect(typed >= 30, "at least 30 commands", typed)
    finally:
        shutil.rmtree(work, ignore_errors=True)
