"""Why a pod moves or stays, how a node and a cycle look, and what would change the answer.

The plan is drawn as always, with some pods watched, and then asked: nothing here decides.
`what_if` draws a plan with a change, `smallest_change` searches for one that moves the pod,
`settings` and `limit_settings` list what could be changed. Start with `pod`. `cli` imports it.

Import from outside: `cycle`, `node`, `pod`, `smallest_change`, `what_if`.
"""
