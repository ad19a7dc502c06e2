"""What `run` and `soft-tainter` share: the log, the policy file, signals, metrics and health."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeVar

from resettle.errors import ResettleError

if TYPE_CHECKING:
    from resettle.framework.plugin import Plugin
    from resettle.log import Log
    from resettle.runtime import Component, ComponentRunner, ComponentSettings
    from resettle.telemetry import EndpointSettings
    from resettle.telemetry.metrics.registry import ComponentMetrics

Metrics = TypeVar("Metrics", bound="ComponentMetrics")

INTERRUPTED = 130
SIGNALS = """\
signals:
  SIGTERM and SIGINT stop gracefully; SIGUSR1 logs the state of the cache
"""


def with_log(arguments: argparse.Namespace, work: Callable[[argparse.Namespace, Log], int]) -> int:
    """Run the work with the log that the flags configure, and return its exit code."""
    # What is imported now stays in memory; collecting garbage in it takes 5% of the start.
    gc.disable()
    from resettle.clock import SYSTEM
    from resettle.log import Log

    log = Log.on(sys.stderr, SYSTEM, form=arguments.logging_format, verbosity=arguments.v)
    try:
        return work(arguments, log)
    except ResettleError as error:
        if arguments.logging_format == "text":
            raise
        log.error("could not run", reason=str(error))  # a JSON log has no plain text lines
        return 1
    finally:
        gc.enable()


async def _no_cleanup() -> None:
    pass


def run_component(
    arguments: argparse.Namespace,
    log: Log,
    settings: ComponentSettings,
    endpoint_settings: EndpointSettings | None,
    plugins: Mapping[str, Plugin],
    *,
    make_metrics: Callable[[], Metrics],
    open_component: Callable[[Metrics | None], AbstractContextManager[Component]],
    clean_up: Callable[[], Awaitable[None]] = _no_cleanup,
) -> int:
    """Run a component until it ends, with its endpoint and its signals, and return the exit code.

    `open_component` is given the metrics, or None where none are served. `clean_up` is awaited once
    the passes have ended, while the endpoint still answers.
    """
    import asyncio

    from resettle.clock import SYSTEM
    from resettle.kube.auth.kubeconfig import find_access
    from resettle.runtime.runner import ComponentRunner, policy_file_of
    from resettle.telemetry import Endpoint

    policy_file = policy_file_of(settings, plugins, SYSTEM, log)
    if policy_file is not None:
        policy_file.read_ahead()  # mistakes are reported before a cluster is looked for

    async def main() -> int:
        access = find_access(arguments.kubeconfig, arguments.context)
        endpoint = Endpoint(endpoint_settings, access, SYSTEM, log, make_metrics)
        with open_component(endpoint.metrics) as component:
            runner = ComponentRunner(component, settings, access, policy_file, SYSTEM, log)
            async with endpoint.open(runner.status):
                try:
                    _handle_signals(runner)
                    return await runner.run()
                finally:
                    await clean_up()

    gc.freeze()  # what is imported by now is never garbage
    gc.enable()
    try:
        return asyncio.run(main())
    except KeyboardInterrupt:
        log.warning(
            "forced exit", reason="second signal; requests already sent may still take effect"
        )
        return INTERRUPTED


def _handle_signals(runner: ComponentRunner) -> None:
    """Stop on the first SIGTERM or SIGINT, exit on the second; log the cache state on SIGUSR1."""
    import asyncio
    import signal

    loop = asyncio.get_running_loop()

    def stop(sign: signal.Signals) -> None:
        runner.stop()
        loop.remove_signal_handler(sign)

    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, stop, sign)
    loop.add_signal_handler(signal.SIGUSR1, runner.log_state)
