"""Writes the rules of `deploy/monitoring` once more, as a Prometheus operator takes them.

    python -m tools.operator_rules        (or `make rules`)

Run it after a change of a rule file; a test says when that is due.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

MONITORING = Path(__file__).parents[1] / "deploy" / "monitoring"
SHIPPED = {
    "prometheusrule.yaml": ("resettle", "rules.yaml"),
    "load-prometheusrule.yaml": ("resettle-load", "load-rules.yaml"),
}
"""Each manifest, what it is called in the cluster, and the file that its rules are in."""
_HEAD = """\
# Written by `make rules` from {file}, for a Prometheus operator; edit that file instead.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: {name}
  namespace: resettle
  labels:
    app.kubernetes.io/name: resettle
spec:
"""


def manifest(name: str, file: str) -> str:
    """The PrometheusRule of this name with the rules of a file."""
    text = (MONITORING / file).read_text(encoding="utf-8")
    _, groups, rules = text.partition("groups:\n")
    return _HEAD.format(name=name, file=file) + indent(groups + rules, "  ")


def main() -> None:
    """Writes them all."""
    for written, (name, file) in SHIPPED.items():
        (MONITORING / written).write_text(manifest(name, file), encoding="utf-8")


if __name__ == "__main__":
    main()
