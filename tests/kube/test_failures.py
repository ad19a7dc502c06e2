"""The error for an unexpected answer."""

from __future__ import annotations

import pytest

from resettle.errors import ClusterError, Forbidden, Unauthorized
from resettle.kube.auth.access import Access
from resettle.kube.failures import refusal_error
from resettle.kube.status import Answer
from tests.kube.test_status import EVACUATION, answer

ACCESS = Access(server="https://api.example")
RBAC = (
    'poddisruptionbudgets.policy is forbidden: User "system:serviceaccount:ops:mover" cannot list '
    'resource "poddisruptionbudgets" in API group "policy" at the cluster scope'
)
GUARD = (
    "nodes \"n1\" is forbidden: ValidatingAdmissionPolicy 'soft-tainter' with binding "
    "'soft-tainter' denied request: only soft taints"
)


@pytest.mark.parametrize(
    ("given", "about", "kind", "says"),
    [
        pytest.param(
            answer(403, RBAC),
            ("list", "poddisruptionbudgets", "policy", ""),
            Forbidden,
            "system:serviceaccount:ops:mover may not list poddisruptionbudgets of policy; "
            'add to its ClusterRole: apiGroups: ["policy"], resources: ["poddisruptionbudgets"], '
            'verbs: ["list"]',
            id="403 by the rules: who, what, and the rule",
        ),
        pytest.param(
            answer(403, "no"),
            ("update", "leases", "coordination.k8s.io", "ops"),
            Forbidden,
            "may not update leases of coordination.k8s.io in namespace ops; add to its Role: "
            'apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["update"]',
            id="403 in one namespace",
        ),
        pytest.param(
            answer(403, EVACUATION),
            ("create", "pods/eviction", "", "shop"),
            ClusterError,
            "https://api.example answered 403 to a create of pods/eviction in namespace shop: "
            f"{EVACUATION}",
            id="403 by a webhook: no rule would help",
        ),
        pytest.param(
            answer(403, GUARD),
            ("patch", "nodes", "", ""),
            ClusterError,
            f"https://api.example answered 403 to a patch of nodes: {GUARD}",
            id="403 by an admission policy: no rule would help either",
        ),
        pytest.param(
            answer(403, RBAC.replace("serviceaccount:ops:mover", "anonymous")),
            ("list", "poddisruptionbudgets", "policy", ""),
            Unauthorized,
            "https://api.example takes us for system:anonymous; add a token, a client certificate "
            "or an `exec` command to the kubeconfig",
            id="403 to an anonymous user: no rule would be wise",
        ),
        pytest.param(
            Answer(401, b"Unauthorized"),
            ("list", "pods", "", ""),
            Unauthorized,
            "https://api.example does not accept the credentials; renew them",
            id="401",
        ),
        pytest.param(
            Answer(404, b"404 page not found"),
            ("list", "widgets", "example.com", ""),
            ClusterError,
            "https://api.example has no widgets",
            id="404 to a list",
        ),
        pytest.param(
            answer(404, 'pods "a" not found'),
            ("get", "pods", "", "shop"),
            ClusterError,
            "https://api.example answered 404 to a get of pods in namespace shop: "
            'pods "a" not found',
            id="404 to anything else",
        ),
        pytest.param(
            Answer(502, b""),
            ("list", "pods", "", ""),
            ClusterError,
            "https://api.example answered 502 to a list of pods: nothing",
            id="no words at all",
        ),
    ],
)
def test_an_unexpected_answer_says_what_to_do(
    given: Answer, about: tuple[str, str, str, str], kind: type[ClusterError], says: str
) -> None:
    verb, resource, group, namespace = about

    error = refusal_error(given, verb, resource, access=ACCESS, group=group, namespace=namespace)

    assert (type(error), str(error)) == (kind, says)
