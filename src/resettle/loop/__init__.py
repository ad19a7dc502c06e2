"""What every component runs on: clients, leadership, policy reload, interval, status and stop.

Start with `runner`: the loop, and the `Component` that says what one pass does. `descheduling` is
the component of `resettle run`, with `cycle_setup` for what its cycles need; other components live
in `resettle.controllers`. Nothing here knows of metrics or HTTP: they read `status`.
"""

from resettle.loop.cycle_setup import RunSettings
from resettle.loop.descheduling import Descheduling, descheduling_runner
from resettle.loop.runner import Component, ComponentRunner, ComponentSettings

__all__ = [
    "Component",
    "ComponentRunner",
    "ComponentSettings",
    "Descheduling",
    "RunSettings",
    "descheduling_runner",
]
