"""Metrics of the components, in Prometheus' format.

`catalogue.py` lists every metric with its labels and meaning; `run.py` and `soft_tainter.py` count;
`registry.py` has what they share and writes the text. Only `catalogue` does without
prometheus_client: import the others when metrics are served.
"""
