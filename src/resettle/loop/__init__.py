"""Cycle after cycle: the policy read anew when it changes, the lease kept, a stop obeyed."""

from resettle.loop.policy_file import PolicyFile
from resettle.loop.runner import Runner
from resettle.loop.settings import Settings

__all__ = ["PolicyFile", "Runner", "Settings"]
