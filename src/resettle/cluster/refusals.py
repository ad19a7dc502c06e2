"""The error for an answer that nobody counted on: what was asked for, and what to do now."""

from __future__ import annotations

import re
from datetime import datetime

from resettle.cluster.access import Access
from resettle.cluster.statuses import Answer, status_of
from resettle.cluster.troubles import unauthorized
from resettle.errors import ClusterError, Forbidden

_NOBODY = "system:anonymous"
_GUARD = re.compile(r"ValidatingAdmissionPolicy '[^']*'")
"""Who refuses by a rule on objects: no role would help."""
_WHO = re.compile(r'User "([^"]+)" cannot ')


def refused(
    answer: Answer,
    verb: str,
    resource: str,
    *,
    access: Access,
    group: str = "",
    namespace: str = "",
    now: datetime | None = None,
) -> ClusterError:
    """The error for an unexpected answer to a request to do `verb` on `resource`.

    `verb` is that of roles, `resource` a plural or `pods/eviction`, `group` empty for the core.
    """
    status = status_of(answer)
    match answer.status:
        case 401:
            return unauthorized(access, now)
        case 403 if f'User "{_NOBODY}" ' in status.message:
            return unauthorized(access, now, taken_for=_NOBODY)
        case 403 if status.webhook is None and not _GUARD.search(status.message):
            return Forbidden(forbidden(status.message, verb, resource, group, namespace))
        case 404 if verb == "list":
            return ClusterError(f"{access.server} has no {resource}")
        case code:
            deed = f"{_a(verb)} of {resource}" + (f" in namespace {namespace}" if namespace else "")
            said = status.message or "nothing"
            return ClusterError(f"{access.server} answered {code} to {deed}: {said}")


def rule(verb: str, resource: str, group: str = "") -> str:
    """The rule that grants it, as it stands in a role."""
    return f'apiGroups: ["{group}"], resources: ["{resource}"], verbs: ["{verb}"]'


def forbidden(message: str, verb: str, resource: str, group: str, namespace: str) -> str:
    """The line for a right that is missing; `message` may tell who lacks it."""
    found = _WHO.search(message)
    who = f"{found[1]} " if found else ""
    of_group = f" of {group}" if group else ""
    where = f" in namespace {namespace}" if namespace else ""
    role = "Role" if namespace else "ClusterRole"
    return (
        f"{who}may not {verb} {resource}{of_group}{where}; "
        f"add to its {role}: {rule(verb, resource, group)}"
    )


def _a(verb: str) -> str:
    return f"an {verb}" if verb.startswith(("a", "e", "i", "o", "u")) else f"a {verb}"
