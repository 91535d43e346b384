"""The life of a process that runs one node."""

from __future__ import annotations

from collections.abc import Callable
import signal
from time import perf_counter
from typing import Any, Protocol

import rclpy
from rclpy.exceptions import ParameterException
from rclpy.executors import Executor, SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions

from osc_ros.errors import OscError

try:
    # half the latency of the single-threaded executor
    from rclpy.experimental import EventsExecutor
except ImportError:
    EventsExecutor = SingleThreadedExecutor


STOP_TIME = 5.0  # that a node has to come to its end [s]


class Stoppable(Protocol):
    """
    A node that can end what it does, with the means of communication still there.

    One with a method `ready_to_stop` is asked again and again until it says True.

    """

    def stop(self) -> None:
        """End safely."""

    def destroy_node(self) -> None:
        """Let go of everything."""


def run(make: Callable[[], Stoppable], arguments: list[str] | None = None,
        executor_of: Callable[[], Executor] = EventsExecutor) -> None:
    """
    Spin a node until SIGINT or SIGTERM, and let it stop while it can still publish.

    rclpy's own handlers would shut the context down first. A second signal ends what cannot wait,
    such as the compilation of the kernels.

    Parameters
    ----------
    make : callable
        Gives the node.
    arguments : list of str, optional
        Those of the command line if not given.
    executor_of : callable
        Gives what it is spun by.

    """
    told: list[int] = []

    def tell(number: int, frame: object) -> None:
        told.append(number)
        if len(told) > 1:
            raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, tell)
    rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
    try:
        try:
            node: Any = make()
        except (OscError, ParameterException) as error:
            raise SystemExit(f'cannot start: {error}') from None
        executor = executor_of()
        executor.add_node(node)
        try:
            while not told:
                executor.spin_once(timeout_sec=0.1)
        except (KeyboardInterrupt, RuntimeError):
            # the executor makes the one of the other
            if not told:
                raise
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            _let_end(node, executor)
            node.stop()
            executor.remove_node(node)
            node.destroy_node()
            executor.shutdown()
    finally:
        rclpy.try_shutdown()


def _let_end(node: Any, executor: Executor) -> None:
    is_ready = getattr(node, 'ready_to_stop', lambda: True)
    latest = perf_counter() + STOP_TIME
    while not is_ready() and perf_counter() < latest:
        executor.spin_once(timeout_sec=0.01)
