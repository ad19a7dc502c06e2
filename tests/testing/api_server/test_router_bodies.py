"""Whatever a client sends, it gets an answer of the API: an object, or a status that says no."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resettle.testing import ManualClock, budget, cluster, definition, node, pod
from resettle.testing.api_server.objects.patches import JSON, MERGE, STRATEGIC
from resettle.testing.api_server.router import Request, RequestHandler, RequestTarget, read_target
from resettle.testing.api_server.status import Declined
from resettle.testing.api_server.storage.revisions import Storage
from resettle.testing.api_server.storage.store import Store

WEB = {"app": "web"}
OBJECTS = [
    *cluster(node("n1").holding(pod("a", labels=WEB)), pod("b")).objects,
    budget("web", allowed=1, labels=WEB),
    definition("Widget", group="example.com"),
    {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}},
    {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {}},
]
KEYS = (
    *("metadata", "spec", "status", "name", "labels", "containers", "resources", "limits", "cpu"),
    *("finalizers", "conditions", "type", "replicas", "selector", "target", "deleteOptions"),
    *("preconditions", "uid", "dryRun", "gracePeriodSeconds", "propagationPolicy", "op", "path"),
    *("value", "names", "versions", "group", "kind", "taints", "$patch", "resourceAttributes"),
)
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 40)
    | st.sampled_from(["", "a", "n1", "All", "add", "remove", "test", "/metadata", "/spec/x/0"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=25,
)
named = st.builds(
    lambda rest: {"metadata": {"name": "a"}, **rest},
    st.dictionaries(
        st.sampled_from(["spec", "status", "target", "deleteOptions"]), anything, max_size=3
    ),
)
PLACES = [
    ("POST", "/api/v1/namespaces/default/pods", ""),
    ("POST", "/api/v1/namespaces/default/pods/a/eviction", ""),
    ("POST", "/api/v1/namespaces/default/pods/b/binding", ""),
    ("POST", "/apis/apps/v1/namespaces/default/deployments", ""),
    ("POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", ""),
    ("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", ""),
    ("POST", "/apis/example.com/v1/namespaces/default/widgets", ""),
    ("POST", "/apis/events.k8s.io/v1/namespaces/default/events", ""),
    ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", ""),
    ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", ""),
    ("PUT", "/api/v1/namespaces/default/pods/a", ""),
    ("PUT", "/api/v1/namespaces/default/pods/a/status", ""),
    ("PUT", "/apis/apps/v1/namespaces/default/deployments/d/scale", ""),
    ("DELETE", "/api/v1/namespaces/default/pods/a", ""),
    ("DELETE", "/api/v1/namespaces/default/pods", ""),
    *(
        ("PATCH", path, media)
        for media in (MERGE, JSON, STRATEGIC)
        for path in (
            "/api/v1/nodes/n1",
            "/api/v1/namespaces/default/pods/a",
            "/api/v1/namespaces/default/pods/a/status",
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets/web/status",
            "/apis/apps/v1/namespaces/default/deployments/d/scale",
            "/apis/example.com/v1/namespaces/default/widgets/w",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com",
        )
    ),
]


@pytest.mark.parametrize(("method", "path", "media"), PLACES)
@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(body=anything | named | st.lists(anything, max_size=3))
def test_any_body_gets_an_answer_of_the_api(method: str, path: str, media: str, body: Any) -> None:
    ledger = Storage(ManualClock())
    Store(ledger, OBJECTS)
    target = read_target(ledger.catalogue, method, path, {})
    assert target is not None
    request = Request(query={}, media=media or "application/json", body=json.dumps(body).encode())

    answered = json.loads(answer_of(RequestHandler(ledger, [], ""), target, request))

    assert isinstance(answered, dict)
    for resource in ledger.catalogue:
        for entry in ledger.entries(resource):
            assert entry.copy()["metadata"]["name"]


def answer_of(desk: RequestHandler, target: RequestTarget, request: Request) -> bytes:
    try:
        return desk.answer(target, request).body
    except Declined as declined:
        return json.dumps(declined.status()).encode()
