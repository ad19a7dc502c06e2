"""`apiVersion` and `kind`: which document this is, and which it was probably meant to be."""

from __future__ import annotations

from yaml import Node, ScalarNode

from resettle.policy.document import API_VERSIONS, KIND, V1ALPHA1, V1ALPHA2
from resettle.policy.problem import did_you_mean
from resettle.policy.report import Report
from resettle.policy.scalars import meaning
from resettle.policy.source import Source


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
