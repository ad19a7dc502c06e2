"""Answers as text for people and as documents for programs.

One module for each kind of answer; `terminal` aligns and wraps. Sentences come from the data of an
answer, never from taking other sentences apart. Start with `plan`. `cli.commands` imports it.

Import from outside: `explain_cycle`, `explain_node`, `explain_pod`, `job_progress`, `plan`,
`record`, `simulation`, `simulation_json`, `terminal`.
"""
