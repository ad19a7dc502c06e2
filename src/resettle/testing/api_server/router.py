"""From a request to its response: one method for each verb, and one for each subresource.

Each request is handled in one transaction of the storage, without waiting. Watches are the
exception: they begin here and go on in `http`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import yaml
from msgspec import Struct

from resettle.testing.api_server.discovery import (
    DeniedPermission,
    answer_review,
    why_denied,
)
from resettle.testing.api_server.objects import protobuf
from resettle.testing.api_server.objects.create_update import create, get_existing, update
from resettle.testing.api_server.objects.delete import RequestedDeletion, delete, delete_options
from resettle.testing.api_server.objects.kinds import Catalogue, Resource
from resettle.testing.api_server.objects.patches import apply_patch
from resettle.testing.api_server.objects.subresources import bind, evict, scale_of, set_scale
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
    ListPage,
    Selection,
    encode_page,
    list_options,
    number,
    page,
    selection,
)
from resettle.testing.api_server.storage.revisions import Storage, StoredObject
from resettle.testing.api_server.storage.store import encode_object, with_kind
from resettle.testing.builders import Object

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class RequestTarget(Struct, frozen=True):
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


def read_target(
    catalogue: Catalogue, method: str, path: str, query: Mapping[str, str]
) -> RequestTarget | None:
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
    return RequestTarget(_verb(method, name, query), resource, namespace, name, under)


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
                return protobuf.decode(self.body)
        except (msgspec.DecodeError, yaml.YAMLError, protobuf.Unreadable) as error:
            raise bad_request(f"the body cannot be read: {error}") from None
        raise unsupported_media(["application/json", _YAML, protobuf.MEDIA])

    def read_object(self) -> Object:
        """The body, which has to be an object."""
        sent = self.read()
        if not isinstance(sent, dict):
            raise bad_request("the body is not an object of the API")
        return sent


class ServerResponse(Struct, frozen=True):
    """A code and a body."""

    code: int
    body: bytes


def json_response(code: int, obj: Object) -> ServerResponse:
    """An answer of plain data."""
    return ServerResponse(code, msgspec.json.encode(obj))


class RequestHandler:
    """Answers requests from the storage."""

    def __init__(self, storage: Storage, denied: Sequence[DeniedPermission], token: str) -> None:
        self._storage = storage
        self._denied = denied
        self._token = token

    def admit(self, target: RequestTarget) -> None:
        """Refuse what is denied, and verbs that the resource does not have."""
        resource = target.resource
        why = why_denied(
            self._denied, target.verb, resource.group, target.granted_as, target.namespace
        )
        if why is not None:
            raise forbidden(resource, target.name, why)
        if not _has_verb(target):
            raise method_not_allowed()

    def selection_of(self, target: RequestTarget, request: Request) -> Selection:
        """What a list, a watch or a deletion of many is about."""
        query = dict(request.query)
        if target.name:
            query["fieldSelector"] = f"metadata.name={target.name}"
        return selection(target.resource, target.namespace, query)

    def answer(self, target: RequestTarget, request: Request) -> ServerResponse:
        """What the request comes to."""
        with self._storage.transaction():
            if target.under:
                return self._answer_subresource(target, request)
            match target.verb:
                case "get":
                    return ServerResponse(200, encode_object(target.resource, self._entry(target)))
                case "list":
                    return self._list(target, request)
                case "create":
                    return self._create(target, request)
                case "update" | "patch":
                    return self._update(target, request, "")
                case "delete":
                    return self._delete(target, request)
                case "deletecollection":
                    return self._delete_collection(target, request)
        raise method_not_allowed()

    def _entry(self, target: RequestTarget) -> StoredObject:
        return get_existing(self._storage, target.resource, target.namespace, target.name)

    def _list(self, target: RequestTarget, request: Request) -> ServerResponse:
        chosen, options = self.selection_of(target, request), list_options(request.query)
        listed = page(self._storage, target.resource, chosen, options)
        return ServerResponse(200, encode_page(target.resource, listed))

    def _create(self, target: RequestTarget, request: Request) -> ServerResponse:
        sent = request.read_object()
        resource, namespace = target.resource, target.namespace
        if resource.verbs == ("create",):
            return json_response(201, answer_review(resource.kind, sent, self._denied, self._token))
        if resource.namespaced and not namespace:
            raise method_not_allowed()
        entry = create(self._storage, resource, namespace, sent, dry=request.dry)
        return ServerResponse(201, encode_object(resource, entry))

    def _creates_by_update(self, target: RequestTarget) -> bool:
        """Whether an update is of nothing yet, and makes it."""
        if target.verb != "update" or target.resource.kind not in _MADE_BY_UPDATE:
            return False
        return self._storage.find(target.resource, target.namespace, target.name) is None

    def _update(self, target: RequestTarget, request: Request, part: str) -> ServerResponse:
        if self._creates_by_update(target):
            return self._create(target, request)
        old = self._entry(target)
        if target.verb == "patch":
            was = with_kind(target.resource, old.object)
            sent = apply_patch(target.resource, was, request.media, request.body)
        else:
            sent = request.read_object()
        entry = update(self._storage, target.resource, old, sent, part, dry=request.dry)
        return ServerResponse(200, encode_object(target.resource, entry))

    def _delete(self, target: RequestTarget, request: Request) -> ServerResponse:
        options, entry = _options(request), self._entry(target)
        dry = request.dry or bool(options.dry_run)
        done = delete(self._storage, target.resource, entry, options, dry=dry)
        if not done.gone or target.resource.kind in _RETURNED:
            return ServerResponse(200, encode_object(target.resource, done.entry))
        return json_response(200, success(200, _which(target.resource, entry)))

    def _delete_collection(self, target: RequestTarget, request: Request) -> ServerResponse:
        chosen, options = self.selection_of(target, request), _options(request)
        dry = request.dry or bool(options.dry_run)
        selected = [
            entry for entry in self._storage.entries(target.resource) if chosen.selects(entry)
        ]
        ends = [
            delete(self._storage, target.resource, entry, options, dry=dry).entry
            for entry in selected
        ]
        return ServerResponse(
            200, encode_page(target.resource, ListPage(ends, self._storage.version))
        )

    # -- subresources ---------------------------------------------------------------------------

    def _answer_subresource(self, target: RequestTarget, request: Request) -> ServerResponse:
        where = (self._storage, target.resource, target.namespace, target.name)
        match target.verb, target.under:
            case "create", "eviction":
                return json_response(201, evict(*where, request.read_object(), dry=request.dry))
            case "create", "binding":
                return json_response(201, bind(*where, request.read_object(), dry=request.dry))
            case "get", "status":
                return ServerResponse(200, encode_object(target.resource, self._entry(target)))
            case (("update" | "patch"), "status"):
                return self._update(target, request, "status")
            case "update", "finalize":
                return self._update(target, request, "")
            case "get", "scale":
                return json_response(200, scale_of(self._entry(target)))
            case (("update" | "patch"), "scale"):
                return self._scale(target, request)
        raise method_not_allowed()

    def _scale(self, target: RequestTarget, request: Request) -> ServerResponse:
        entry = self._entry(target)
        if target.verb == "patch":
            sent = apply_patch(target.resource, scale_of(entry), request.media, request.body)
        else:
            sent = request.read_object()
        return json_response(
            200,
            scale_of(set_scale(self._storage, target.resource, entry, sent, dry=request.dry)),
        )


def _has_verb(target: RequestTarget) -> bool:
    """Whether there is such a verb, for one object or for all as it was asked."""
    if target.under or target.verb == "watch":
        return target.under != "" or "watch" in target.resource.verbs
    by_name = target.verb in _BY_NAME
    return target.verb in target.resource.verbs and by_name is bool(target.name)


def _which(resource: Resource, entry: StoredObject) -> Object:
    return details_of(resource, entry.meta["name"], uid=entry.meta["uid"])


def _options(request: Request) -> RequestedDeletion:
    """Options from the body, or from the query where there is no body."""
    if request.body:
        return delete_options(request.read())
    named: Object = {}
    if (grace := number(request.query, "gracePeriodSeconds")) is not None:
        named["gracePeriodSeconds"] = grace
    if policy := request.query.get("propagationPolicy"):
        named["propagationPolicy"] = policy
    return delete_options(named)


class ReceivedRequest(NamedTuple):
    """Who asked for what; the verb is that of roles, such as `list`."""

    verb: str
    path: str
    query: dict[str, str]
    user_agent: str
    token: str
    client: str
    """Address and port of the client; the same for all requests of one connection."""
