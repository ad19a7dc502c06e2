"""A cluster from files: whatever `kubectl get … -o json` or `-o yaml` wrote.

A source is a file, a folder of files, or `-` for standard input; each holds one object, a `List`,
or many documents. What cannot be understood is an error that names the file and the object: a plan
over half a cluster would be a plan for another cluster.
"""

from __future__ import annotations

import gzip
import mmap
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import Raw

from resettle.errors import InputError
from resettle.framework.plugin import Kind
from resettle.model import wire
from resettle.model.decode import Decoder
from resettle.model.node import Budget, Claim, Namespace, Node, PriorityClass
from resettle.model.pod import Pod
from resettle.model.snapshot import Snapshot
from resettle.policy.problem import did_you_mean

KINDS: dict[str, type[msgspec.Struct]] = {
    "Pod": wire.PodObject,
    "Node": wire.NodeObject,
    "Namespace": wire.NamespaceObject,
    "PriorityClass": wire.PriorityClassObject,
    "PodDisruptionBudget": wire.BudgetObject,
    "PersistentVolumeClaim": wire.ClaimObject,
}
ASK_FOR = "kubectl get nodes,pods,namespaces,priorityclasses,pdb,pvc -A -o json"

# Kinds that often share a dump with those above and say nothing that a plan needs.
UNREAD = frozenset(
    """APIService Binding CSIDriver CSINode CSIStorageCapacity CertificateSigningRequest ClusterRole
    ClusterRoleBinding ComponentStatus ConfigMap ControllerRevision CronJob CustomResourceDefinition
    DaemonSet Deployment DeviceClass EndpointSlice Endpoints Event FlowSchema
    HorizontalPodAutoscaler IPAddress Ingress IngressClass Job Lease LimitRange
    LocalSubjectAccessReview MutatingWebhookConfiguration NetworkPolicy NodeMetrics
    PersistentVolume PodMetrics PodTemplate
    PriorityLevelConfiguration ReplicaSet ReplicationController ResourceClaim ResourceClaimTemplate
    ResourceQuota ResourceSlice Role RoleBinding RuntimeClass Secret Service ServiceAccount
    ServiceCIDR StatefulSet StorageClass ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
    ValidatingWebhookConfiguration VolumeAttachment""".split()
)

_document = msgspec.json.Decoder(wire.Document)
_DUMP_ENDINGS = (".json", ".yaml", ".yml", ".json.gz", ".yaml.gz", ".yml.gz")
_YamlLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Dump:
    """Objects read so far, from any number of sources."""

    def __init__(self, kinds: Iterable[Kind] = ()) -> None:
        own = {kind.name: kind.struct for kind in kinds}
        self._own_kinds = frozenset(own)
        self._decoders = {
            name: msgspec.json.Decoder(struct) for name, struct in {**own, **KINDS}.items()
        }
        self._decoder = Decoder()
        self._objects: dict[str, list[Any]] = {name: [] for name in self._decoders}
        self._origins: dict[tuple[str, str, str], str] = {}
        self.unread: Counter[str] = Counter()

    def read(self, sources: Iterable[str]) -> None:
        """Reads every source; a folder stands for the dumps in it."""
        for source in sources:
            for name, content in _contents(source):
                self.add(content, name)

    def add(self, content: bytes | mmap.mmap, name: str) -> None:
        """Adds what a file holds."""
        count = 0
        for document in _documents(content, name):
            count += 1
            self._add_document(document, name if count == 1 else f"{name}: document {count}")
        if not count:
            raise InputError(f"{name} is empty; make a dump with `{ASK_FOR}`")

    def snapshot(
        self, at: datetime, history: Mapping[tuple[str, str], Any] | None = None
    ) -> Snapshot:
        """The cluster as read, stamped with a time."""
        nodes: list[Node] = self._objects["Node"]
        pods: list[Pod] = self._objects["Pod"]
        namespaces: list[Namespace] = self._objects["Namespace"]
        classes: list[PriorityClass] = self._objects["PriorityClass"]
        budgets: list[Budget] = self._objects["PodDisruptionBudget"]
        claims: list[Claim] = self._objects["PersistentVolumeClaim"]
        return Snapshot.of(
            nodes=nodes,
            pods=pods,
            taken_at=at,
            namespaces=namespaces,
            priority_classes=classes,
            budgets=budgets,
            claims=claims,
            others={name: tuple(self._objects[name]) for name in sorted(self._own_kinds)},
            history=history,
        )

    # -- one document -----------------------------------------------------------------------------

    def _add_document(self, content: bytes | mmap.mmap | Raw, name: str) -> None:
        try:
            document = _document.decode(content)
        except msgspec.ValidationError:
            raise InputError(f"{name} is not a Kubernetes object; {_MAKE_ONE}") from None
        if document.items is not None and (document.kind == "List" or not _known(document.kind)):
            element = document.kind.removesuffix("List")
            for i, item in enumerate(document.items):
                self._add_object(item, f"{name}: items[{i}]", element)
        else:
            self._add_object(content, name, "")

    def _add_object(self, content: bytes | mmap.mmap | Raw, place: str, kind: str) -> None:
        if not kind or kind not in self._decoders:
            try:
                kind = _document.decode(content).kind or kind
            except msgspec.ValidationError:
                raise InputError(f"{place} is not a Kubernetes object; {_MAKE_ONE}") from None
        if not kind:
            raise InputError(f"{place} is not a Kubernetes object: it has no `kind`; {_MAKE_ONE}")
        if kind in UNREAD:
            self.unread[kind] += 1
            return
        if kind not in self._decoders:
            raise InputError(
                f"{place} is of the unknown kind `{kind}` ({did_you_mean(kind, self._decoders)}); "
                f"leave it out, or make a dump with `{ASK_FOR}`"
            )
        self._add_known(content, place, kind)

    def _add_known(self, content: bytes | mmap.mmap | Raw, place: str, kind: str) -> None:
        try:
            item: Any = self._decoders[kind].decode(content)
        except msgspec.ValidationError as error:
            raise InputError(f"{place} is not a {kind} as Kubernetes writes it: {error}") from None
        if kind in self._own_kinds:
            self._objects[kind].append(item)
            return
        meta = item.metadata
        if not meta.name:
            raise InputError(f"{place} is a {kind} without `metadata.name`; {_MAKE_ONE}")
        self._claim_name(kind, getattr(meta, "namespace", ""), meta.name, place)
        try:
            self._objects[kind].append(self._modelled(kind, item))
        except (InputError, msgspec.ValidationError) as error:
            key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
            raise InputError(f"{place}, {kind} {key}: {error}") from None

    def _modelled(self, kind: str, item: Any) -> Any:
        decoder = self._decoder
        match kind:
            case "Pod":
                return decoder.pod(item)
            case "Node":
                return decoder.node(item)
            case "PodDisruptionBudget":
                return decoder.budget(item)
            case "PersistentVolumeClaim":
                return decoder.claim(item)
            case "Namespace":
                return decoder.namespace(item)
            case _:
                return decoder.priority_class(item)

    def _claim_name(self, kind: str, namespace: str, name: str, place: str) -> None:
        earlier = self._origins.setdefault((kind, namespace, name), place)
        if earlier is not place:
            key = f"{namespace}/{name}" if namespace else name
            raise InputError(
                f"{kind} {key} is there twice: {earlier} and {place}; keep one of the two dumps"
            )


_MAKE_ONE = f"make a dump with `{ASK_FOR}`"


def _known(kind: str) -> bool:
    return kind in KINDS or kind in UNREAD


def _contents(source: str) -> Iterator[tuple[str, bytes | mmap.mmap]]:
    if source == "-":
        yield "standard input", sys.stdin.buffer.read()
        return
    path = Path(source)
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.is_file() and p.name.endswith(_DUMP_ENDINGS))
        if not files:
            raise InputError(f"the folder {source} holds no .json or .yaml file")
        for file in files:
            yield str(file), _content(file)
    else:
        yield source, _content(path)


def _content(path: Path) -> bytes | mmap.mmap:
    try:
        if path.suffix == ".gz":
            return gzip.decompress(path.read_bytes())
        with path.open("rb") as file:
            if not path.stat().st_size:
                return b""
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise InputError(
            f"there is no file {path}; name a dump, a folder of dumps, or `-`"
        ) from None
    except (OSError, EOFError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{path} cannot be read: {reason}") from None


def _documents(content: bytes | mmap.mmap, name: str) -> Iterator[bytes | mmap.mmap]:
    """The documents of a file, as JSON."""
    start = content[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    if not start:
        return
    if start[:1] in (b"{", b"["):
        try:
            _document.decode(content)
        except msgspec.ValidationError:
            yield content
            return
        except msgspec.DecodeError as error:
            if content.find(b"\n---") < 0:
                raise InputError(f"{name} is not JSON: {error}") from None
        else:
            yield content
            return
    yield from _yaml_documents(content, name)


def _yaml_documents(content: bytes | mmap.mmap, name: str) -> Iterator[bytes]:
    try:
        for document in yaml.load_all(bytes(content), _YamlLoader):
            if document is not None:
                yield msgspec.json.encode(document)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        raise InputError(f"{where} is not YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, TypeError, UnicodeDecodeError) as error:
        raise InputError(f"{name} is not YAML: {str(error).splitlines()[0]}") from None
