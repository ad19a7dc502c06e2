"""What every component runs on: settings, clients, leadership, policy reload, interval, stop.

`runner` is the loop that `resettle run` and `resettle soft-tainter` share and that every later
component uses; `leadership` decides whether it may act; `cycle_setup` puts together what a cycle
needs; `status` is what health checks and metrics read. It decides nothing about pods. Start with
`runner`. `controllers`, `telemetry` and `cli` import it.

Import from outside: `cycle_setup`, `policy_file`, `runner`, `status`, `watching`.
"""

from resettle.runtime.cycle_setup import RunSettings
from resettle.runtime.descheduling import Descheduling, descheduling_runner
from resettle.runtime.runner import Component, ComponentRunner, ComponentSettings

__all__ = [
    "Component",
    "ComponentRunner",
    "ComponentSettings",
    "Descheduling",
    "RunSettings",
    "descheduling_runner",
]
