"""HTTP/1.1 connections to an API server: pooling, pacing, retries.

Bytes are parsed by a library. Ours are the pool, requests that leave together, the check right
before each request is written, and the difference between an answer that was lost and a request
that was never sent. Start with `client`. `kube`, `eviction`, `controllers`, `runtime` and
`utilization.sources` import it.

Import from outside: `blocking`, `client`, `pacing`.
"""
