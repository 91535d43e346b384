# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Runs one node in a process until a signal, and stops its work before it ends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
import os
import sys
from time import perf_counter
from typing import Any, NoReturn, Protocol

import rclpy
from rclpy.exceptions import ParameterException
from rclpy.executors import Executor, SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions

from osc_ros.errors import OscError
from osc_ros.interrupts import end_quietly
from osc_ros.ros.parameters.parameters import parameter_file_error
from osc_ros.ros.process import ending as timing
from osc_ros.ros.process.ending import Ending

try:
    # the latency of this executor is half of that of the single-threaded executor
    from rclpy.experimental import EventsExecutor
except ImportError:
    EventsExecutor = SingleThreadedExecutor


class Stoppable(Protocol):
    """
    A node with a method `stop` that ends its work while the node can still communicate.

    If it has a method `ready_to_stop`, `run` calls this until it returns True, then `stop`. The
    calls come from another thread if the thread that spins the node is in a long callback.

    """

    def stop(self) -> None:
        """Stop the node's work while it can still publish."""

    def destroy_node(self) -> None:
        """Destroy the node."""


def run_and_exit(make: Callable[[], Stoppable], arguments: list[str] | None = None) -> NoReturn:
    """Call `run` and end the process without the tear-down of Python, which threads may block."""
    run(make, arguments)
    with suppress(OSError):  # the pipe to launch, which has ended
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)


def run(make: Callable[[], Stoppable], arguments: list[str] | None = None,
        executor_of: Callable[[], Executor] = EventsExecutor) -> None:
    """
    Spin a node until SIGINT or SIGTERM, and let it stop while it can still publish.

    rclpy's own signal handlers would shut the context down before the node could publish. After
    the signal the process ends in bounded time (`osc_ros.ros.process.ending`). Until the node has
    been made, there is no arm to stop: the signal ends the process with status 128 + its number
    (`osc_ros.interrupts`).

    Parameters
    ----------
    make : callable
        Returns the node.
    arguments : list of str, optional
        Default: those of the command line.
    executor_of : callable
        Returns the executor.

    """
    end_quietly()
    try:
        rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
    except RuntimeError as error:  # such as an RCLError about a parameter file
        raise SystemExit(f'cannot start: {parameter_file_error(error)}') from None
    try:
        node: Any = make()
    except (OscError, ParameterException) as error:
        rclpy.try_shutdown()
        raise SystemExit(f'cannot start: {error}') from None
    with Ending() as ending:
        try:
            ending.name = node.get_name()
            ending.stops = getattr(node, 'ready_to_stop', ending.stops)
            executor = executor_of()
            executor.add_node(node)
            try:
                while not ending.is_requested:
                    executor.spin_once(timeout_sec=0.1)
            finally:
                ending.begin_stop()
                _wait_until_ready(node, executor)
                node.stop()
                ending.begin_tear_down()
                executor.remove_node(node)
                node.destroy_node()
                executor.shutdown()
        finally:
            rclpy.try_shutdown()


def _wait_until_ready(node: Any, executor: Executor) -> None:
    is_ready = getattr(node, 'ready_to_stop', lambda: True)
    latest = perf_counter() + timing.STOP_TIME
    while not is_ready() and perf_counter() < latest:
        executor.spin_once(timeout_sec=0.01)
