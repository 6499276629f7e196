# SPDX-License-Identifier: Apache-2.0
# Copyright The dracpu authors
"""A small JSON client for the API server, with the admin's certificate."""

import http.client
import json
import ssl


class ApiError(AssertionError):
    def __init__(self, status, text):
        super().__init__(f"API answered {status}: {text[:400]}")
        self.status = status


class Api:
    def __init__(self, port, pki):
        self.port = port
        self.context = ssl.create_default_context(cafile=pki / "ca.crt")
        self.context.load_cert_chain(pki / "admin.crt", pki / "admin.key")

    def raw(self, method, path, body=None, content_type="application/json"):
        """One request; returns status and text."""
        link = http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context, timeout=30)
        try:
            data = json.dumps(body) if body is not None else None
            link.request(method, path, data, {"Content-Type": content_type} if data else {})
            answer = link.getresponse()
            return answer.status, answer.read().decode(errors="replace")
        finally:
            link.close()

    def call(self, method, path, body=None, content_type="application/json"):
        status, text = self.raw(method, path, body, content_type)
        if status >= 300:
            raise ApiError(status, text)
        return json.loads(text)

    def get(self, path):
        return self.call("GET", path)

    def get_or_none(self, path):
        try:
            return self.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def create(self, path, body):
        return self.call("POST", path, body)

    def patch(self, path, body):
        return self.call("PATCH", path, body, "application/merge-patch+json")

    def delete(self, path, grace=None):
        """Deletes; an object that is not there is fine."""
        suffix = "" if grace is None else f"?gracePeriodSeconds={grace}"
        status, text = self.raw("DELETE", path + suffix)
        if status >= 300 and status != 404:
            raise ApiError(status, text)
