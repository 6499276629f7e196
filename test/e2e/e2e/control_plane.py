# SPDX-License-Identifier: Apache-2.0
# Copyright The dracpu authors
"""etcd, API server, controller manager and scheduler on 127.0.0.1."""

import json
import os
import shutil

from e2e import peers
from e2e.api import Api
from e2e.base import Processes, State, free_port, log_dir, run_dir, step, wait_for
from e2e.certs import Authority

NODE_NAME = "node-a"
NODES = (NODE_NAME, "node-b")  # node-b is for tools that need a second name
AUDIT_LOG = "audit.log"

# Only what the driver's own account does is recorded.
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "users": ["system:serviceaccount:kube-system:dracpu"]}, {"level": "None"}],
}


def start():
    """Starts all four and waits until the API answers; returns an Api."""
    place, logs, started = run_dir() / "control-plane", log_dir(), Processes()
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    ports = {name: free_port() for name in ("etcd", "etcd_peer", "api", "controllers", "scheduler")}
    State().update(ports=ports, node=NODE_NAME)
    with step("certificates", logs / "certs.log"):
        authority = _certificates(place / "pki", ports["api"])
    with step("etcd and API server", logs / "kube-apiserver.log"):
        _start_etcd(started, place, ports, logs)
        _start_api_server(started, place, ports, logs)
        api = Api(ports["api"], authority.folder)
        wait_for("the API server to be ready", 90, lambda: _ready(api, started))
    with step("controller manager and scheduler", logs / "kube-controller-manager.log"):
        _start_controllers(started, place, ports, logs)
        wait_for("the default service account", 60,
                 lambda: api.get_or_none("/api/v1/namespaces/default/serviceaccounts/default"))
    return api


def connect():
    """An Api for the control plane that is already running."""
    return Api(State().read()["ports"]["api"], run_dir() / "control-plane" / "pki")


def admin_kubeconfig():
    return run_dir() / "control-plane" / "pki" / "admin.kubeconfig"


def admin_env():
    """The environment of a client that may do everything."""
    return {**os.environ, "KUBECONFIG": str(admin_kubeconfig())}


def _ready(api, started):
    for name in ("etcd", "kube-apiserver"):
        if not started.alive(name):
            raise AssertionError(f"{name} has ended")
    return api.raw("GET", "/readyz")[0] == 200


def _certificates(folder, api_port):
    authority = Authority(folder)
    authority.create()
    authority.issue("apiserver", "/CN=kube-apiserver", (
        "DNS:localhost", "DNS:kubernetes", "DNS:kubernetes.default", "DNS:kubernetes.default.svc",
        "IP:127.0.0.1", "IP:10.0.2.2", "IP:10.96.0.1"))
    authority.issue("admin", "/O=system:masters/CN=admin")
    authority.issue("controllers", "/CN=system:kube-controller-manager")
    authority.issue("scheduler", "/CN=system:kube-scheduler")
    for node in NODES:
        authority.issue(node, f"/O=system:nodes/CN=system:node:{node}")
        authority.kubeconfig(node, f"https://10.0.2.2:{api_port}")
    for name in ("admin", "controllers", "scheduler"):
        authority.kubeconfig(name, f"https://127.0.0.1:{api_port}")
    authority.service_account_pair()
    return authority


def _start_etcd(started, place, ports, logs):
    client, peer = (f"http://127.0.0.1:{ports[name]}" for name in ("etcd", "etcd_peer"))
    started.start("etcd", [
        peers.path("etcd"), "--name=e2e", f"--data-dir={place / 'etcd'}", "--unsafe-no-fsync",
        f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=e2e={peer}",
    ], logs / "etcd.log")


def _start_api_server(started, place, ports, logs):
    pki = place / "pki"
    policy, hosts = place / "audit-policy.yaml", place / "hosts"
    policy.write_text(json.dumps(_AUDIT_POLICY))
    # The API server reaches a kubelet by its node's name. It sees a hosts file of
    # its own, in a mount namespace of its own, so the machine's is not touched.
    hosts.write_text("127.0.0.1 localhost\n" + "".join(f"127.0.0.{i} {n}\n" for i, n in enumerate(NODES, 1)))
    argv = [
        peers.path("kube-apiserver"), f"--etcd-servers=http://127.0.0.1:{ports['etcd']}",
        "--bind-address=127.0.0.1", f"--secure-port={ports['api']}", "--advertise-address=10.0.2.2",
        f"--tls-cert-file={pki / 'apiserver.crt'}", f"--tls-private-key-file={pki / 'apiserver.key'}",
        f"--client-ca-file={pki / 'ca.crt'}", "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction", "--allow-privileged",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki / 'sa.pub'}", f"--service-account-signing-key-file={pki / 'sa.key'}",
        f"--kubelet-client-certificate={pki / 'admin.crt'}", f"--kubelet-client-key={pki / 'admin.key'}",
        "--kubelet-preferred-address-types=Hostname",
        f"--audit-policy-file={policy}", f"--audit-log-path={logs / AUDIT_LOG}",
    ]
    wrapped = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', hosts, *argv]
    started.start("kube-apiserver", wrapped, logs / "kube-apiserver.log", proof="kube-apiserver")


def _start_controllers(started, place, ports, logs):
    pki = place / "pki"
    started.start("kube-controller-manager", [
        peers.path("kube-controller-manager"), f"--kubeconfig={pki / 'controllers.kubeconfig'}",
        f"--authentication-kubeconfig={pki / 'controllers.kubeconfig'}",
        f"--authorization-kubeconfig={pki / 'controllers.kubeconfig'}",
        "--bind-address=127.0.0.1", f"--secure-port={ports['controllers']}", "--leader-elect=false",
        "--use-service-account-credentials", f"--root-ca-file={pki / 'ca.crt'}",
        f"--service-account-private-key-file={pki / 'sa.key'}",
    ], logs / "kube-controller-manager.log")
    started.start("kube-scheduler", [
        peers.path("kube-scheduler"), f"--kubeconfig={pki / 'scheduler.kubeconfig'}",
        f"--authentication-kubeconfig={pki / 'scheduler.kubeconfig'}",
        f"--authorization-kubeconfig={pki / 'scheduler.kubeconfig'}",
        "--bind-address=127.0.0.1", f"--secure-port={ports['scheduler']}", "--leader-elect=false",
    ], logs / "kube-scheduler.log")
