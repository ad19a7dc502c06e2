"""One file for each command: its flags, its help, what it runs.

A module has `register(commands)`, which declares the parser, and the function that it runs. What
commands share is in `cli.flags`, `cli.inputs` and `cli.text`. Start with `plan`. `cli.main` and
`cli.demo` import it.

Import from outside: `policy`, `run`.
"""
