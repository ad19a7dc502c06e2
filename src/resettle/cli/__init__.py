"""The command line: words in, words out.

`main` finds the command, `commands` has one file for each, `flags` those that commands share,
`inputs` goes from flags to snapshot and policy, `text` words answers for people and as JSON. It
decides nothing about pods. Start with `main`, then `commands.plan`. Nothing imports it.

Import from outside: `main`.
"""
