"""Which objects a list or watch is about: namespace, label selector, field selector."""

from __future__ import annotations

from collections.abc import Mapping

from resettle.errors import InputError
from resettle.model.selector import EVERYTHING, Selector, parse_selector
from resettle.testing.objects import Object
from resettle.testing.pocket.kinds import Resource
from resettle.testing.pocket.ledger import Entry
from resettle.testing.pocket.refusals import bad_request

_POD = (
    *("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"),
    *("status.phase", "status.podIP", "status.nominatedNodeName", "spec.hostNetwork"),
)
_SUBJECT = "kind namespace name uid apiVersion resourceVersion fieldPath".split()
_EVENT = ("reason", "type", "reportingComponent", "source")
FIELDS: dict[str, tuple[str, ...]] = {
    "Pod": _POD,
    "Node": ("spec.unschedulable",),
    "Event": (*(f"involvedObject.{it}" for it in _SUBJECT), *_EVENT),
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

    def takes(self, entry: Entry | None) -> bool:
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
        field, found, value = part.partition(sign)
        if found:
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
