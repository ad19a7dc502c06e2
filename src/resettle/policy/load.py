"""Reads the text of a policy in any apiVersion into a `Policy`, or reports all of its problems.

`apiVersion` decides how the document is read; mistakes in it are reported with what was meant.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any, NamedTuple

from msgspec import convert
from yaml import MappingNode, Node, ScalarNode

from resettle.policy.args import KnownPlugins
from resettle.policy.document import (
    API_VERSIONS,
    IMPROVED,
    KIND,
    V1ALPHA1,
    V1ALPHA2,
    Policy,
    PolicyDocument,
)
from resettle.policy.problems import ProblemCollector, did_you_mean, policy_error
from resettle.policy.profiles import ProfileReader
from resettle.policy.validation import (
    check_moves_by_controllers,
    delete_options,
    limits,
    metrics_providers,
    node_selector,
    soft_taints,
)
from resettle.policy.versions.v1alpha1 import OldDocument, convert_document
from resettle.policy.yaml.messages import KeyPlace, args_hints, document_hints, resettle_only_hints
from resettle.policy.yaml.parse import (
    UnreadableError,
    as_node,
    keep_last_of_duplicates,
    read_source,
)
from resettle.policy.yaml.source import Source, scalar_value
from resettle.policy.yaml.typed_walk import Walker, shape_of


def read_envelope(report: ProblemCollector) -> str:
    """The apiVersion to read the document as; anything wrong with either key is reported.

    Empty when it is missing and reading is lenient: upstream then uses nothing of the policy.
    """
    version = apiversion_of(report.source)
    kind = _word(report.source.find(("kind",)))
    if kind == "ConfigMap":
        what = "this is a ConfigMap, not the policy inside it"
        report.error(("kind",), what, "check the text under its `data`")
        report.raise_errors()
    if version is None and kind in (KIND, None) and report.lenient:
        what = "`apiVersion` is missing, so nothing in this policy is used"
        report.warn(("apiVersion",), what, f"add `apiVersion: {V1ALPHA2}`")
        return ""
    if version is None:
        fix = f"add `apiVersion: {V1ALPHA2}`"
        report.error(("apiVersion",), "`apiVersion` is missing", fix)
    elif version not in API_VERSIONS:
        what = f"no policy has the apiVersion `{version}`"
        report.error(("apiVersion",), what, did_you_mean(version, API_VERSIONS))
    if kind is None:
        note = report.warn if report.lenient else report.error
        note(("kind",), "`kind` is missing", f"add `kind: {KIND}`")
    elif kind != KIND:
        report.error(("kind",), f"`{kind}` is not a kind of policy", f"write `kind: {KIND}`")
    if version in API_VERSIONS:
        return version
    return V1ALPHA1 if report.source.find(("strategies",)) else V1ALPHA2


def apiversion_of(source: Source) -> str | None:
    """The apiVersion as it was written; None when there is none."""
    return _word(source.find(("apiVersion",)))


def _word(node: Node | None) -> str | None:
    """The scalar as it was written; None when there is none."""
    if isinstance(node, ScalarNode) and scalar_value(node) is not None:
        return str(node.value)
    return None


class Reading(NamedTuple):
    """A policy, its document in the newer shape, and the apiVersion it was written in."""

    policy: Policy
    document: PolicyDocument
    version: str


def load_policy(
    text: str | bytes, *, name: str, plugins: KnownPlugins, lenient: bool = False
) -> Policy:
    """The policy in this text; raises `PolicyError` with every problem and its place."""
    return read_policy(text, name=name, plugins=plugins, lenient=lenient).policy


def read_policy(
    text: str | bytes,
    *,
    name: str,
    plugins: KnownPlugins,
    improved: bool = False,
    lenient: bool = False,
) -> Reading:
    """The policy in this text, with its document and the apiVersion it was written in.

    With `improved` it is read as `resettle/v1` would be, whatever its apiVersion. With `lenient`,
    mistakes that upstream ignores are warnings, and have the effect they have there.
    """
    report = _start_collecting(text, name, lenient=lenient)
    if lenient and (improved or apiversion_of(report.source) == IMPROVED):
        report = _start_collecting(
            text, name, lenient=False
        )  # upstream does not read this apiVersion
    return read_tree(report, plugins=plugins, improved=improved)


def read_tree(
    report: ProblemCollector, *, plugins: KnownPlugins, improved: bool = False
) -> Reading:
    """The policy in the tree of a collector, which also says whether to be lenient."""
    source = report.source
    if not isinstance(source.root, MappingNode):
        report.error((), "a policy is a mapping", "start with `apiVersion: descheduler/v1alpha2`")
        report.raise_errors()
    written = read_envelope(report)
    version = IMPROVED if improved else written
    if report.lenient:
        keep_last_of_duplicates(report)
    if not written:
        empty = Policy(api_version=V1ALPHA2, warnings=report.warnings)
        return Reading(empty, PolicyDocument(), V1ALPHA2)
    if written == V1ALPHA1:
        tree, view, document = _read_old(report, plugins)
    else:
        tree, view, document = _read_new(report, plugins, improved=version == IMPROVED)
    policy = _complete(document, version, tree, view, plugins)
    report.raise_errors()
    return Reading(policy, document, written)


def _start_collecting(text: str | bytes, name: str, *, lenient: bool) -> ProblemCollector:
    """An empty collector for the text; raises if it cannot be read at all."""
    try:
        return ProblemCollector(read_source(text, name), lenient=lenient)
    except UnreadableError as error:
        if not lenient or error.fallback is None:
            raise policy_error(name, [error.problem]) from None
        report = ProblemCollector(error.fallback, lenient=True)
        report.add_warning(error.problem)
        return report


def _read_new(
    report: ProblemCollector, plugins: KnownPlugins, *, improved: bool
) -> tuple[Source, ProblemCollector, PolicyDocument]:
    """A document that has the newer shape already."""
    elsewhere = {
        "strategies": [KeyPlace("", "`strategies` belongs to `apiVersion: descheduler/v1alpha1`")],
        "tracing": [KeyPlace("", "tracing is set by flags such as `--otel-collector-endpoint`")],
    }
    source = report.source
    hints = cache(lambda: document_hints(PolicyDocument, plugins) | elsewhere)
    walker = Walker(report, hints, improved=improved)
    plain = walker.read_struct(source.root, shape_of(PolicyDocument), ())
    return source, report, convert(plain, PolicyDocument)


def _read_old(
    report: ProblemCollector, plugins: KnownPlugins
) -> tuple[Source, ProblemCollector, PolicyDocument]:
    """A document of the older shape, converted, with a collector that names the older lines."""
    newer = {"profiles": [KeyPlace("", "`profiles` belongs to `apiVersion: descheduler/v1alpha2`")]}
    ours = partial(resettle_only_hints, PolicyDocument, plugins)
    hints = cache(lambda: ours() | document_hints(OldDocument, {}) | newer)
    walker = Walker(report, hints, improved=False)
    plain: dict[str, Any] = walker.read_struct(report.source.root, shape_of(OldDocument), ())
    values, origins = convert_document(plain, report, plugins)
    tree = Source(report.source.name, as_node(values))
    return tree, report.with_origins(origins), convert(values, PolicyDocument)


def _complete(
    document: PolicyDocument,
    version: str,
    tree: Source,
    report: ProblemCollector,
    plugins: KnownPlugins,
) -> Policy:
    """The policy, after every check that goes beyond the shape."""
    improved = version == IMPROVED
    hints = cache(partial(args_hints, PolicyDocument, plugins))
    reader = ProfileReader(tree, report, plugins, hints, improved=improved)
    profiles = tuple(
        reader.read(profile, ("profiles", index))
        for index, profile in enumerate(document.profiles)
        if profile is not None
    )
    check_moves_by_controllers(profiles, plugins, report)
    providers = metrics_providers(document, report, improved=improved)
    return Policy(
        api_version=version,
        profiles=profiles,
        node_selector=node_selector(document, report),
        limits=limits(document, improved=improved),
        delete_options=delete_options(document, report),
        eviction_failure_event_notification=document.eviction_failure_event_notification,
        metrics_collector=document.metrics_collector.enabled,
        metrics_providers=providers,
        soft_taints=soft_taints(document, profiles, report),
        warnings=report.warnings,
    )
