"""The error for an answer that nobody counted on: what was asked for, and what to do now.

Why the API server could not be reached or would not have us, in one line a person can act upon.

Certificates get most of the words: which one it is about, and when it ended if that is the matter.
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
"""Alerts are what the other side says; these are about the certificate it was shown, or was not."""
_BEFORE_TLS = (ConnectionRefusedError, socket.gaierror, TimeoutError)
_EXPIRED, _NOT_YET = 10, 9
"""OpenSSL's numbers for a certificate that has ended, and for one that has not begun."""


def unreachable_error(access: Access, error: BaseException) -> ClusterUnreachable:
    """The error for a connection that could not be made or broke before an answer was due.

    Asks the server for its certificate once more if that has expired, to say when.
    """
    why, what_to_do = _why(access, error)
    return ClusterUnreachable(
        f"{access.server} cannot be reached: {why}; {what_to_do}",
        connection_refused=isinstance(_cause(error), ConnectionRefusedError),
    )


def unauthorized_error(
    access: Access, now: datetime | None = None, *, anonymous_name: str = ""
) -> Unauthorized:
    """The error for credentials that the API server does not accept, or never saw.

    `taken_for` is what it calls those who come without.
    """
    told = f"{access.server} does not accept the credentials"
    if expired := _expired(access, now):
        return Unauthorized(f"{told}: {expired}; renew it")
    if anonymous_name:
        place = access.source or "the kubeconfig"
        return Unauthorized(
            f"{access.server} takes us for {anonymous_name}; add a token, a client certificate "
            f"or an `exec` command to {place}"
        )
    return Unauthorized(f"{told}; renew them")


def answer_lost_error(access: Access, error: BaseException) -> AnswerLost:
    """The error for a request that went out and has no answer."""
    why = _expired(access) or describe_error(error)
    return AnswerLost(f"{access.server} gave no answer: {why}")


def describe_error(error: BaseException) -> str:
    """What went wrong, in the system's own words."""
    cause = _cause(error)
    if isinstance(cause, socket.gaierror):
        return f"its name is not known ({cause.strerror})"
    if isinstance(cause, TimeoutError) and not cause.errno:
        return "it does not answer in time"
    if isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError) and cause.errno:
        return os.strerror(cause.errno)
    return str(cause) or type(cause).__name__


def format_time(moment: datetime) -> str:
    """A moment as messages write it."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def rejects_our_certificate(error: BaseException) -> bool:
    """Whether the server turned down our certificate, and so never read what was asked."""
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
    # Whoever hangs up on a certificate may not get round to saying so.
    if not isinstance(trouble, _BEFORE_TLS) and (expired := _expired(access)):
        return expired, "renew it"
    if isinstance(trouble, ssl.SSLError) and rejects_our_certificate(trouble):
        told = (trouble.reason or "").rpartition("ALERT_")[2].replace("_", " ").lower()
        return (
            f"it does not accept the client certificate ({told})",
            f"check `client-certificate` in {place}",
        )
    return describe_error(error), "check the kubeconfig and network"


def _expired(access: Access, now: datetime | None = None) -> str:
    ends = access.certificate_expires
    if ends is None or ends > (now or datetime.now(UTC)):
        return ""
    inside = f" in {access.source}" if access.source else ""
    return f"the client certificate{inside} expired at {format_time(ends)}"


def _when(access: Access) -> str:
    address = urlsplit(access.server)
    if access.proxy:
        return ""
    ends = server_certificate_expiry(address.hostname or "", address.port or 443, access.server_name)
    return f" at {format_time(ends)}" if ends else ""


def _cause(error: BaseException) -> BaseException:
    """The first of the errors behind an error that says what happened."""
    for name in ("certificate_error", "os_error"):
        inner = getattr(error, name, None)
        if isinstance(inner, BaseException) and inner is not error:
            return _cause(inner)
    if error.__cause__ is not None and not isinstance(error, ssl.SSLError):
        return _cause(error.__cause__)
    return error


_NOBODY = "system:anonymous"
_GUARD = re.compile(r"ValidatingAdmissionPolicy '[^']*'")
"""Who refuses by a rule on objects: no role would help."""
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

    `verb` is that of roles, `resource` a plural or `pods/eviction`, `group` empty for the core.
    """
    status = status_of(answer)
    match answer.status:
        case 401:
            return unauthorized_error(access, now)
        case 403 if f'User "{_NOBODY}" ' in status.message:
            return unauthorized_error(access, now, anonymous_name=_NOBODY)
        case 403 if status.webhook is None and not _GUARD.search(status.message):
            return Forbidden(missing_permission(status.message, verb, resource, group, namespace))
        case 404 if verb == "list":
            return ClusterError(f"{access.server} has no {resource}")
        case code:
            deed = f"{_a(verb)} of {resource}" + (f" in namespace {namespace}" if namespace else "")
            said = status.message or "nothing"
            return ClusterError(f"{access.server} answered {code} to {deed}: {said}")


def role_rule(verb: str, resource: str, group: str = "") -> str:
    """The rule that grants it, as it stands in a role."""
    return f'apiGroups: ["{group}"], resources: ["{resource}"], verbs: ["{verb}"]'


def missing_permission(message: str, verb: str, resource: str, group: str, namespace: str) -> str:
    """The line for a right that is missing; `message` may tell who lacks it."""
    found = _WHO.search(message)
    who = f"{found[1]} " if found else ""
    of_group = f" of {group}" if group else ""
    where = f" in namespace {namespace}" if namespace else ""
    role = "Role" if namespace else "ClusterRole"
    return (
        f"{who}may not {verb} {resource}{of_group}{where}; "
        f"add to its {role}: {role_rule(verb, resource, group)}"
    )


def _a(verb: str) -> str:
    return f"an {verb}" if verb.startswith(("a", "e", "i", "o", "u")) else f"a {verb}"
