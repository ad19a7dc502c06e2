"""What the test API server keeps: objects with resource versions, their history, lists, watches.

`revisions` numbers every change and keeps the history, `store` is what tests read and write,
`lists` answers pages and selectors, `watch` streams changes. It validates nothing (that is
`objects`). Start with `store`.

Import from outside: `lists`, `revisions`, `store`, `watch`.
"""
