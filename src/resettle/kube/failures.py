"""Errors for requests that failed: what was requested, why it failed, and what to do now.

Each is one line that an operator can act upon. Certificates need the most care: the line says which
one is meant, and when it expired.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from datetime import UTC, datetime
from urllib.parse import urlsplit

from resettle.errors import AnswerLost, ClusterError, ClusterUnreachable, Forbidden, Unauthorized
from resettle.kube.auth.access import Access
from resettle.kube.auth.tls import server_certificate_expiry
from resettle.kube.status import Answer, status_of

_ABOUT_US = re.compile(r"ALERT_(?:.*CERTIFICATE.*|UNKNOWN_CA|ACCESS_DENIED)")
"""TLS alerts from the server that are about our client certificate, or its absence."""
_BEFORE_TLS = (ConnectionRefusedError, socket.gaierror, TimeoutError)
_EXPIRED, _NOT_YET = 10, 9
"""OpenSSL's codes for a certificate that has expired, and for one that is not valid yet."""


def unreachable_error(access: Access, error: BaseException) -> ClusterUnreachable:
    """The error for a connection that could not be made or broke before an answer was due.

    If the server's certificate has expired, it is fetched once more to say when.
    """
    why, what_to_do = _why(access, error)
    return ClusterUnreachable(
        f"{access.server} cannot be reached: {why}; {what_to_do}",
        connection_refused=isinstance(_cause(error), ConnectionRefusedError),
    )


def unauthorized_error(
    access: Access, now: datetime | None = None, *, anonymous_name: str = ""
) -> Unauthorized:
    """The error for credentials that the API server does not accept, or did not get.

    `anonymous_name` is the user name that it gives to requests without credentials.
    """
    problem = f"{access.server} does not accept the credentials"
    if expired := _expiry_problem(access, now):
        return Unauthorized(f"{problem}: {expired}; renew it")
    if anonymous_name:
        place = access.source or "the kubeconfig"
        return Unauthorized(
            f"{access.server} takes us for {anonymous_name}; add a token, a client certificate "
            f"or an `exec` command to {place}"
        )
    return Unauthorized(f"{problem}; renew them")


def answer_lost_error(access: Access, error: BaseException) -> AnswerLost:
    """The error for a request that was sent and has no answer."""
    why = _expiry_problem(access) or describe_error(error)
    return AnswerLost(f"{access.server} gave no answer: {why}")


def describe_error(error: BaseException) -> str:
    """What went wrong, in the words of the operating system."""
    cause = _cause(error)
    if isinstance(cause, socket.gaierror):
        return f"its name is not known ({cause.strerror})"
    if isinstance(cause, TimeoutError) and not cause.errno:
        return "it does not answer in time"
    if isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError) and cause.errno:
        return os.strerror(cause.errno)
    return str(cause) or type(cause).__name__


def format_time(moment: datetime) -> str:
    """A time as messages write it."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def rejects_our_certificate(error: BaseException) -> bool:
    """Whether the server rejected our client certificate, and so never read the request."""
    cause = _cause(error)
    return isinstance(cause, ssl.SSLError) and bool(_ABOUT_US.search(cause.reason or ""))


def _why(access: Access, error: BaseException) -> tuple[str, str]:
    trouble = _cause(error)
    place = access.source or "the kubeconfig"
    if isinstance(trouble, ssl.SSLCertVerificationError):
        if trouble.verify_code == _EXPIRED:
            return f"its certificate expired{_when(access)}", "renew the certificate of the server"
        if trouble.verify_code == _NOT_YET:
            return "its certificate is not valid yet", "compare the clocks of both machines"
        return (
            f"its certificate is not trusted ({trouble.verify_message})",
            f"check `certificate-authority` and `tls-server-name` in {place}",
        )
    # A server that rejects a certificate may close the connection without an alert.
    if not isinstance(trouble, _BEFORE_TLS) and (expired := _expiry_problem(access)):
        return expired, "renew it"
    if isinstance(trouble, ssl.SSLError) and rejects_our_certificate(trouble):
        alert = (trouble.reason or "").rpartition("ALERT_")[2].replace("_", " ").lower()
        return (
            f"it does not accept the client certificate ({alert})",
            f"check `client-certificate` in {place}",
        )
    return describe_error(error), "check the kubeconfig and network"


def _expiry_problem(access: Access, now: datetime | None = None) -> str:
    """What is wrong if the client certificate has expired, else empty."""
    ends = access.certificate_expires
    if ends is None or ends > (now or datetime.now(UTC)):
        return ""
    inside = f" in {access.source}" if access.source else ""
    return f"the client certificate{inside} expired at {format_time(ends)}"


def _when(access: Access) -> str:
    address = urlsplit(access.server)
    if access.proxy:
        return ""
    ends = server_certificate_expiry(
        address.hostname or "", address.port or 443, access.server_name
    )
    return f" at {format_time(ends)}" if ends else ""


def _cause(error: BaseException) -> BaseException:
    """The first error in the chain behind this one that says what happened."""
    for name in ("certificate_error", "os_error"):
        inner = getattr(error, name, None)
        if isinstance(inner, BaseException) and inner is not error:
            return _cause(inner)
    if error.__cause__ is not None and not isinstance(error, ssl.SSLError):
        return _cause(error.__cause__)
    return error


_ANONYMOUS = "system:anonymous"
_ADMISSION_POLICY = re.compile(r"ValidatingAdmissionPolicy '[^']*'")
"""It refuses by a rule on objects: no role would help."""
_WHO = re.compile(r'User "([^"]+)" cannot ')


def refusal_error(
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

    `verb` is an RBAC verb, `resource` a plural or `pods/eviction`, `group` empty for the core API.
    """
    status = status_of(answer)
    match answer.status:
        case 401:
            return unauthorized_error(access, now)
        case 403 if f'User "{_ANONYMOUS}" ' in status.message:
            return unauthorized_error(access, now, anonymous_name=_ANONYMOUS)
        case 403 if status.webhook is None and not _ADMISSION_POLICY.search(status.message):
            return Forbidden(missing_permission(status.message, verb, resource, group, namespace))
        case 404 if verb == "list":
            return ClusterError(f"{access.server} has no {resource}")
        case code:
            where = f" in namespace {namespace}" if namespace else ""
            request = f"{_a(verb)} of {resource}{where}"
            message = status.message or "nothing"
            return ClusterError(f"{access.server} answered {code} to {request}: {message}")


def role_rule(verb: str, resource: str, group: str = "") -> str:
    """The rule that grants a verb on a resource, as a role has it."""
    return f'apiGroups: ["{group}"], resources: ["{resource}"], verbs: ["{verb}"]'


def missing_permission(message: str, verb: str, resource: str, group: str, namespace: str) -> str:
    """The message for a missing permission; the server's `message` may name the user."""
    user = _WHO.search(message)
    who = f"{user[1]} " if user else ""
    of_group = f" of {group}" if group else ""
    where = f" in namespace {namespace}" if namespace else ""
    role = "Role" if namespace else "ClusterRole"
    return (
        f"{who}may not {verb} {resource}{of_group}{where}; "
        f"add to its {role}: {role_rule(verb, resource, group)}"
    )


def _a(verb: str) -> str:
    return f"an {verb}" if verb.startswith(("a", "e", "i", "o", "u")) else f"a {verb}"
