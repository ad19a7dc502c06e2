"""From the text of a policy to a `Policy`, or to all of its problems at once."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import convert
from yaml import MappingNode

from resettle.policy.document import IMPROVED, V1ALPHA1, Policy, PolicyDocument
from resettle.policy.envelope import read_envelope
from resettle.policy.hints import Home, args_hints, document_hints, hints_of_ours
from resettle.policy.known import KnownPlugins
from resettle.policy.nodes import as_node
from resettle.policy.profiles import ProfileReader
from resettle.policy.report import Report, policy_error
from resettle.policy.rules import limits, metrics_providers, node_selector
from resettle.policy.source import Source, UnreadableError, read_source
from resettle.policy.v1alpha1 import OldDocument, converted
from resettle.policy.walk import Walker, shape_of


class Reading(NamedTuple):
    """A policy, its document in the newer shape, and the apiVersion it was written in."""

    policy: Policy
    document: PolicyDocument
    version: str


def load_policy(text: str | bytes, *, name: str, plugins: KnownPlugins) -> Policy:
    """The policy in this text; raises `PolicyError` with every problem and its place."""
    return read_policy(text, name=name, plugins=plugins).policy


def read_policy(
    text: str | bytes, *, name: str, plugins: KnownPlugins, improved: bool = False
) -> Reading:
    """The same, with the document beside it.

    With `improved`, whatever its apiVersion it is read as `resettle/v1` would be.
    """
    try:
        source = read_source(text, name)
    except UnreadableError as error:
        raise policy_error(name, [error.problem]) from None
    report = Report(source)
    if not isinstance(source.root, MappingNode):
        report.error((), "a policy is a mapping", "start with `apiVersion: descheduler/v1alpha2`")
        report.raise_errors()
    written = read_envelope(report)
    version = IMPROVED if improved else written
    if written == V1ALPHA1:
        tree, view, document = _read_old(report, plugins)
    else:
        tree, view, document = _read_new(report, plugins, improved=version == IMPROVED)
    policy = _complete(document, version, tree, view, plugins)
    report.raise_errors()
    return Reading(policy, document, written)


def _read_new(
    report: Report, plugins: KnownPlugins, *, improved: bool
) -> tuple[Source, Report, PolicyDocument]:
    """A document that has the newer shape already."""
    hints = document_hints(PolicyDocument, plugins) | {
        "strategies": [Home("", "`strategies` belongs to `apiVersion: descheduler/v1alpha1`")],
    }
    source = report.source
    walker = Walker(report, hints, improved=improved)
    plain = walker.struct(source.root, shape_of(PolicyDocument), ())
    return source, report, convert(plain, PolicyDocument)


def _read_old(report: Report, plugins: KnownPlugins) -> tuple[Source, Report, PolicyDocument]:
    """A document of the older shape, converted, with a report that speaks of the older lines."""
    newer = {"profiles": [Home("", "`profiles` belongs to `apiVersion: descheduler/v1alpha2`")]}
    ours = hints_of_ours(PolicyDocument, plugins)
    hints = ours | document_hints(OldDocument, {}) | newer
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
        limits=limits(document, improved=improved),
        grace_period_seconds=document.grace_period_seconds,
        eviction_failure_event_notification=document.eviction_failure_event_notification,
        metrics_collector=document.metrics_collector.enabled,
        metrics_providers=providers,
        warnings=report.warnings,
    )
