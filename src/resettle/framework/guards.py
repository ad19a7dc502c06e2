"""Guards in a row: what the first one that refuses says, and who need not be asked about at all.

Most pods are let go for reasons that they share with all pods of their template. A guard that can
tell so beforehand (`PreparedGuard.lets_go`) is not asked about each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import structs

from resettle.framework.profile import Instance, Profile
from resettle.framework.verdict import Refusal
from resettle.framework.view import View
from resettle.model.pod import Pod, Template

Asked = tuple[str, Callable[[Pod], Refusal | None]]
"""A guard's name, and its question about a pod."""


class Guards:
    """A chain of guards in one view."""

    def __init__(self, chain: Iterable[Instance], view: View) -> None:
        instances = list(chain)
        self.asked: list[Asked] = [(it.name, it.guarding(view)) for it in instances]
        self._easy = [it.letting_go(view) for it in instances]
        self._lets_go: dict[Template, bool] = {}

    def refusal(self, pod: Pod) -> Refusal | None:
        """What the first guard to refuse the pod says, signed with its name."""
        template = pod.template
        free = self._lets_go.get(template)
        if free is None:
            free = self._lets_go[template] = self._frees(template)
        return None if free and not pod.terminating else first_refusal(self.asked, pod)

    def _frees(self, template: Template) -> bool:
        """Whether no guard has anything against pods of the template, as far as they can tell."""
        try:
            return all(lets_go is not None and lets_go(template) for lets_go in self._easy)
        except Exception:
            return False  # each pod is asked about, and refused if that fails too


class Chains:
    """The guards of a profile: those of the filters, and those and the pre-eviction filters."""

    def __init__(self, profile: Profile, view: View) -> None:
        self.filters = Guards(profile.filters, view)
        self.all = Guards((*profile.filters, *profile.pre_eviction_filters), view)


def first_refusal(asked: Iterable[Asked], pod: Pod) -> Refusal | None:
    """What the first of these guards to refuse says, signed with its name."""
    name = ""
    try:
        for name, ask in asked:
            said = ask(pod)
            if said is not None:
                return said if said.by else structs.replace(said, by=name)
    except Exception as error:
        # Unknown denies: a guard that cannot answer lets nothing go.
        facts = {"guard": name, "error": f"{type(error).__name__}: {error}"}
        return Refusal("guard-failed", "could not answer: {error}", name, facts, subject="{guard}")
    return None
