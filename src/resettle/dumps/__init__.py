"""Clusters in files: read, write, anonymize.

`reader` reads what `kubectl get -o json` or `resettle snapshot` wrote, `collection` gathers objects
of every kind into a snapshot, `writer` writes a capture, `anonymize` hashes names, `usage` holds
measurements. It draws no plans. Start with `reader`. `record`, `testing` and `cli` import it.

Import from outside: `anonymize`, `collection`, `reader`, `writer`.
"""
