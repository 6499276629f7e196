# SPDX-License-Identifier: Apache-2.0
# Copyright The dracpu authors
"""Keys, certificates and kubeconfigs of one run; all made anew with openssl."""

import base64
import json

from e2e.base import command, log_dir

DAYS = "30"


class Authority:
    """One certificate authority in one folder."""

    def __init__(self, folder):
        self.folder = folder
        self.log = log_dir() / "certs.log"
        folder.mkdir(parents=True, exist_ok=True)
        self.ca = folder / "ca.crt"

    def create(self):
        key = self._key("ca")
        command(["openssl", "req", "-x509", "-new", "-key", key, "-subj", "/CN=e2e-ca", "-days", DAYS,
                 "-out", self.ca], self.log)

    def _key(self, name):
        target = self.folder / f"{name}.key"
        command(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", target], self.log)
        target.chmod(0o600)
        return target

    def issue(self, name, subject, names=()):
        """Signs a certificate for `subject`; with `names` it may serve as well."""
        key = self._key(name)
        request, extensions = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        lines = ["extendedKeyUsage=clientAuth,serverAuth"]
        if names:
            lines.append("subjectAltName=" + ",".join(names))
        extensions.write_text("\n".join(lines) + "\n")
        command(["openssl", "req", "-new", "-key", key, "-subj", subject, "-out", request], self.log)
        certificate = self.folder / f"{name}.crt"
        command(["openssl", "x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.folder / "ca.key",
                 "-CAcreateserial", "-days", DAYS, "-extfile", extensions, "-out", certificate], self.log)
        return certificate, key

    def service_account_pair(self):
        private, public = self.folder / "sa.key", self.folder / "sa.pub"
        command(["openssl", "genrsa", "-out", private, "2048"], self.log)
        command(["openssl", "rsa", "-in", private, "-pubout", "-out", public], self.log)
        return private, public

    def kubeconfig(self, name, server):
        """Writes NAME.kubeconfig with everything inside it."""
        def inline(file):
            return base64.b64encode(file.read_bytes()).decode()
        target = self.folder / f"{name}.kubeconfig"
        target.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "e2e",
            "clusters": [{"name": "e2e", "cluster": {
                "server": server, "certificate-authority-data": inline(self.ca)}}],
            "users": [{"name": name, "user": {
                "client-certificate-data": inline(self.folder / f"{name}.crt"),
                "client-key-data": inline(self.folder / f"{name}.key")}}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": name}}]}, indent=1))
        target.chmod(0o600)
        return target
