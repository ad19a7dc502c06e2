"""Removes what a plan does not read from objects, and replaces names by digests.

A name has the same digest everywhere. Every text is taken for a name unless it is listed here, so
a field that the model starts to read is hashed until it is listed. Keys of labels, taints and
resources stay, and so do kinds, phases, reasons, effects and operators.

The trimmed structs follow `model.decoding.wire` field by field; defaults are not written. Parts
that stay undecoded there are kept byte by byte, because pods are grouped by these bytes; to be
anonymized they are decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, lru_cache, reduce
from hashlib import blake2b
from operator import or_
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Raw, Struct

from resettle.model.decoding import wire
from resettle.model.pod import DELETION_COST, SOURCE, SPELLINGS_OF_NO
from resettle.model.selectors import as_int64, is_label_value
from resettle.placement.volumes import ZONE_LABELS

WELL_KNOWN = frozenset(
    """default kube-node-lease kube-public kube-system system-cluster-critical system-node-critical
    true false linux windows amd64 arm64 0.0.0.0 ::""".split()
)
"""Names that every cluster has, and values that identify no one; these are never hashed."""

NOT_NAMES = frozenset(
    """accessModes apiVersion at creationTimestamp deletionTimestamp effect key kind
    lastTransitionTime matchLabelKeys mismatchLabelKeys nodeAffinityPolicy nodeLabel
    nodeTaintsPolicy number operator phase protocol qosClass reason restartPolicy startTime status
    timeAdded timestamp topologyKey type
    unhealthyPodEvictionPolicy whenUnsatisfiable""".split()
)
"""Fields whose text is not a name."""

AMOUNTS = frozenset({"allocatable", "capacity", "limits", "overhead", "requests", "usage"})
LABELS = frozenset({"labels", "matchLabels", "nodeSelector"})
SOURCES = ("api", "file", "http")
LONGEST_NUMBER = 7
REMEMBERED = 1 << 16
_DIGITS = 15


class Anonymizer:
    """Replaces names by digests that depend on a salt."""

    def __init__(self, salt: bytes) -> None:
        self._key = blake2b(salt).digest()
        self._made_for_pods: dict[tuple[str, str], str] = {}
        # Labels and owners come again with many pods; names that come once need not be kept.
        self.hash_name: Callable[[str], str] = lru_cache(maxsize=REMEMBERED)(self._name)

    def _name(self, text: str) -> str:
        """The digest of a name: a name too, and never a number."""
        if not text or text in WELL_KNOWN:
            return text
        digest = blake2b(text.encode(errors="surrogateescape"), key=self._key, digest_size=8)
        return f"x{digest.hexdigest()[:_DIGITS]}"

    def hash_value(self, key: str, text: str) -> str:
        """The digest of a label's or taint's value, which can be compared as the value could.

        Short numbers stay, because `Gt` and `Lt` compare them; several zones in one value stay
        several; and a value that is invalid in Kubernetes stays invalid.
        """
        if key in ZONE_LABELS and "__" in text:
            return "__".join(map(self.hash_name, text.split("__")))
        if len(text) <= LONGEST_NUMBER and as_int64(text) is not None:
            return text
        digest = self.hash_name(text)
        return digest if is_label_value(text) else f"?{digest}"

    def anonymize(self, kind: str, item: Mapping[str, Any]) -> dict[str, Any]:
        """An object with digests in place of its names; pods come before the claims they own."""
        made: dict[str, Any] = self._hash_part("", item)
        meta = item["metadata"]
        place, name = meta.get("namespace", ""), meta.get("name", "")
        if kind == "Pod":
            # The claim of such a volume is named after pod and volume; its digest must be too.
            for volume in item.get("spec", {}).get("volumes") or ():
                if "ephemeral" in volume:
                    own = volume.get("name", "")
                    digest = f"{self.hash_name(name)}-{self.hash_name(own)}"
                    self._made_for_pods[place, f"{name}-{own}"] = digest
        elif kind == "PersistentVolumeClaim" and (place, name) in self._made_for_pods:
            made["metadata"]["name"] = self._made_for_pods[place, name]
        return made

    def _hash_part(self, key: str, part: Any) -> Any:
        if isinstance(part, str):
            if key == "value":
                return self.hash_value("", part)
            return part if key in NOT_NAMES else self.hash_name(part)
        if isinstance(part, list | tuple):
            return [self._hash_part(key, item) for item in part]
        if not isinstance(part, dict) or key in AMOUNTS:
            return part
        if key in LABELS:
            return {label: self.hash_value(label, text) for label, text in part.items()}
        if key == "annotations":
            return {mark: self._annotation(mark, text) for mark, text in part.items()}
        if key == "matchExpressions":
            values = [self.hash_value(part["key"], text) for text in part["values"]]
            return {**part, "values": values}
        return {name: self._hash_part(name, item) for name, item in part.items()}

    def _annotation(self, mark: str, text: str) -> str:
        """The text itself where a decision depends on it, else its digest."""
        if mark == DELETION_COST and as_int64(text) is not None:
            return text
        plain = SOURCES if mark == SOURCE else SPELLINGS_OF_NO
        return text if text.strip().lower() in plain else self.hash_name(text)


SPELLED_OUT: dict[str, Any] = {
    "labels": dict[str, str],
    "node_selector": dict[str, str],
    "owner_references": list[wire.OwnerReference],
    "resources": wire.Resources,
    "overhead": dict[str, str | int | float],
    "affinity": wire.Affinity,
    "tolerations": list[wire.TolerationItem],
    "topology_spread_constraints": list[wire.SpreadItem],
    "resource_claims": list[wire.Present],
    "scheduling_gates": list[wire.Present],
}
"""The types of the parts that the wire structs leave undecoded."""


@cache
def trimmed_struct(struct: type[Struct], *, spelled_out: bool = False) -> Any:
    """A struct with the fields that the model reads, to decode an object and write it again."""

    def kept_type(hint: Any) -> Any:
        """The type with every wire struct in it replaced by its trimmed one."""
        if isinstance(hint, type) and issubclass(hint, wire.Wire | wire.Key):
            return trimmed_struct(hint, spelled_out=spelled_out)
        origin, inner = get_origin(hint), tuple(map(kept_type, get_args(hint)))
        if origin in (Union, UnionType):
            return reduce(or_, inner)
        return origin[inner] if origin else hint

    fields: list[tuple[str, Any, Any]] = []
    for field in msgspec.structs.fields(struct):
        if field.type is Raw and spelled_out:
            fields.append((field.name, kept_type(SPELLED_OUT[field.name]) | None, None))
        elif field.default_factory is not NODEFAULT:
            made = kept_type(field.type)
            fields.append((field.name, made, msgspec.field(default_factory=made)))
        else:
            default = msgspec.field(default=field.default)
            fields.append((field.name, kept_type(field.type), default))
    written = {field.name: field.encode_name for field in msgspec.structs.fields(struct)}
    return msgspec.defstruct(
        struct.__name__, fields, rename=written, omit_defaults=True, gc=False, kw_only=True
    )
