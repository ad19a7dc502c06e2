"""The rules of load: the names that others ask for, each worked out from what stands above it."""

from __future__ import annotations

from .monitoring import LOAD_RULES, recorded, rules
from .promql import read

_KINDS = [f"{what}:{of}" for what in ("utilization", "pressure") for of in ("cpu", "memory")]
_DISTANCES = ("ideal_point_positive_distance", "linear_amplified_ideal_point_positive_distance:k3")
PUBLIC = {
    *(f"descheduler:node{kind}:avg1m" for kind in _KINDS),
    *(f"descheduler:averageworkers{kind}:avg1m" for kind in _KINDS),
    *(f"descheduler:node{kind}:avg1m:positivedeviation" for kind in _KINDS),
    *(f"descheduler:node{kind}:p66_5m:positivedeviation" for kind in _KINDS),
    *(
        f"descheduler:node:{distance}:{over}"
        for distance in _DISTANCES
        for over in ("avg1m", "p66_5m")
    ),
    "descheduler:combined_utilization_and_pressure:avg1m",
    "descheduler:node:eviction_count:10m",
    "descheduler:node:cooldown_multiplier:10m",
    "descheduler:node:actuation_priority:p66_5m",
}
"""As OpenShift's descheduler operator records them."""


def test_what_openshift_records_is_recorded_under_the_same_names() -> None:
    assert {name for name in recorded() if name.startswith("descheduler:")} == PUBLIC


def test_nothing_is_recorded_twice() -> None:
    names = [rule["record"] for rule in rules(LOAD_RULES) if "record" in rule]

    assert len(set(names)) == len(names)


def test_every_rule_goes_by_those_above_it() -> None:
    """Those below would be half a minute old."""
    above: set[str] = set()
    for rule in rules(LOAD_RULES):
        assert {name for name in read(rule["expr"]).metrics if ":" in name} <= above
        above.add(rule.get("record", ""))
