"""YAML with the position of every key, read beside the types it should have.

`parse` reads text within bounds (size, nesting, aliases), `source` finds the place of a key,
`typed_walk` checks a document against a struct key by key and reports every mistake, `messages`
words them. Of policies it knows which fields only `resettle/v1` has, and not what a key is for.
Start with `typed_walk`. `policy` imports it; `cli` and `controllers` do, for other inputs.

Import from outside: `messages`, `parse`, `source`, `typed_walk`.
"""
