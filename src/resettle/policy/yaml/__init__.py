"""YAML with the position of every key, read beside the types it should have.

`parse` reads text within bounds (size, nesting, aliases), `source` finds the place of a key,
`typed_walk` checks a document against a struct key by key and reports every mistake, `messages`
words them. It knows nothing of policies. Start with `typed_walk`. `policy` imports it, and `cli`
for scenario files and manifests.

Import from outside: `messages`, `parse`, `source`, `typed_walk`.
"""
