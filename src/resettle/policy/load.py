"""From the text of a policy to a `Policy`, or to all of its problems at once."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import convert
from yaml import MappingNode

from resettle.policy.document import IMPROVED, V1ALPHA1, Limits, Policy, PolicyDocument
from resettle.policy.envelope import read_envelope
from resettle.policy.hints import Home, args_hints, document_hints
from resettle.policy.known import KnownPlugins
from resettle.policy.nodes import as_node
from resettle.policy.profiles import ProfileReader
from resettle.policy.report import Report, policy_error
from resettle.policy.rules import metrics_providers, node_selector
from resettle.policy.source import Source, UnreadableError, read_source
from resettle.policy.v1alpha1 import OldDocument, converted
from resettle.policy.walk import Walker, shape_of


class Reading(NamedTuple):
    """A policy and the document it came from, in the shape of `descheduler/v1alpha2`."""

    policy: Policy
    document: PolicyDocument


def load_policy(text: str | bytes, *, name: str, plugins: KnownPlugins) -> Policy:
    """The policy in this text; raises `PolicyError` with every problem and its place."""
    return read_policy(text, name=name, plugins=plugins).policy


def read_policy(text: str | bytes, *, name: str, plugins: KnownPlugins) -> Reading:
    """The same, with the document beside it."""
    try:
        source = read_source(text, name)
    except UnreadableError as error:
        raise policy_error(name, [error.problem]) from None
    report = Report(source)
    if not isinstance(source.root, MappingNode):
        report.error((), "a policy is a mapping", "start with `apiVersion: descheduler/v1alpha2`")
        report.raise_errors()
    version = read_envelope(report)
    if version == V1ALPHA1:
        tree, view, document = _read_old(report, plugins)
    else:
        tree, view, document = _read_new(report, plugins)
    policy = _complete(document, version, tree, view, plugins)
    report.raise_errors()
    return Reading(policy, document)


def _read_new(report: Report, plugins: KnownPlugins) -> tuple[Source, Report, PolicyDocument]:
    """A document that has the newer shape already."""
    hints = document_hints(PolicyDocument, plugins) | {
        "strategies": [Home("", "`strategies` belongs to `apiVersion: descheduler/v1alpha1`")],
    }
    source = report.source
    plain = Walker(report, hints).struct(source.root, shape_of(PolicyDocument), ())
    return source, report, convert(plain, PolicyDocument)


def _read_old(report: Report, plugins: KnownPlugins) -> tuple[Source, Report, PolicyDocument]:
    """A document of the older shape, converted, with a report that speaks of the older lines."""
    hints = document_hints(OldDocument, {}) | {
        "profiles": [Home("", "`profiles` belongs to `apiVersion: descheduler/v1alpha2`")],
    }
    plain: dict[str, Any]
    plain = Walker(report, hints).struct(report.source.root, shape_of(OldDocument), ())
    values, origins = converted(plain, report, plugins)
    tree = Source(report.source.name, as_node(values))
    return tree, report.seen_through(origins), convert(values, PolicyDocument)


def _complete(
    document: PolicyDocument, version: str, tree: Source, report: Report, plugins: KnownPlugins
) -> Policy:
    """The policy, with every rule asked that goes beyond the shape."""
    improved = version == IMPROVED
    hints = args_hints(PolicyDocument, plugins)
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
        limits=Limits(
            total=document.max_no_of_pods_to_evict_total,
            node=document.max_no_of_pods_to_evict_per_node,
            namespace=document.max_no_of_pods_to_evict_per_namespace,
        ),
        grace_period_seconds=document.grace_period_seconds,
        eviction_failure_event_notification=document.eviction_failure_event_notification,
        metrics_collector=document.metrics_collector.enabled,
        metrics_providers=providers,
        warnings=report.warnings,
    )
