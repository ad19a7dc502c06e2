"""Label selectors: the API object, the string form, and the one compiled form both become.

A compiled `Selector` is hashable, so results can be cached by it. A missing selector of a
Kubernetes object selects `NOTHING`; a missing selector of a policy restricts nothing, which callers
write as `EVERYTHING`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from resettle.errors import InputError

_NAME = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def is_label_key(key: str) -> bool:
    """Whether Kubernetes accepts this as the key of a label."""
    prefix, slash, name = key.rpartition("/")
    if slash and (not _PREFIX.fullmatch(prefix) or len(prefix) > 253):
        return False
    return _NAME.fullmatch(name) is not None


def is_label_value(value: str) -> bool:
    """Whether Kubernetes accepts this as the value of a label."""
    return value == "" or _NAME.fullmatch(value) is not None


def as_int64(text: str) -> int | None:
    """The number that Go's strconv would read, or None."""
    if not re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


class Requirement(Struct, frozen=True, cache_hash=True):
    """One condition on a label: key, operator, values."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels meet the condition."""
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
            case "DoesNotExist":
                return self.key not in labels
            case "Gt" | "Lt":
                return self.key in labels and self.compares(labels[self.key])
        return False

    def compares(self, value: str) -> bool:
        """For Gt and Lt: whether a label's value, as a whole number, satisfies the comparison."""
        have, limit = as_int64(value), as_int64(self.values[0])
        if have is None or limit is None:
            return False
        return have > limit if self.operator == "Gt" else have < limit


class Selector(Struct, frozen=True, cache_hash=True):
    """A conjunction of requirements; without any it matches everything."""

    requirements: tuple[Requirement, ...] = ()
    never: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        if self.never:
            return False
        for requirement in self.requirements:  # noqa: SIM110 - a generator is too slow here
            if not requirement.matches(labels):
                return False
        return True

    def narrow(self, more: tuple[Requirement, ...]) -> Selector:
        """The selector with more requirements; `NOTHING` stays `NOTHING`."""
        if self.never or not more:
            return self
        return Selector((*self.requirements, *more))


EVERYTHING = Selector()
NOTHING = Selector(never=True)


class Expression(Struct, frozen=True, forbid_unknown_fields=True):
    """A row of `matchExpressions`."""

    key: str
    """The key of the label."""
    operator: str
    """`In`, `NotIn`, `Exists` or `DoesNotExist`."""
    values: tuple[str, ...] = ()
    """Values for `In` and `NotIn`."""


class LabelSelector(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The selector object of the Kubernetes API, as people write it."""

    match_labels: dict[str, str] = {}
    """Labels that must have exactly these values."""
    match_expressions: tuple[Expression, ...] = ()
    """Requirements that must all hold."""

    def problems(self) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
        """(path, what, fix) for each part that Kubernetes rejects."""
        for key, value in self.match_labels.items():
            if not is_label_key(key):
                yield ("matchLabels", key), f"`{key}` is not a label key", _KEY_FIX
            if not is_label_value(value):
                yield ("matchLabels", key), f"`{value}` is not a label value", _VALUE_FIX
        for i, row in enumerate(self.match_expressions):
            at = ("matchExpressions", i)
            if not is_label_key(row.key):
                yield (*at, "key"), f"`{row.key}` is not a label key", _KEY_FIX
            if row.operator not in OPERATORS:
                yield (
                    (*at, "operator"),
                    f"`{row.operator}` is not an operator",
                    f"write one of {', '.join(OPERATORS)}",
                )
            elif row.operator in ("In", "NotIn") and not row.values:
                yield (*at, "values"), f"`{row.operator}` needs values", "list at least one"
            elif row.operator in ("Exists", "DoesNotExist") and row.values:
                yield (*at, "values"), f"`{row.operator}` takes no values", "remove `values`"
            for value in row.values:
                if not is_label_value(value):
                    yield (*at, "values"), f"`{value}` is not a label value", _VALUE_FIX

    def compile(self) -> Selector | None:
        """The selector to match with, or None if it is invalid."""
        if next(self.problems(), None) is not None:
            return None
        labels = (Requirement(k, "In", (v,)) for k, v in sorted(self.match_labels.items()))
        rows = (Requirement(r.key, r.operator, r.values) for r in self.match_expressions)
        return Selector((*labels, *rows))


_KEY_FIX = "a key is an optional DNS prefix and `/`, then up to 63 letters, digits, `-_.`"
_VALUE_FIX = "a value is empty, or up to 63 letters, digits, `-_.`"


_TERM = re.compile(
    r"""\s*(?:
        (?P<absent>!)\s*(?P<absent_key>[^\s,=!()<>]+)
      | (?P<key>[^\s,=!()<>]+)
        (?:\s*(?P<op>==|=|!=|>|<)\s*(?P<value>[^\s,=!()<>]*)
          |\s+(?P<set>in|notin)\s*\(\s*(?P<values>[^()]*)\)
        )?
    )\s*(?:,|$)""",
    re.VERBOSE,
)


def parse_selector(text: str) -> Selector:
    """The selector of a string such as `pool=blue,zone in (a,b),!gpu`."""
    requirements: list[Requirement] = []
    at = 0
    while at < len(text) and text.strip():
        term = _TERM.match(text, at)
        if term is None or (term.end() == len(text) and text.rstrip().endswith(",")):
            raise InputError(
                f"`{text}` is not a label selector: stuck at `{text[at:].strip() or ','}`",
                "write terms such as `key=value`, `key!=value`, `key in (a,b)`, `key` or `!key`, "
                "separated by commas",
            )
        requirements.append(_requirement(term, text))
        at = term.end()
    return Selector(tuple(requirements))


def _requirement(term: re.Match[str], text: str) -> Requirement:
    if term["absent"]:
        requirement = Requirement(term["absent_key"], "DoesNotExist")
    elif term["set"]:
        values = tuple(sorted(value.strip() for value in term["values"].split(",")))
        requirement = Requirement(term["key"], "In" if term["set"] == "in" else "NotIn", values)
    elif term["op"] in ("=", "=="):
        requirement = Requirement(term["key"], "In", (term["value"],))
    elif term["op"] == "!=":
        requirement = Requirement(term["key"], "NotIn", (term["value"],))
    elif term["op"]:
        requirement = Requirement(
            term["key"], "Gt" if term["op"] == ">" else "Lt", (term["value"],)
        )
    else:
        requirement = Requirement(term["key"], "Exists")
    if not is_label_key(requirement.key):
        raise InputError(f"`{text}`: `{requirement.key}` is not a label key", _KEY_FIX)
    for value in requirement.values:
        if requirement.operator in ("Gt", "Lt") and as_int64(value) is None:
            raise InputError(f"`{text}`: `{value}` is not a whole number", "compare with a number")
        if not is_label_value(value):
            raise InputError(f"`{text}`: `{value}` is not a label value", _VALUE_FIX)
    return requirement
