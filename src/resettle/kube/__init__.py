"""Talking to a Kubernetes API server.

Requests and responses, connections, credentials, watches and the lease belong here. Which pods
move does not: nothing here knows plugins or plans.

Start reading in `transport/client.py`: every request of the event loop passes through
`Client.send`. All that touches a cluster may import this package.
"""
