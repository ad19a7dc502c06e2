"""How busy nodes are: requested or measured usage, bands, history.

`usage` answers how much a node or pod uses, `bands` whether a node is under, within or over its
thresholds, `history` what earlier cycles saw. Nothing here asks a metrics server: `sources` does,
and passes measurements in. Start with `bands`. Everything above `framework` may import it.

Import from outside: `bands`, `describe`, `history`, `metrics_args`, `usage`.
"""
