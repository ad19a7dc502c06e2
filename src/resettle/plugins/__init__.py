"""The plugins that come with resettle, one file or one package each.

A plugin is a value of `framework.Plugin`, found through the entry points in `pyproject.toml`. Where
one file is not enough, the plugin is a package with `plugin.py` and `args.py`. Plugins propose
moves and refuse them; they never act. Start with `pod_life_time`. `cli`, `explain` and `testing`
may import a plugin; the others find it by name.

Import from outside: `low_node_utilization`.
"""
