"""Extension points, the draft, verdicts, the plan, limits: for plugins and for programs.

`descheduler` draws a plan: it runs the plugins of each profile over a `view`, and each of them
writes to a `draft`, whose proposals pass `admission`. `plugin` says what a plugin may provide,
`codes` explains every refusal code. It has no strategy of its own (those are `plugins`) and
carries nothing out (that is `eviction`). Start with `descheduler`, or with `plugin` to write a
plugin. Plugins out of tree import this package and `resettle.model`, and nothing else but
`resettle.testing`.

Import from outside: `admission`, `codes`, `controller`, `descheduler`, `draft`, `limits`, `mover`,
`plan`, `plan_state`, `plugin`, `profile`, `registry`, `tracing`, `verdict`, `view`.
"""

from resettle.errors import (
    AnswerLost,
    ClusterError,
    InputError,
    NotNow,
    NotThisPod,
    PluginError,
    PolicyError,
    ResettleError,
)
from resettle.framework.controller import (
    Controller,
    ControllerClock,
    ControllerHandle,
    ControllerLog,
)
from resettle.framework.descheduler import Descheduler, build_descheduler
from resettle.framework.draft import Draft
from resettle.framework.mover import (
    ApiRequests,
    ApiResponse,
    Evictor,
    Mover,
    MoveResponse,
    MoveResult,
    Options,
)
from resettle.framework.plan import (
    Move,
    NodeUtilizationSummary,
    Note,
    Plan,
    PluginRun,
    Proposal,
    Spent,
    summarize_node_utilization,
)
from resettle.framework.plugin import ChangeScope, Permission, Plugin, PreparedFilter, Setting
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
    include_exclude_problems,
    parse_duration,
    selector_problems,
)
from resettle.policy.document import Limits, Policy
from resettle.policy.load import load_policy
from resettle.policy.problems import Problem, did_you_mean

__all__ = [
    "AnswerLost",
    "ApiRequests",
    "ApiResponse",
    "Args",
    "Band",
    "ChangeScope",
    "ClusterError",
    "Controller",
    "ControllerClock",
    "ControllerHandle",
    "ControllerLog",
    "Descheduler",
    "Draft",
    "Duration",
    "Evictor",
    "ExtensionPoint",
    "InputError",
    "Instance",
    "Int32",
    "Kind",
    "Limit",
    "Limits",
    "Move",
    "MoveResponse",
    "MoveResult",
    "Mover",
    "Namespaces",
    "NodeUtilizationSummary",
    "NotNow",
    "NotProposed",
    "NotThisPod",
    "Note",
    "Options",
    "Permission",
    "Plan",
    "Plugin",
    "PluginError",
    "PluginRun",
    "Policy",
    "PolicyError",
    "PreparedFilter",
    "Problem",
    "Profile",
    "Proposal",
    "Refusal",
    "Registry",
    "ResettleError",
    "SelectingArgs",
    "Setting",
    "Spent",
    "Stopped",
    "Unsigned",
    "Verdict",
    "View",
    "build_descheduler",
    "default_registry",
    "did_you_mean",
    "include_exclude_problems",
    "load_policy",
    "parse_duration",
    "selector_problems",
    "summarize_node_utilization",
]
