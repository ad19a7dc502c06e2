"""The policy document: read it, report all of its problems, describe it.

`load` reads a policy file in any apiVersion, `document` has its types, `args` the base of every
plugin's arguments, `problems` how a mistake is reported with its place and remedy. It runs no
plugin and knows none by name: those that exist are passed in. Start with `load`. Everything above
`model` may import it.

Import from outside: `args`, `document`, `json_schema`, `load`, `problems`, `profiles`.
"""
