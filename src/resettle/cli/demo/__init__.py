"""`resettle demo`: a short story on a small cluster in the same process, evictions included.

`scenario` has the cluster and what happens to it, `cluster` runs it on the test API server,
`narration` prints it. Start with `scenario`. `cli.commands.demo` imports it.

Import from outside: `cluster`, `narration`, `scenario`.
"""
