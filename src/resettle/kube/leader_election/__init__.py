"""Leader election over a Lease object, as client-go does it.

`election` acquires, renews and releases, `lease` reads and writes the object. What a component does
with its leadership is in `runtime.leadership`. Start with `election`.

Import from outside: `election`, `lease`.
"""
