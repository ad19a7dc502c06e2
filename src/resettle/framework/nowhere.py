"""Why no node will do for a pod, in full: what rules each one out, and where little is missing.

A plan only needs to know that none will. This is for whoever asks about the one pod.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from resettle.framework.verdict import Refusal
from resettle.model.fit import Fit
from resettle.model.fleet import NodeSet
from resettle.model.ground import Ground, Shortage
from resettle.model.outlook import Outlook
from resettle.model.pod import Pod
from resettle.model.snapshot import Snapshot

_SENTENCES = {
    "would-break": ("no node of {count}", "takes it without harm to others: {grounds}"),
    "no-better-node": ("none of the {count} nodes that would be better", "takes it: {grounds}"),
}
_OTHERWISE = ("no node of {count}", "takes it: {grounds}")


def in_full(refusal: Refusal, pod: Pod, snapshot: Snapshot, among: NodeSet) -> Refusal:
    """The same refusal, with what rules out each node of the set but the pod's own."""
    judge: Fit | Outlook = snapshot.fit if snapshot.semantics.weak_fit else snapshot.outlook
    asked = among & ~snapshot.fleet.only(pod.node)
    ruled_out = judge.ruled_out(pod, asked)
    if not ruled_out:
        return refusal
    shortages = sorted(_shortages(pod, snapshot, judge, ruled_out), key=lambda it: it.share)
    facts = {
        "count": asked.bit_count(),
        "grounds": ", ".join(f"{it.nodes.bit_count()} {it.says}" for it in ruled_out),
        "ruled_out": ruled_out,
        "short": shortages[:1],
    }
    subject, says = _SENTENCES.get(refusal.code, _OTHERWISE)
    return structs.replace(refusal, subject=subject, says=says, facts=refusal.facts | facts)


def _shortages(
    pod: Pod, snapshot: Snapshot, judge: Fit | Outlook, ruled_out: list[Ground]
) -> Iterator[Shortage]:
    """What is missing on each node where room is the matter, and of one resource only."""
    fleet = snapshot.fleet
    for ground in ruled_out:
        if ground.code != "room":
            continue
        for node in fleet.members(ground.nodes):
            lacking = judge.lacking(pod, node.name)
            if len(lacking) == 1:
                ((resource, amount),) = lacking.items()
                offer = fleet.offers(resource)[fleet.position[node.name]] or 1
                yield Shortage(node.name, resource, amount, amount / offer)
