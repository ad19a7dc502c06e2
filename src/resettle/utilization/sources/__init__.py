"""Where measurements come from: the metrics API and Prometheus.

`poller` asks the sources that a policy names, in the background or once; `metrics_api` and
`prometheus` are the sources. They only read. Start with `poller`. `cycle`, `runtime`, `controllers`
and `cli` import it.

Import from outside: `poller`.
"""
