# SPDX-License-Identifier: Apache-2.0
# Copyright The dracpu authors
"""Rights: what the driver may do, and what it asked for."""

import json

from e2e import control_plane
from e2e.base import log_dir
from e2e.cluster import expect
from e2e.registry import case

ACCOUNT = "system:serviceaccount:kube-system:dracpu"
ALLOWED = {("nodes", "get"), ("resourceclaims", "get"), ("events", "create"),
           *(("resourceslices", verb) for verb in ("list", "watch", "create", "update", "delete"))}
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete")
RESOURCES = ("nodes", "pods", "secrets", "configmaps", "events", "resourceslices.resource.k8s.io",
             "resourceclaims.resource.k8s.io", "deviceclasses.resource.k8s.io", "daemonsets.apps")


@case("rbac-least")
def rbac_least(cluster):
    """The driver works with the least rights: it has no others and was never refused one."""
    for resource in RESOURCES:
        for verb in VERBS:
            wanted = (resource.split(".")[0], verb) in ALLOWED
            review = cluster.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", {
                "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                "spec": {"user": ACCOUNT, "groups": ["system:serviceaccounts", "system:authenticated"],
                         "resourceAttributes": {"verb": verb, "resource": resource.split(".")[0],
                                                "group": resource.partition(".")[2], "namespace": "default"}}})
            seen = review["status"].get("allowed", False)
            expect(seen == wanted, f"{verb} {resource} {'allowed' if wanted else 'forbidden'}", seen)
    claim = cluster.claim("two", 2)
    cluster.pod("pinned", claims=["two"])
    cluster.wait_running("pinned")
    asked, refused = set(), []
    for line in (log_dir() / control_plane.AUDIT_LOG).read_text().splitlines():
        record = json.loads(line)
        target = record.get("objectRef")
        if target is None:
            continue
        asked.add((target["resource"], record["verb"]))
        if record.get("responseStatus", {}).get("code") in (401, 403):
            refused.append(record["requestURI"])
    expect(("resourceclaims", "get") in asked, f"a GET of claim {claim['metadata']['name']} in the audit log", asked)
    expect(asked <= ALLOWED, "no request beyond the granted rights", sorted(asked - ALLOWED))
    expect(not refused, "no refused request", refused[:3])
