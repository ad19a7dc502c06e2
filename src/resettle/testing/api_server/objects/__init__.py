"""How the test API server treats objects: kinds, defaults, validation, writes, subresources.

`kinds` is the table of resources, `defaults` fills in what a real API server would, `schemas` says
what is accepted, `create_update`, `delete`, `patches` and `subresources` are the verbs, `protobuf`
decodes Kubernetes' binary form. Nothing here knows HTTP. Start with `create_update`.

Import from outside: `create_update`, `custom_kinds`, `defaults`, `delete`, `kinds`, `patches`,
`protobuf`, `schemas`, `subresources`.
"""
