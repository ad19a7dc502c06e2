"""HTML pages: the report of a simulation.

`simulation_page` puts it together from `html` and `charts`; one file with no outside parts. It
computes nothing about clusters: it is given a simulation's result. Start with `simulation_page`.
`cli` imports it.

Import from outside: `simulation_page`.
"""
