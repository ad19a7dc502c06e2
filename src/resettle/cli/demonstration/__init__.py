"""The demonstration: a small shop on a pocket cluster, and what befalls it.

| module      | what it holds                                               |
|-------------|-------------------------------------------------------------|
| `shop`      | nodes, workloads, budgets and the policy                    |
| `acts`      | what happens to them, one thing after the other             |
| `stage`     | the server, its life and its clock, opened and closed       |
| `requests`  | evictions and deletions, over HTTP                          |
| `cycles`    | one cycle: look, plan, evict, see where the pods went       |
| `telling`   | all of it in words and bars                                 |
"""
