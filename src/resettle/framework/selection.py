"""Which pods a plugin's `namespaces` and `labelSelector` leave it with."""

from __future__ import annotations

from collections.abc import Iterable

from resettle.model.pod import Pod, Template
from resettle.model.selector import EVERYTHING
from resettle.model.snapshot import Snapshot
from resettle.policy.args import SelectingArgs


class Selection:
    """The selection of one plugin, asked once for each template."""

    def __init__(self, args: SelectingArgs, snapshot: Snapshot) -> None:
        self._namespaces = args.namespaces
        selector = args.label_selector
        self._selector = (selector.compiled() if selector else None) or EVERYTHING
        self._known: dict[Template, bool] = {}

    def __contains__(self, template: Template) -> bool:
        known = self._known.get(template)
        if known is None:
            known = self._known[template] = (
                self._namespaces is None or self._namespaces.admits(template.namespace)
            ) and self._selector.matches(template.labels)
        return known


def selected(args: SelectingArgs, snapshot: Snapshot, pods: Iterable[Pod]) -> list[Pod]:
    """Those of the pods that the plugin's arguments select."""
    selection = snapshot.prepared(args, Selection)
    return [pod for pod in pods if pod.template in selection]


def selected_of(args: SelectingArgs, snapshot: Snapshot, template: Template) -> list[Pod]:
    """The active pods of the template, if the plugin's arguments select them."""
    chosen = template in snapshot.prepared(args, Selection)
    return snapshot.active_of(template) if chosen else []
