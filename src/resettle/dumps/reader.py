"""Reads a cluster from files that `kubectl get … -o json` or `-o yaml` wrote.

A source is a file, a folder of files, or `-` for standard input; each holds one object, a `List`,
or many documents. What cannot be understood is an error that names the file and the object: a plan
over half a cluster would be a plan for another cluster.
"""

from __future__ import annotations

import gzip
import mmap
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import Raw

from resettle.dumps.collection import Bytes, Collection
from resettle.dumps.writer import taken_at
from resettle.errors import InputError
from resettle.model.decoding import wire
from resettle.model.decoding.decoder import Decoder
from resettle.model.kinds import KINDS, Kind
from resettle.model.pod import CONDITIONS
from resettle.model.snapshot import Snapshot
from resettle.model.workloads import WORKLOAD_KINDS
from resettle.policy.problems import did_you_mean

# Workloads are left out: there are many, and only few policies read them.
_ALL_KINDS = ",".join(
    kind.kubectl_name or kind.plural for kind in KINDS.values() if kind.name not in WORKLOAD_KINDS
)
KUBECTL_COMMAND = f"kubectl get {_ALL_KINDS} -A -o json"

# Kinds that often share a dump with those that are read and say nothing that a plan needs.
IGNORED_KINDS = frozenset(
    """APIService Binding CSIDriver CSIStorageCapacity CertificateSigningRequest ClusterRole
    ClusterRoleBinding ComponentStatus ConfigMap ControllerRevision CronJob CustomResourceDefinition
    DaemonSet DeviceClass EndpointSlice Endpoints Event FlowSchema
    HorizontalPodAutoscaler IPAddress Ingress IngressClass Lease LimitRange
    LocalSubjectAccessReview MutatingWebhookConfiguration NetworkPolicy
    PodTemplate PriorityLevelConfiguration ResourceClaim
    ResourceClaimTemplate ResourceQuota ResourceSlice Role RoleBinding RuntimeClass Secret Service
    ServiceAccount ServiceCIDR StorageClass ValidatingAdmissionPolicy
    ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration VolumeAttachment""".split()
)

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_GZIP_MARK = b"\x1f\x8b"


class _Document(wire.ObjectOrList):
    """Any object or list, with what it says of itself."""

    metadata: Raw = wire.ABSENT


_document = msgspec.json.Decoder(_Document)
_DUMP_ENDINGS = (".json", ".yaml", ".yml", ".json.gz", ".yaml.gz", ".yml.gz")
_YamlLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Dump:
    """Objects read so far, from any number of sources; `reads` names what the plugins need."""

    def __init__(self, kinds: Iterable[Kind] = (), reads: frozenset[str] | None = None) -> None:
        decoder = Decoder(conditions=reads is None or CONDITIONS in reads)
        self.collection = Collection(kinds, decoder)
        self._left_out = WORKLOAD_KINDS - (WORKLOAD_KINDS if reads is None else reads)
        self.ignored: Counter[str] = Counter()

    def read(self, sources: Iterable[str]) -> None:
        """Reads every source; a folder stands for the dumps in it."""
        for source in sources:
            for name, content in _contents(source):
                self.add(content, name)

    def add(self, content: bytes | mmap.mmap, name: str) -> None:
        """Adds what a file holds."""
        self.collection.begin_source(name)
        if content[:3] == _BYTE_ORDER_MARK:
            content = content[3:]
        start = content[:4096].lstrip()
        if start[:1] in (b"{", b"[") and (document := _json_document(content, name)):
            self._add_document(document, content, name)
            return
        count = 0
        for text in _yaml_documents(content, name):
            count += 1
            place = name if count == 1 else f"{name}: document {count}"
            self._add_document(_decode(text, place), text, place)
        if not count:
            raise InputError(f"{name} is empty; {_MAKE_ONE}")

    def snapshot(
        self, at: datetime, history: Mapping[tuple[str, str], Any] | None = None
    ) -> Snapshot:
        """The cluster as read, stamped with a time."""
        return self.collection.snapshot(at, history)

    def _add_document(self, document: _Document, content: Bytes, name: str) -> None:
        if document.items is None and not document.kind.endswith("List"):
            self._add_object(content, name, document.kind, document.api_version)
            return
        if taken := taken_at(document.metadata, name):
            self.collection.taken_times.add(taken)
        # Items of a typed list such as PodList need not say their kind again.
        kind = document.kind.removesuffix("List")
        for i, item in enumerate(document.items or ()):
            place = f"{name}: items[{i}]"
            if kind in self.collection.kinds:
                self._add_object(item, place, kind, document.api_version)
            else:
                part = _decode(item, place)
                self._add_object(item, place, part.kind or kind, part.api_version)

    def _add_object(self, content: Bytes, place: str, kind: str, api_version: str) -> None:
        if kind in self._left_out or _is_another_kind(kind, api_version):
            self.ignored[kind] += 1
        elif kind in self.collection.kinds:
            self.collection.add(kind, content, place)
        elif kind in IGNORED_KINDS:
            self.ignored[kind] += 1
        elif kind == "DeschedulerPolicy":
            raise InputError(f"{place} is a policy; name it with --policy, not --cluster")
        elif not kind:
            raise InputError(f"{place} is not a Kubernetes object: it has no `kind`; {_MAKE_ONE}")
        else:
            raise InputError(
                f"{place} is of the unknown kind `{kind}` "
                f"({did_you_mean(kind, self.collection.kinds)}); leave it out, or {_MAKE_ONE}"
            )


def _is_another_kind(kind: str, api_version: str) -> bool:
    """Whether it has the name of a workload and another group: schedulers have a `Job` too."""
    known = KINDS.get(kind)
    if kind not in WORKLOAD_KINDS or known is None or not api_version:
        return False
    return api_version != known.api_version


def _decode(content: Bytes, place: str) -> _Document:
    try:
        return _document.decode(content)
    except msgspec.ValidationError:
        raise InputError(f"{place} is not a Kubernetes object; {_MAKE_ONE}") from None


_MAKE_ONE = f"make a dump with `{KUBECTL_COMMAND}`"


def _contents(source: str) -> Iterator[tuple[str, bytes | mmap.mmap]]:
    if source == "-":
        yield "standard input", _decompress(sys.stdin.buffer.read(), "standard input")
        return
    path = Path(source)
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.is_file() and p.name.endswith(_DUMP_ENDINGS))
        if not files:
            raise InputError(f"the folder {source} holds no .json or .yaml file; {_MAKE_ONE}")
        for file in files:
            yield str(file), _content(file)
    else:
        yield source, _content(path)


def _content(path: Path) -> bytes | mmap.mmap:
    try:
        if path.suffix == ".gz":
            return gzip.decompress(path.read_bytes())
        with path.open("rb") as file:
            if not path.is_file() or not path.stat().st_size:
                return _decompress(file.read(), str(path))
            return _decompress(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), str(path))
    except FileNotFoundError:
        raise InputError(
            f"there is no file {path}; name a dump, a folder of dumps, or `-`"
        ) from None
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise _unreadable(str(path), error) from None


def _decompress(content: bytes | mmap.mmap, name: str) -> bytes | mmap.mmap:
    """The content, decompressed if it is gzip; a pipe has no name that would show it."""
    if content[:2] != _GZIP_MARK:
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(name, error) from None


def _unreadable(name: str, error: Exception) -> InputError:
    reason = getattr(error, "strerror", None) or str(error)
    return InputError(f"{name} cannot be read: {reason}; {_MAKE_ONE}")


def _json_document(content: bytes | mmap.mmap, name: str) -> _Document | None:
    """The one JSON document a file holds, or None where it may be YAML after all."""
    try:
        return _decode(content, name)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if content.find(b"\n---") >= 0:
            return None
        raise InputError(f"{name} is not JSON: {error}; {_MAKE_ONE}") from None


def _yaml_documents(content: bytes | mmap.mmap, name: str) -> Iterator[bytes]:
    try:
        for document in yaml.load_all(bytes(content), _YamlLoader):
            if document is not None:
                yield msgspec.json.encode(document)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        raise InputError(
            f"{where} is not YAML: {error.problem or error.context}; {_MAKE_ONE}"
        ) from None
    except (yaml.YAMLError, TypeError, UnicodeDecodeError) as error:
        raise InputError(f"{name} is not YAML: {str(error).splitlines()[0]}; {_MAKE_ONE}") from None
