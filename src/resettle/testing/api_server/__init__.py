"""An API server in the same process: real HTTP on a loopback port, everything in memory.

`server` starts and stops it, `http` is its front end on aiohttp, `router` finds what a request is
about, `discovery` lists what is served, `status` words refusals, `faults` breaks connections and
answers on purpose, `clock` is a clock that a test sets by hand. `storage` keeps the objects and
`objects` knows how each verb treats them. It is no real API server: what differs is on the page
about testing. Start with `server`. `testing`, the tests and the benchmarks import it.

Import from outside: `clock`, `server`.
"""

from resettle.testing.api_server.clock import ManualClock
from resettle.testing.api_server.discovery import DeniedPermission
from resettle.testing.api_server.faults import Fault, Faults
from resettle.testing.api_server.objects.custom_kinds import definition
from resettle.testing.api_server.router import ReceivedRequest
from resettle.testing.api_server.server import ApiServer
from resettle.testing.api_server.storage.store import ObjectChange, Store

__all__ = [
    "ApiServer",
    "DeniedPermission",
    "Fault",
    "Faults",
    "ManualClock",
    "ObjectChange",
    "ReceivedRequest",
    "Store",
    "definition",
]
