"""A command that goes on until it is done or told to stop: its log, and the signals it hears."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

from resettle.errors import ResettleError

if TYPE_CHECKING:
    from resettle.log import Log

INTERRUPTED = 130


class Daemon(Protocol):
    """What goes on."""

    async def run(self) -> int:
        """Its exit code, once it has ended."""

    def stop(self) -> None:
        """Has it end in good order."""

    def tell_known(self) -> None:
        """Has the log say what it knows."""


def with_log(arguments: argparse.Namespace, work: Callable[[argparse.Namespace, Log], int]) -> int:
    """The exit code of work that writes to the log which the flags ask for."""
    # What is imported now stays, and to look through it for garbage is a twentieth of a start.
    gc.disable()
    from resettle.clock import SYSTEM
    from resettle.log import Log

    log = Log.on(sys.stderr, SYSTEM, form=arguments.logging_format, verbosity=arguments.v)
    try:
        return work(arguments, log)
    except ResettleError as error:
        if arguments.logging_format == "text":
            raise
        log.error("could not run", reason=str(error))  # who reads JSON is not given prose
        return 1
    finally:
        gc.enable()


def run_to_the_end(at_work: Callable[[], AbstractAsyncContextManager[Daemon]], log: Log) -> int:
    """The exit code of what is at work there, on an event loop with its signals heard."""
    import asyncio
    import signal

    async def main() -> int:
        loop = asyncio.get_running_loop()
        async with at_work() as daemon:

            def asked_to_stop(sign: signal.Signals) -> None:
                daemon.stop()
                loop.remove_signal_handler(sign)  # whoever insists is obeyed at once

            for sign in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(sign, asked_to_stop, sign)
            loop.add_signal_handler(signal.SIGUSR1, daemon.tell_known)
            return await daemon.run()

    gc.freeze()  # nor need whoever looks for garbage from now on look through it
    gc.enable()
    try:
        return asyncio.run(main())
    except KeyboardInterrupt:
        log.warning("ended at once", reason="interrupted again; what was sent may yet be done")
        return INTERRUPTED
