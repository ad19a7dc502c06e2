"""The framework: extension points, drafts, verdicts and plans, for plugins and for programs."""

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
from resettle.framework.knob import Knob, Reach
from resettle.framework.mover import Ending, Hands, Mover, Options, Outcome, Reply
from resettle.framework.plan import Move, Note, Plan, PluginRun, Proposal, Spent
from resettle.framework.plugin import Deed, Plugin, PreparedGuard
from resettle.framework.profile import Instance, Profile
from resettle.framework.registry import Registry, default_registry
from resettle.framework.survey import Survey, surveyed
from resettle.framework.verdict import Band, Limit, NotProposed, Refusal, Stopped, Verdict
from resettle.framework.view import View
from resettle.model.kinds import Kind
from resettle.policy.args import (
    Args,
    Duration,
    Int32,
    Namespaces,
    SelectingArgs,
    Unsigned,
    one_sided,
    parse_duration,
    sound_selector,
)
from resettle.policy.document import Limits, Policy
from resettle.policy.known import ExtensionPoint
from resettle.policy.load import load_policy
from resettle.policy.problem import Problem, did_you_mean

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
