"""Runs one node in a process until a signal, and lets it end safely."""

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
from osc_ros.nodes.parameters import parameter_file_error

try:
    # has half the latency of the single-threaded executor
    from rclpy.experimental import EventsExecutor
except ImportError:
    EventsExecutor = SingleThreadedExecutor


STOP_TIME = 5.0  # longest wait for `ready_to_stop` [s]


class Stoppable(Protocol):
    """
    A node with a method that ends its work while it can still communicate.

    If it has a method `ready_to_stop`, that is called until it returns True, before `stop`.

    """

    def stop(self) -> None:
        """Stop the node's work while it can still publish."""

    def destroy_node(self) -> None:
        """Destroy the node."""


def run(make: Callable[[], Stoppable], arguments: list[str] | None = None,
        executor_of: Callable[[], Executor] = EventsExecutor) -> None:
    """
    Spin a node until SIGINT or SIGTERM, and let it stop while it can still publish.

    rclpy's own handlers would shut the context down first. A second signal interrupts a callback
    that takes long, such as the compilation of the kernels.

    Parameters
    ----------
    make : callable
        Returns the node.
    arguments : list of str, optional
        Default: those of the command line.
    executor_of : callable
        Returns the executor.

    """
    signals: list[int] = []

    def note(number: int, frame: object) -> None:
        signals.append(number)
        if len(signals) > 1:
            raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, note)
    try:
        rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
    except RuntimeError as error:  # such as an RCLError about a parameter file
        raise SystemExit(f'cannot start: {parameter_file_error(error)}') from None
    try:
        try:
            node: Any = make()
        except (OscError, ParameterException) as error:
            raise SystemExit(f'cannot start: {error}') from None
        executor = executor_of()
        executor.add_node(node)
        try:
            while not signals:
                executor.spin_once(timeout_sec=0.1)
        except (KeyboardInterrupt, RuntimeError):
            # the executor may raise RuntimeError after a KeyboardInterrupt
            if not signals:
                raise
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            _wait_until_ready(node, executor)
            node.stop()
            executor.remove_node(node)
            node.destroy_node()
            executor.shutdown()
    finally:
        rclpy.try_shutdown()


def _wait_until_ready(node: Any, executor: Executor) -> None:
    is_ready = getattr(node, 'ready_to_stop', lambda: True)
    latest = perf_counter() + STOP_TIME
    while not is_ready() and perf_counter() < latest:
        executor.spin_once(timeout_sec=0.01)
