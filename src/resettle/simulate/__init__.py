"""Cycles without a cluster: plans are carried out on values, by a stand-in scheduler.

`simulation` runs the cycles, `scheduler` places replacements, `load_model` says how busy nodes get,
`events` changes the cluster between cycles, `result` sums up. It decides nothing itself: plans come
from `framework`. Start with `simulation`. `web` and `cli` import it.

Import from outside: `events`, `load_model`, `measures`, `ping_pong`, `result`, `scheduler`,
`simulation`.
"""
