"""The commands that run a controller in a process of its own, one module for each.

They turn flags into settings and run a component of `controllers`; nothing is decided here. Start
with `soft_tainter`. `cli.main` and tests import it.

Import from outside: `migration_controller`, `soft_tainter`.
"""
