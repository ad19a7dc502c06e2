"""HTTP/1.1 to an API server: connections, rate limits, retries.

`client` sends requests and watches from an event loop over connections that it keeps open
(`connection`), which read responses with llhttp (`parser`). `blocking` is one connection for lists,
used from a thread. `pacing` says when a request may be sent, and when it may be repeated.

Start reading in `client`. What a response means to a caller (conflict, spent budget) is decided
elsewhere.
"""
