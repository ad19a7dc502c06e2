"""The framework: extension points, drafts, verdicts and plans, for plugins and for programs."""

from resettle.framework.descheduler import Descheduler, assembled
from resettle.framework.draft import Draft
from resettle.framework.plan import Move, Note, Plan, PluginRun
from resettle.framework.plugin import Kind, Plugin
from resettle.framework.profile import Instance, Profile
from resettle.framework.registry import Registry, default_registry
from resettle.framework.verdict import Limit, Refusal, Stopped, Verdict
from resettle.policy.args import Args, Duration, Namespaces, SelectingArgs, Unsigned
from resettle.policy.document import Limits
from resettle.policy.problem import Problem

__all__ = [
    "Args",
    "Descheduler",
    "Draft",
    "Duration",
    "Instance",
    "Kind",
    "Limit",
    "Limits",
    "Move",
    "Namespaces",
    "Note",
    "Plan",
    "Plugin",
    "PluginRun",
    "Problem",
    "Profile",
    "Refusal",
    "Registry",
    "SelectingArgs",
    "Stopped",
    "Unsigned",
    "Verdict",
    "assembled",
    "default_registry",
]
