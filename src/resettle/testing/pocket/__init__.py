"""A pocket API server: real HTTP on a loopback port, everything in memory.

| module                                       | what it holds                                     |
|----------------------------------------------|---------------------------------------------------|
| `kinds`, `registering`                       | what is served, custom kinds included             |
| `ledger`, `history`                          | the objects, their versions, what changed when    |
| `views`, `selecting`, `lists`, `watching`    | reading                                           |
| `creating`, `updating`, `patches`            | writing                                           |
| `shapes`, `defaults`                         | what an object must have, and what is added to it |
| `deleting`, `eviction`, `binding`, `scaling` | the rest of a pod's life, and of its owner's      |
| `discovery`, `routes`, `reviews`, `refusals` | what a request is about, and how it is declined   |
| `answers`, `protobuf`                        | from a request to its answer                      |
| `http`, `speech`, `faults`                   | from an answer to the client, or to a mishap      |
| `server`, `store`, `clock`                   | what a test holds                                 |
"""

from resettle.testing.pocket.asked import Asked
from resettle.testing.pocket.clock import HandClock
from resettle.testing.pocket.faults import Fault, Faults
from resettle.testing.pocket.registering import definition
from resettle.testing.pocket.reviews import Ban
from resettle.testing.pocket.server import PocketServer
from resettle.testing.pocket.store import Change, Store

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
