"""The admission policy that limits what the tainter's permission to write nodes lets it change.

Kubernetes grants the writing of a node as a whole. With this policy the tainter's account changes
nothing of it but taints with one of the prefixes, one of our names, and the effect
`PreferNoSchedule`. Other accounts are unaffected. `rbac.admission_policies` has the rules about
nodes; here are the expressions for the taints of the tainter, and the prefixes that it may write.

The prefixes are those of the policy document and of every style that the tainter cleans up. They
stand in the policy itself, so a new prefix takes a new policy: `resettle rbac` prints it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from resettle.controllers.soft_taints.desired import ALL_STYLES, NAMES
from resettle.policy.document import SoftTaints
from resettle.rbac.admission_policies import node_taint_policy
from resettle.rbac.manifests import ManifestNames

Object = dict[str, Any]
# `t` is a taint. The name alone is not enough: `example.com/appropriate` may be of someone else.
_OWN = """\
t.effect == 'PreferNoSchedule' && t.key.matches(variables.names)
  && variables.prefixes.exists(p, t.key.startsWith(p + '/'))"""


def taint_prefixes(settings: SoftTaints | None) -> list[str]:
    """The prefix that the tainter writes by this policy, and those that it cleans up by any."""
    own = [settings.domain] if settings else []
    return sorted(ALL_STYLES.with_prefixes(own).prefixes)


def admission_policy(names: ManifestNames, prefixes: Iterable[str]) -> list[Object]:
    """The admission policy for the account, and the binding that puts it in force.

    Both have the name of the account's roles. A taint with one of our keys and another effect is
    not the tainter's: it can neither set nor remove a hard taint.
    """
    variables = {
        "prefixes": _cel_list(prefixes),
        "names": f"'^[^/]+/({NAMES})$'",
    }
    return node_taint_policy(
        names,
        name=names.name,
        component="soft-tainter",
        own=_OWN,
        otherwise="may change no taints of a node but its own soft ones",
        variables=variables,
    )


def _cel_list(words: Iterable[str]) -> str:
    """The words as a list of CEL.

    None of them has a quotation mark: prefixes of taints are names of DNS domains.
    """
    return json.dumps(list(words)).replace('"', "'")
