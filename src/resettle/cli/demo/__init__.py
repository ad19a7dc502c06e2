"""`resettle demo`: a small cluster in this process, and cycles with real evictions on it.

`scenario` has the cluster and what happens to it, `cluster` runs it on the test API server,
`narration` prints it. Start with `scenario`. `cli.commands.demo` imports it.

Import from outside: `cluster`, `narration`, `scenario`.
"""
