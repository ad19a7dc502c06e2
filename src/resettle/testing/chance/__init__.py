"""Clusters and policies by the throw of dice; `resettle.testing.strategies` is the way in.

| module     | what it holds                                             |
|------------|-----------------------------------------------------------|
| `tables`   | how a node, a pod and a budget may turn out               |
| `clusters` | a cluster thrown from those tables                        |
| `sketches` | a world that can be printed in the language of builders   |
| `policies` | a policy thrown from what an operator might write         |
| `thinning` | a policy with parts left out                              |
"""
