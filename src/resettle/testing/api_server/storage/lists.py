"""Lists, whole or page by page, and the selectors of lists and watches.

A `continue` token holds the version of the first page and the key of the next item, so that all
pages show one moment. Once that version is compacted, the token gets 410 and another token that
goes on from the same key with the current objects.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from resettle.errors import InputError
from resettle.model.selectors import EVERYTHING, Selector, parse_selector
from resettle.testing.api_server.objects.kinds import Resource
from resettle.testing.api_server.status import (
    bad_options,
    bad_request,
    expired_version,
    too_large_version,
)
from resettle.testing.api_server.storage.revisions import Compacted, Storage, StoredObject
from resettle.testing.api_server.storage.store import encode_list_item
from resettle.testing.builders import Object

_POD = (
    *("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"),
    *("status.phase", "status.podIP", "status.nominatedNodeName", "spec.hostNetwork"),
)
_SUBJECT = "kind namespace name uid apiVersion resourceVersion fieldPath".split()
_EVENT = ("reason", "type", "reportingComponent", "source")
FIELDS: dict[str, tuple[str, ...]] = {
    "Pod": _POD,
    "Node": ("spec.unschedulable",),
    "Event": (*(f"involvedObject.{field}" for field in _SUBJECT), *_EVENT),
    "Namespace": ("status.phase",),
    "Secret": ("type",),
    "ReplicaSet": ("status.replicas",),
    "ReplicationController": ("status.replicas",),
    "Job": ("status.successful",),
}
"""Fields that can be selected by, besides name and namespace."""
_FLAGS = frozenset({"spec.unschedulable", "spec.hostNetwork"})
_COUNTS = frozenset({"status.replicas"})
_ELSEWHERE = {"source": "source.component", "status.successful": "status.succeeded"}

Term = tuple[str, bool, str]


class Selection:
    """What a request selects."""

    def __init__(self, namespace: str, labels: Selector, fields: tuple[Term, ...]) -> None:
        self._within = f"{namespace}/" if namespace else ""
        self._labels = labels
        self._fields = fields

    @property
    def narrow(self) -> bool:
        """Whether a selector leaves anything out."""
        return self._labels != EVERYTHING or bool(self._fields)

    def selects(self, entry: StoredObject | None) -> bool:
        """Whether the entry is selected; none never is."""
        if entry is None or not entry.key.startswith(self._within):
            return False
        if self._labels != EVERYTHING and not self._labels.matches(entry.meta.get("labels") or {}):
            return False
        return all(
            (value_at(entry.object, field) == value) is wanted
            for field, wanted, value in self._fields
        )


def selection(resource: Resource, namespace: str, query: Mapping[str, str]) -> Selection:
    """What the query selects, or a refusal if it cannot be read."""
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    try:
        selector = parse_selector(labels)
    except InputError as error:
        raise bad_request(f"unable to parse requirement: {error}") from None
    return Selection(namespace, selector, _terms(resource, fields))


def _terms(resource: Resource, text: str) -> tuple[Term, ...]:
    terms: list[Term] = []
    for part in filter(None, text.split(",")):
        field, sign, value = _split(part)
        if not sign:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        if resource.group == "events.k8s.io":
            field = field.replace("regarding.", "involvedObject.")
            field = field.replace("reportingController", "reportingComponent")
        if not selectable(resource, field):
            raise bad_request(f"field label not supported: {field}")
        terms.append((field, sign != "!=", value))
    return tuple(terms)


def _split(part: str) -> tuple[str, str, str]:
    for sign in ("!=", "==", "="):
        field, separator, value = part.partition(sign)
        if separator:
            return field.strip(), sign, value.strip()
    return part, "", ""


def selectable(resource: Resource, field: str) -> bool:
    """Whether lists of this kind can be narrowed by the field."""
    if field == "metadata.name" or (field == "metadata.namespace" and resource.namespaced):
        return True
    return not resource.custom and field in FIELDS.get(resource.kind, ())


def value_at(obj: Object, field: str) -> str:
    """The value of a field as selectors write it."""
    value: object = obj
    for step in _ELSEWHERE.get(field, field).split("."):
        value = value.get(step) if isinstance(value, dict) else None
    if field in _FLAGS:
        return "true" if value else "false"
    if value is None:
        return "0" if field in _COUNTS else ""
    return str(value)


TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. "
    "Start a new list without the continue parameter, or use the continue token of this response "
    "to get the rest of the list as it is now."
)
TOO_OLD_VERSION = "The resourceVersion for the provided list is too old."


class Token(Struct, frozen=True):
    """Where a list goes on; version -1 stands for whatever is there by then."""

    rv: int
    start: str
    v: str = "meta.k8s.io/v1"

    def encode(self) -> str:
        """The token as clients send it back."""
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


def read_token(text: str) -> Token:
    """The token that was handed out."""
    try:
        padded = text + "=" * (-len(text) % 4)
        return msgspec.json.decode(base64.urlsafe_b64decode(padded), type=Token)
    except (binascii.Error, msgspec.MsgspecError, ValueError):
        raise bad_request("invalid continue token: continue key is not valid") from None


class ListOptions(Struct, frozen=True, kw_only=True):
    """Which moment and which part of a list is asked for."""

    limit: int = 0
    token: str = ""
    version: int | None = None
    match: str = ""


def number(query: Mapping[str, str], key: str) -> int | None:
    """A whole number of the query, or None if it is not there."""
    text = query.get(key, "")
    if not text:
        return None
    if not text.removeprefix("-").isdecimal():
        raise bad_request(f"{key} is `{text}`, which is not a whole number")
    return int(text)


def list_options(query: Mapping[str, str]) -> ListOptions:
    """What the query asks for, unless its parts contradict each other."""
    version, match = number(query, "resourceVersion"), query.get("resourceVersionMatch", "")
    token = query.get("continue", "")
    if match:
        if version is None:
            raise bad_options(
                "resourceVersionMatch",
                "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
            )
        if token:
            raise bad_options(
                "resourceVersionMatch",
                "Forbidden: resourceVersionMatch is forbidden when continue is provided",
            )
        if match not in ("Exact", "NotOlderThan"):
            raise bad_options(
                "resourceVersionMatch",
                f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""',
            )
        if match == "Exact" and version == 0:
            raise bad_options(
                "resourceVersionMatch",
                'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
            )
    if token and version:
        raise bad_request("specifying resource version is not allowed when using continue")
    limit = max(0, number(query, "limit") or 0)
    return ListOptions(limit=limit, token=token, version=version, match=match)


class ListPage(Struct, frozen=True):
    """Some entries of a list, at one version."""

    entries: list[StoredObject]
    version: int
    token: str = ""
    remaining: int | None = None


def page(storage: Storage, resource: Resource, chosen: Selection, options: ListOptions) -> ListPage:
    """The entries asked for."""
    start = read_token(options.token) if options.token else Token(_moment(storage, options), "")
    version = storage.version if start.rv < 0 else start.rv
    try:
        entries = storage.entries(resource, version)
    except Compacted:
        again = Token(-1, start.start).encode() if options.token else ""
        says = TOO_OLD if options.token else TOO_OLD_VERSION
        raise expired_version(says, again) from None
    selected = [entry for entry in entries if entry.key >= start.start and chosen.selects(entry)]
    if not options.limit or len(selected) <= options.limit:
        return ListPage(selected, version)
    following = Token(version, selected[options.limit].key).encode()
    remaining = None if chosen.narrow else len(selected) - options.limit
    return ListPage(selected[: options.limit], version, following, remaining)


def _moment(storage: Storage, options: ListOptions) -> int:
    """The version a new list shows: an exact one only if asked for, else what is so now."""
    version = options.version or 0
    if version > storage.version:
        raise too_large_version(version, storage.version)
    exact = options.match == "Exact" or (version and options.limit and not options.match)
    return version if exact else storage.version


def encode_page(resource: Resource, page: ListPage) -> bytes:
    """The page as JSON; lists of custom resources have their keys in the order of the alphabet."""
    meta: dict[str, str | int] = {"resourceVersion": str(page.version)}
    if page.token:
        meta["continue"] = page.token
    if page.remaining is not None:
        meta["remainingItemCount"] = page.remaining
    items = b",".join([encode_list_item(resource, entry) for entry in page.entries])
    kind, api_version = (
        f'"kind":"{resource.kind}List"'.encode(),
        f'"apiVersion":"{resource.api_version}"'.encode(),
    )
    metadata, listed = b'"metadata":' + msgspec.json.encode(meta), b'"items":[' + items + b"]"
    if resource.custom:
        return b"{" + b",".join((api_version, listed, kind, metadata)) + b"}"
    return b"{" + b",".join((kind, api_version, metadata, listed)) + b"}"
