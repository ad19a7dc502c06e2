"""From a request to its answer: one method for each verb, and one for each subresource.

All of it happens in one turn of the ledger, without waiting. Watches are the exception: they begin
here and go on where HTTP is spoken.

From a method and a path to what is asked of which object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import yaml
from msgspec import Struct

from resettle.testing.api_server.discovery import Ban, reviewed, why_banned
from resettle.testing.api_server.objects import protobuf
from resettle.testing.api_server.objects.create_update import create, existing, update
from resettle.testing.api_server.objects.delete import DeleteOptions, delete, delete_options
from resettle.testing.api_server.objects.kinds import Catalogue, Resource
from resettle.testing.api_server.objects.patches import patched
from resettle.testing.api_server.objects.subresources import bind, evict, rescaled, scale_of
from resettle.testing.api_server.status import (
    bad_options,
    bad_request,
    details_of,
    forbidden,
    method_not_allowed,
    success,
    unsupported_media,
)
from resettle.testing.api_server.storage.lists import (
    Page,
    Selection,
    encoded,
    list_options,
    number,
    page,
    selection,
)
from resettle.testing.api_server.storage.revisions import Entry, Ledger
from resettle.testing.api_server.storage.store import shown, whole
from resettle.testing.builders import Object

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Target(Struct, frozen=True):
    """A verb of the API, and what it is about."""

    verb: str
    resource: Resource
    namespace: str = ""
    name: str = ""
    under: str = ""

    @property
    def granted_as(self) -> str:
        """The resource as roles name it."""
        return f"{self.resource.plural}/{self.under}" if self.under else self.resource.plural


def target(catalogue: Catalogue, method: str, path: str, query: Mapping[str, str]) -> Target | None:
    """What a request asks for, or None where nothing is served."""
    match path.strip("/").split("/"):
        case ["api", "v1", *rest]:
            group, version = "", "v1"
        case ["apis", group, version, *rest]:
            pass
        case _:
            return None
    namespace = ""
    if rest and rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _OF_NAMESPACES:
        _, namespace, *rest = rest
    if not rest or len(rest) > 3:
        return None
    plural, name, under = [*rest, "", ""][:3]
    resource = catalogue.at(group, version, plural)
    if resource is None or (under and under not in resource.subresources):
        return None
    if (namespace or (name and resource.namespaced)) and not (namespace and resource.namespaced):
        return None
    return Target(_verb(method, name, query), resource, namespace, name, under)


_OF_NAMESPACES = ("status", "finalize")


def _verb(method: str, name: str, query: Mapping[str, str]) -> str:
    if method in ("GET", "HEAD"):
        if query.get("watch") in ("true", "1"):
            return "watch"
        return "get" if name else "list"
    if method == "DELETE" and not name:
        return "deletecollection"
    return _VERBS.get(method, method.lower())


_JSON = ("application/json", "")
_YAML = "application/yaml"
_BY_NAME = frozenset({"get", "update", "patch", "delete"})
_MADE_BY_UPDATE = frozenset({"Lease", "Event"})
"""Kinds whose update makes the object if there is none."""
_RETURNED = frozenset(
    {"PersistentVolume", "Pod", "Service", "PersistentVolumeClaim", "ServiceAccount"}
)
"""Kinds whose deletion answers with the object rather than with a status."""


class Request(Struct, frozen=True, kw_only=True):
    """What a client sent, besides where to."""

    query: Mapping[str, str]
    media: str = ""
    body: bytes = b""

    @property
    def dry(self) -> bool:
        """Whether nothing is to be kept."""
        dry = self.query.get("dryRun", "")
        if dry not in ("", "All"):
            says = f'Unsupported value: ["{dry}"]: supported values: "All"'
            raise bad_options("dryRun", says, "CreateOptions")
        return bool(dry)

    def read(self) -> Any:
        """The body as plain data."""
        try:
            if self.media in _JSON:
                return msgspec.json.decode(self.body)
            if self.media == _YAML:
                return yaml.safe_load(self.body)
            if self.media == protobuf.MEDIA:
                return protobuf.decoded(self.body)
        except (msgspec.DecodeError, yaml.YAMLError, protobuf.Unreadable) as error:
            raise bad_request(f"the body cannot be read: {error}") from None
        raise unsupported_media(["application/json", _YAML, protobuf.MEDIA])

    def read_object(self) -> Object:
        """The body, which has to be an object."""
        sent = self.read()
        if not isinstance(sent, dict):
            raise bad_request("the body is not an object of the API")
        return sent


class Answer(Struct, frozen=True):
    """A code and a body."""

    code: int
    body: bytes


def told(code: int, obj: Object) -> Answer:
    """An answer of plain data."""
    return Answer(code, msgspec.json.encode(obj))


class Desk:
    """Answers requests from a ledger."""

    def __init__(self, ledger: Ledger, bans: Sequence[Ban], token: str) -> None:
        self._ledger = ledger
        self._bans = bans
        self._token = token

    def admit(self, target: Target) -> None:
        """Refuses what is banned, and verbs that the resource does not have."""
        resource = target.resource
        why = why_banned(
            self._bans, target.verb, resource.group, target.granted_as, target.namespace
        )
        if why is not None:
            raise forbidden(resource, target.name, why)
        if not _served(target):
            raise method_not_allowed()

    def selected(self, target: Target, request: Request) -> Selection:
        """What a list, a watch or a deletion of many is about."""
        query = dict(request.query)
        if target.name:
            query["fieldSelector"] = f"metadata.name={target.name}"
        return selection(target.resource, target.namespace, query)

    def answer(self, target: Target, request: Request) -> Answer:
        """What the request comes to."""
        with self._ledger.turn():
            if target.under:
                return self._under(target, request)
            match target.verb:
                case "get":
                    return Answer(200, whole(target.resource, self._entry(target)))
                case "list":
                    return self._listed(target, request)
                case "create":
                    return self._created(target, request)
                case "update" | "patch":
                    return self._changed(target, request, "")
                case "delete":
                    return self._deleted(target, request)
                case "deletecollection":
                    return self._deleted_all(target, request)
        raise method_not_allowed()

    def _entry(self, target: Target) -> Entry:
        return existing(self._ledger, target.resource, target.namespace, target.name)

    def _listed(self, target: Target, request: Request) -> Answer:
        chosen, options = self.selected(target, request), list_options(request.query)
        found = page(self._ledger, target.resource, chosen, options)
        return Answer(200, encoded(target.resource, found))

    def _created(self, target: Target, request: Request) -> Answer:
        sent = request.read_object()
        resource, namespace = target.resource, target.namespace
        if resource.verbs == ("create",):
            return told(201, reviewed(resource.kind, sent, self._bans, self._token))
        if resource.namespaced and not namespace:
            raise method_not_allowed()
        entry = create(self._ledger, resource, namespace, sent, dry=request.dry)
        return Answer(201, whole(resource, entry))

    def _makes(self, target: Target) -> bool:
        """Whether an update is of nothing yet, and makes it."""
        if target.verb != "update" or target.resource.kind not in _MADE_BY_UPDATE:
            return False
        return self._ledger.find(target.resource, target.namespace, target.name) is None

    def _changed(self, target: Target, request: Request, part: str) -> Answer:
        if self._makes(target):
            return self._created(target, request)
        old = self._entry(target)
        if target.verb == "patch":
            was = shown(target.resource, old.object)
            sent = patched(target.resource, was, request.media, request.body)
        else:
            sent = request.read_object()
        entry = update(self._ledger, target.resource, old, sent, part, dry=request.dry)
        return Answer(200, whole(target.resource, entry))

    def _deleted(self, target: Target, request: Request) -> Answer:
        options, entry = _options(request), self._entry(target)
        dry = request.dry or bool(options.dry_run)
        done = delete(self._ledger, target.resource, entry, options, dry=dry)
        if not done.gone or target.resource.kind in _RETURNED:
            return Answer(200, whole(target.resource, done.entry))
        return told(200, success(200, _which(target.resource, entry)))

    def _deleted_all(self, target: Target, request: Request) -> Answer:
        chosen, options = self.selected(target, request), _options(request)
        dry = request.dry or bool(options.dry_run)
        found = [it for it in self._ledger.entries(target.resource) if chosen.takes(it)]
        ends = [delete(self._ledger, target.resource, it, options, dry=dry).entry for it in found]
        return Answer(200, encoded(target.resource, Page(ends, self._ledger.version)))

    # -- subresources ---------------------------------------------------------------------------

    def _under(self, target: Target, request: Request) -> Answer:
        where = (self._ledger, target.resource, target.namespace, target.name)
        match target.verb, target.under:
            case "create", "eviction":
                return told(201, evict(*where, request.read_object(), dry=request.dry))
            case "create", "binding":
                return told(201, bind(*where, request.read_object(), dry=request.dry))
            case "get", "status":
                return Answer(200, whole(target.resource, self._entry(target)))
            case (("update" | "patch"), "status"):
                return self._changed(target, request, "status")
            case "update", "finalize":
                return self._changed(target, request, "")
            case "get", "scale":
                return told(200, scale_of(self._entry(target)))
            case (("update" | "patch"), "scale"):
                return self._scaled(target, request)
        raise method_not_allowed()

    def _scaled(self, target: Target, request: Request) -> Answer:
        entry = self._entry(target)
        if target.verb == "patch":
            sent = patched(target.resource, scale_of(entry), request.media, request.body)
        else:
            sent = request.read_object()
        return told(
            200,
            scale_of(rescaled(self._ledger, target.resource, entry, sent, dry=request.dry)),
        )


def _served(target: Target) -> bool:
    """Whether there is such a verb, for one object or for all as it was asked."""
    if target.under or target.verb == "watch":
        return target.under != "" or "watch" in target.resource.verbs
    by_name = target.verb in _BY_NAME
    return target.verb in target.resource.verbs and by_name is bool(target.name)


def _which(resource: Resource, entry: Entry) -> Object:
    return details_of(resource, entry.meta["name"], uid=entry.meta["uid"])


def _options(request: Request) -> DeleteOptions:
    """Options from the body, or from the query where there is no body."""
    if request.body:
        return delete_options(request.read())
    named: Object = {}
    if (grace := number(request.query, "gracePeriodSeconds")) is not None:
        named["gracePeriodSeconds"] = grace
    if policy := request.query.get("propagationPolicy"):
        named["propagationPolicy"] = policy
    return delete_options(named)
