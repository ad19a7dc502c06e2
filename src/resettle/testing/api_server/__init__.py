"""An API server in the same process: real HTTP on a loopback port, everything in memory.

`server` starts and stops it, `http` is its front end on aiohttp, `router` finds what a request is
about, `discovery` lists what is served, `status` words refusals, `faults` breaks connections and
answers on purpose, `clock` is a clock that a test sets by hand. `storage` keeps the objects and
`objects` knows how each verb treats them. It is no real API server: what differs is on the page
about testing. Start with `server`. `testing`, the tests and the benchmarks import it.

Import from outside: `clock`, `server`.
"""

from resettle.testing.api_server.clock import HandClock
from resettle.testing.api_server.discovery import Ban
from resettle.testing.api_server.faults import Fault, Faults
from resettle.testing.api_server.http import Asked
from resettle.testing.api_server.objects.custom_kinds import definition
from resettle.testing.api_server.server import PocketServer
from resettle.testing.api_server.storage.store import Change, Store

__all__ = [
    "Asked",
    "Ban",
    "Change",
    "Fault",
    "Faults",
    "HandClock",
    "PocketServer",
    "Store",
    "definition",
]
