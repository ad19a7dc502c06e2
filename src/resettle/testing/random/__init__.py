"""Random clusters and policies that look like real ones, drawn from a seed.

`clusters` and `policies` are pure functions of a random number generator that is passed in;
`resettle.testing.strategies` offers the same to Hypothesis. Start with `clusters`. `testing`, the
tests and the benchmarks import it.

Import from outside: `clusters`, `policies`.
"""
