"""`resettle migrate`: what an existing installation of the upstream descheduler needs to change.

`inventory` finds policies, commands and Helm values in files, `policies`, `helm_values` and
`flags_and_roles` look at one kind each, `findings` puts the answer together. It writes nothing but
the policy it is asked for. Start with `findings`. `cli.commands.migrate` imports it.

Import from outside: `findings`, `inventory`.
"""
