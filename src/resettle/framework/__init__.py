"""Extension points, the draft, verdicts, the plan, limits: for plugins and for programs.

`descheduler` draws a plan: it runs the plugins of each profile over a `view`, and each of them
writes to a `draft`, whose proposals pass `admission`. `plugin` says what a plugin may provide,
`codes` explains every refusal code. It has no strategy of its own (those are `plugins`) and
carries nothing out (that is `eviction`). Start with `plugin`, then `draft`. Plugins out of tree
import this package and `resettle.model`, and nothing else but `resettle.testing`.

Import from outside: `admission`, `codes`, `descheduler`, `draft`, `limits`, `mover`, `plan`,
`plan_state`, `plugin`, `profile`, `registry`, `tracing`, `verdict`, `view`.
"""

from resettle.errors import (
    AnswerLost,
    ClusterError,
    InputError,
    PluginError,
    PolicyError,
    ResettleError,
)
from resettle.framework.descheduler import Descheduler, assembled
from resettle.framework.draft import Draft
from resettle.framework.mover import Ending, Hands, Mover, Options, Outcome, Reply
from resettle.framework.plan import Move, Note, Plan, PluginRun, Proposal, Spent, Survey, surveyed
from resettle.framework.plugin import Deed, Knob, Plugin, PreparedGuard, Reach
from resettle.framework.profile import Instance, Profile
from resettle.framework.registry import Registry, default_registry
from resettle.framework.verdict import Band, Limit, NotProposed, Refusal, Stopped, Verdict
from resettle.framework.view import View
from resettle.model.kinds import Kind
from resettle.policy.args import (
    Args,
    Duration,
    ExtensionPoint,
    Int32,
    Namespaces,
    SelectingArgs,
    Unsigned,
    one_sided,
    parse_duration,
    sound_selector,
)
from resettle.policy.document import Limits, Policy
from resettle.policy.load import load_policy
from resettle.policy.problems import Problem, did_you_mean

__all__ = [
    "AnswerLost",
    "Args",
    "Band",
    "ClusterError",
    "Deed",
    "Descheduler",
    "Draft",
    "Duration",
    "Ending",
    "ExtensionPoint",
    "Hands",
    "InputError",
    "Instance",
    "Int32",
    "Kind",
    "Knob",
    "Limit",
    "Limits",
    "Move",
    "Mover",
    "Namespaces",
    "NotProposed",
    "Note",
    "Options",
    "Outcome",
    "Plan",
    "Plugin",
    "PluginError",
    "PluginRun",
    "Policy",
    "PolicyError",
    "PreparedGuard",
    "Problem",
    "Profile",
    "Proposal",
    "Reach",
    "Refusal",
    "Registry",
    "Reply",
    "ResettleError",
    "SelectingArgs",
    "Spent",
    "Stopped",
    "Survey",
    "Unsigned",
    "Verdict",
    "View",
    "assembled",
    "default_registry",
    "did_you_mean",
    "load_policy",
    "one_sided",
    "parse_duration",
    "sound_selector",
    "surveyed",
]
