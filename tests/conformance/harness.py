"""A namespace of a test's own, on whichever server, and short ways to fill it.

Pods name a scheduler that does not exist, so that only the test binds them. Budgets get the
status that their controller would compute, so that it makes no difference whether one runs.
"""

from __future__ import annotations

import secrets
from typing import Any

from tests.conformance.client import Client, Object, Reply

CORE = "/api/v1"
BUDGETS = "/apis/policy/v1"
NO_SCHEDULER = "nobody"


class Place:
    """A namespace, and the nodes made beside it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.mark = f"conformance-{secrets.token_hex(4)}"
        self.pods = f"{CORE}/namespaces/{self.mark}/pods"
        self.config_maps = f"{CORE}/namespaces/{self.mark}/configmaps"
        self.budgets = f"{BUDGETS}/namespaces/{self.mark}/poddisruptionbudgets"
        self.deployments = f"/apis/apps/v1/namespaces/{self.mark}/deployments"
        self._to_delete: list[str] = []

    def open(self) -> None:
        """Makes the namespace, and the account its pods run under."""
        made = self.client.post(f"{CORE}/namespaces", {"metadata": {"name": self.mark}})
        assert made.code == 201, made.body
        account = {"metadata": {"name": "default"}}
        self.client.post(f"{CORE}/namespaces/{self.mark}/serviceaccounts", account)

    def close(self) -> None:
        """Removes whatever was made."""
        for name in self.client.get(self.pods).names:
            self.client.patch(f"{self.pods}/{name}", {"metadata": {"finalizers": None}})
        self.client.delete(self.pods, gracePeriodSeconds=0)
        for path in [*reversed(self._to_delete), f"{CORE}/namespaces/{self.mark}"]:
            self.client.delete(path)

    def made(self, path: str, obj: Object, **query: Any) -> Object:
        """The object as the server has it, made outside the namespace and removed in the end."""
        reply = self.client.post(path, obj, **query)
        assert reply.code == 201, reply.body
        self._to_delete.append(f"{path}/{reply.body['metadata']['name']}")
        created: Object = reply.body
        return created

    def node(self, name: str = "node", **spec: Any) -> str:
        """The name of a new node."""
        full = f"{self.mark}-{name}"
        metadata = {"name": full, "labels": {"made-for": self.mark}}
        self.made(f"{CORE}/nodes", {"metadata": metadata, "spec": spec})
        return full

    def pod(self, name: str, *, labels: Object | None = None, **metadata: Any) -> Object:
        """A new pod that is not bound."""
        body = pod_body(name, labels=labels, **metadata)
        reply = self.client.post(self.pods, body)
        assert reply.code == 201, reply.body
        created: Object = reply.body
        return created

    def running(
        self,
        name: str,
        node: str,
        *,
        labels: Object | None = None,
        ready: bool = True,
        phase: str = "Running",
        **metadata: Any,
    ) -> Object:
        """A new pod, bound to the node, with a status that says it runs."""
        self.pod(name, labels=labels, **metadata)
        bound = self.bind(name, node)
        assert bound.code == 201, bound.body
        condition = {"type": "Ready", "status": str(ready)}
        status = {"phase": phase, "conditions": [condition]}
        patched = self.client.patch(f"{self.pods}/{name}/status", {"status": status})
        assert patched.code == 200, patched.body
        started: Object = patched.body
        return started

    def bind(self, name: str, node: str) -> Reply:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"kind": "Node", "name": node},
        }
        return self.client.post(f"{self.pods}/{name}/binding", body)

    def evict(self, name: str, options: Object | None = None, **query: Any) -> Reply:
        body: Object = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        if options is not None:
            body["deleteOptions"] = options
        return self.client.post(f"{self.pods}/{name}/eviction", body, **query)

    def budget(
        self,
        name: str,
        *,
        labels: Object,
        least: int,
        healthy: int,
        of: int | None = None,
        **spec: Any,
    ) -> None:
        """A budget that wants `least` pods, sees `healthy` ones of so many, and says so."""
        wanted = {"minAvailable": least, "selector": {"matchLabels": labels}, **spec}
        made = self.client.post(self.budgets, {"metadata": {"name": name}, "spec": wanted})
        assert made.code == 201, made.body
        status = {
            "observedGeneration": made.body["metadata"]["generation"],
            "desiredHealthy": least,
            "currentHealthy": healthy,
            "expectedPods": healthy if of is None else of,
            "disruptionsAllowed": max(0, healthy - least),
        }
        patched = self.client.patch(f"{self.budgets}/{name}/status", {"status": status})
        assert patched.code == 200, patched.body

    def allowed(self, name: str) -> int:
        """How many disruptions a budget allows by now."""
        return int(self.client.get(f"{self.budgets}/{name}").body["status"]["disruptionsAllowed"])


def pod_body(name: str, *, labels: Object | None = None, **metadata: Any) -> Object:
    """A pod as a client sends it."""
    return {
        "metadata": {"name": name, "labels": labels or {}, **metadata},
        "spec": {
            "schedulerName": NO_SCHEDULER,
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": "registry.example/app:1"}],
        },
    }


def config_map(name: str, *, labels: Object | None = None, **data: str) -> Object:
    """The plainest object there is."""
    return {"metadata": {"name": name, "labels": labels or {}}, "data": data}
