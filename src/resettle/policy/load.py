"""`apiVersion` and `kind`: which document this is, and which it was probably meant to be.

From the text of a policy to a `Policy`, or to all of its problems at once.
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
from resettle.policy.problems import Report, did_you_mean, policy_error
from resettle.policy.profiles import ProfileReader
from resettle.policy.validation import limits, metrics_providers, node_selector, soft_taints
from resettle.policy.versions.v1alpha1 import OldDocument, converted
from resettle.policy.yaml.messages import Home, args_hints, document_hints, hints_of_ours
from resettle.policy.yaml.parse import UnreadableError, as_node, keep_last_of_twins, read_source
from resettle.policy.yaml.source import Source, meaning
from resettle.policy.yaml.typed_walk import Walker, shape_of


def read_envelope(report: Report) -> str:
    """The apiVersion to read the document as; anything wrong with either key is reported.

    Empty when it is missing and that is forgiven: the original then takes nothing of the policy.
    """
    version = apiversion_of(report.source)
    kind = _word(report.source.find(("kind",)))
    if kind == "ConfigMap":
        what = "this is a ConfigMap, not the policy inside it"
        report.error(("kind",), what, "check the text that stands under its `data`")
        report.raise_errors()
    if version is None and kind in (KIND, None) and report.forgiving:
        what = "`apiVersion` is missing, so nothing in this policy counts"
        report.warn(("apiVersion",), what, f"add `apiVersion: {V1ALPHA2}`")
        return ""
    if version is None:
        fix = f"add `apiVersion: {V1ALPHA2}`"
        report.error(("apiVersion",), "`apiVersion` is missing", fix)
    elif version not in API_VERSIONS:
        what = f"no policy has the apiVersion `{version}`"
        report.error(("apiVersion",), what, did_you_mean(version, API_VERSIONS))
    if kind is None:
        note = report.warn if report.forgiving else report.error
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
    if isinstance(node, ScalarNode) and meaning(node) is not None:
        return str(node.value)
    return None


class Reading(NamedTuple):
    """A policy, its document in the newer shape, and the apiVersion it was written in."""

    policy: Policy
    document: PolicyDocument
    version: str


def load_policy(
    text: str | bytes, *, name: str, plugins: KnownPlugins, forgiving: bool = False
) -> Policy:
    """The policy in this text; raises `PolicyError` with every problem and its place."""
    return read_policy(text, name=name, plugins=plugins, forgiving=forgiving).policy


def read_policy(
    text: str | bytes,
    *,
    name: str,
    plugins: KnownPlugins,
    improved: bool = False,
    forgiving: bool = False,
) -> Reading:
    """The same, with the document beside it.

    With `improved`, whatever its apiVersion it is read as `resettle/v1` would be. With
    `forgiving`, mistakes that the original hides are warnings, and are taken as it takes them.
    """
    report = _opened(text, name, forgiving=forgiving)
    if forgiving and (improved or apiversion_of(report.source) == IMPROVED):
        report = _opened(text, name, forgiving=False)  # there is no original to go by
    return read_tree(report, plugins=plugins, improved=improved)


def read_tree(report: Report, *, plugins: KnownPlugins, improved: bool = False) -> Reading:
    """The policy in the tree that a report is about; the report says how forgiving to be."""
    source = report.source
    if not isinstance(source.root, MappingNode):
        report.error((), "a policy is a mapping", "start with `apiVersion: descheduler/v1alpha2`")
        report.raise_errors()
    written = read_envelope(report)
    version = IMPROVED if improved else written
    if report.forgiving:
        keep_last_of_twins(report)
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


def _opened(text: str | bytes, name: str, *, forgiving: bool) -> Report:
    """An empty report on the text; raises if it cannot be read at all."""
    try:
        return Report(read_source(text, name), forgiving=forgiving)
    except UnreadableError as error:
        if not forgiving or error.instead is None:
            raise policy_error(name, [error.problem]) from None
        report = Report(error.instead, forgiving=True)
        report.warn_of(error.problem)
        return report


def _read_new(
    report: Report, plugins: KnownPlugins, *, improved: bool
) -> tuple[Source, Report, PolicyDocument]:
    """A document that has the newer shape already."""
    elsewhere = {
        "strategies": [Home("", "`strategies` belongs to `apiVersion: descheduler/v1alpha1`")],
        "tracing": [Home("", "tracing is set by flags such as `--otel-collector-endpoint`")],
    }
    source = report.source
    hints = cache(lambda: document_hints(PolicyDocument, plugins) | elsewhere)
    walker = Walker(report, hints, improved=improved)
    plain = walker.struct(source.root, shape_of(PolicyDocument), ())
    return source, report, convert(plain, PolicyDocument)


def _read_old(report: Report, plugins: KnownPlugins) -> tuple[Source, Report, PolicyDocument]:
    """A document of the older shape, converted, with a report that speaks of the older lines."""
    newer = {"profiles": [Home("", "`profiles` belongs to `apiVersion: descheduler/v1alpha2`")]}
    ours = partial(hints_of_ours, PolicyDocument, plugins)
    hints = cache(lambda: ours() | document_hints(OldDocument, {}) | newer)
    walker = Walker(report, hints, improved=False)
    plain: dict[str, Any] = walker.struct(report.source.root, shape_of(OldDocument), ())
    values, origins = converted(plain, report, plugins)
    tree = Source(report.source.name, as_node(values))
    return tree, report.seen_through(origins), convert(values, PolicyDocument)


def _complete(
    document: PolicyDocument, version: str, tree: Source, report: Report, plugins: KnownPlugins
) -> Policy:
    """The policy, with every rule asked that goes beyond the shape."""
    improved = version == IMPROVED
    hints = cache(partial(args_hints, PolicyDocument, plugins))
    reader = ProfileReader(tree, report, plugins, hints, improved=improved)
    profiles = tuple(
        reader.read(profile, ("profiles", index))
        for index, profile in enumerate(document.profiles)
        if profile is not None
    )
    providers = metrics_providers(document, report, improved=improved)
    return Policy(
        api_version=version,
        profiles=profiles,
        node_selector=node_selector(document, report),
        limits=limits(document, improved=improved),
        grace_period_seconds=document.grace_period_seconds,
        eviction_failure_event_notification=document.eviction_failure_event_notification,
        metrics_collector=document.metrics_collector.enabled,
        metrics_providers=providers,
        soft_taints=soft_taints(document, profiles, report),
        warnings=report.warnings,
    )
