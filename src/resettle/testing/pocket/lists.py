"""Lists, whole or page by page.

A `continue` token holds the version of the first page and the key of the next item, so that all
pages show one moment. Once that version is compacted, the token answers 410 and offers another
that goes on from the same key with what is there now.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from resettle.testing.pocket.history import Forgotten
from resettle.testing.pocket.kinds import Resource
from resettle.testing.pocket.ledger import Entry, Ledger
from resettle.testing.pocket.refusals import bad_options, bad_request, expired, too_large_version
from resettle.testing.pocket.selecting import Selection
from resettle.testing.pocket.views import in_list

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

    def written(self) -> str:
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


class Page(Struct, frozen=True):
    """Some entries of a list, at one version."""

    entries: list[Entry]
    version: int
    token: str = ""
    remaining: int | None = None


def page(ledger: Ledger, resource: Resource, chosen: Selection, options: ListOptions) -> Page:
    """The entries asked for."""
    start = read_token(options.token) if options.token else Token(_moment(ledger, options), "")
    version = ledger.version if start.rv < 0 else start.rv
    try:
        entries = ledger.entries(resource, version)
    except Forgotten:
        again = Token(-1, start.start).written() if options.token else ""
        says = TOO_OLD if options.token else TOO_OLD_VERSION
        raise expired(says, again) from None
    found = [it for it in entries if it.key >= start.start and chosen.takes(it)]
    if not options.limit or len(found) <= options.limit:
        return Page(found, version)
    following = Token(version, found[options.limit].key).written()
    remaining = None if chosen.narrow else len(found) - options.limit
    return Page(found[: options.limit], version, following, remaining)


def _moment(ledger: Ledger, options: ListOptions) -> int:
    """The version a new list shows: an exact one only if asked for, else what is so now."""
    version = options.version or 0
    if version > ledger.version:
        raise too_large_version(version, ledger.version)
    exact = options.match == "Exact" or (version and options.limit and not options.match)
    return version if exact else ledger.version


def encoded(resource: Resource, shown: Page) -> bytes:
    """The page as JSON; lists of custom resources have their keys in the order of the alphabet."""
    meta: dict[str, str | int] = {"resourceVersion": str(shown.version)}
    if shown.token:
        meta["continue"] = shown.token
    if shown.remaining is not None:
        meta["remainingItemCount"] = shown.remaining
    items = b",".join([in_list(resource, it) for it in shown.entries])
    kind, api_version = (
        f'"kind":"{resource.kind}List"'.encode(),
        f'"apiVersion":"{resource.api_version}"'.encode(),
    )
    metadata, listed = b'"metadata":' + msgspec.json.encode(meta), b'"items":[' + items + b"]"
    if resource.custom:
        return b"{" + b",".join((api_version, listed, kind, metadata)) + b"}"
    return b"{" + b",".join((kind, api_version, metadata, listed)) + b"}"
