# SPDX-License-Identifier: Apache-2.0
# Copyright The dracpu authors
"""What the documents tell people to type, typed."""

import pathlib
import re
import subprocess

from e2e import control_plane, guest, peers
from e2e.base import REPO, log_dir
from e2e.cluster import ALL_CPUS, cpus, expect, shown
from e2e.registry import case

IMAGE = "docker.io/library/busybox:1.36"  # of the examples; here it is our probe, which has busybox in it
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


def _type(line):
    kubectl = pathlib.Path(peers.path("kubectl"))
    env = control_plane.admin_env()
    env["PATH"] = f"{kubectl.parent}:{env['PATH']}"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=REPO, env=env, capture_output=True, text=True,
                          timeout=240, check=False)
    with (log_dir() / "documents.log").open("a") as log:
        log.write(f"$ {line}\n{done.stdout}{done.stderr}")
    expect(done.returncode == 0, f"success of: {line}", done.stderr.strip() or done.stdout.strip())
    return done.stdout


@case("quickstart")
def quickstart(cluster):
    """docs/user/quickstart.md, every command in order, word for word but for the registry."""
    guest.run(f"ctr -n k8s.io images tag --force localhost/e2e-probe:1 {IMAGE}")
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
