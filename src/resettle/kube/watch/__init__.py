"""Lists, watches and the cache built from them.

`lists` reads every object page by page, `reflector` keeps one kind current by a watch, `store`
holds it, `cache` puts the kinds together into a snapshot, `scales` reads the replicas of other
kinds of workloads. Nothing is written to the cluster. Start with `cache`.

Import from outside: `cache`, `lists`, `scales`.
"""
