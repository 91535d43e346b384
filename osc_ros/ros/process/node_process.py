# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Main loop of a node's process: it spins the node until a signal, then lets the node stop."""

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

from osc_ros import interrupts
from osc_ros.errors import OscError
from osc_ros.interrupts import end_quietly, Ending
from osc_ros.ros.parameters.parameters import parameter_file_error

try:
    # has half the latency of the single-threaded executor
    from rclpy.experimental import EventsExecutor
except ImportError:
    EventsExecutor = SingleThreadedExecutor


class Stoppable(Protocol):
    """A node whose method `stop` ends its work while the node can still publish."""

    # `run` first calls `ready_to_stop`, if there is one, until it is True or for STOP_TIME. If a
    # callback blocks the spinning thread, another thread calls it, and then ends the process
    # without `stop`.

    def stop(self) -> None:
        """End the node's work while it can still publish."""

    def destroy_node(self) -> None:
        """Destroy the node."""


def run_and_exit(make: Callable[[], Stoppable], arguments: list[str] | None = None) -> NoReturn:
    """Call `run`, then end the process without Python's tear-down, which threads could block."""
    run(make, arguments)
    with suppress(OSError):  # launch has ended and closed the pipe
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)


def run(make: Callable[[], Stoppable], arguments: list[str] | None = None,
        executor_of: Callable[[], Executor] = EventsExecutor) -> None:
    """Spin a node until SIGINT or SIGTERM, then let it stop while it can still publish."""
    # After the signal the process ends in bounded time (see `Ending`); before there is a node, at
    # once, with status 0. SystemExit is raised if ROS or the node cannot be started.
    end_quietly(0)
    try:  # signal handlers of rclpy would shut the context down before the node can publish
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
    latest = perf_counter() + interrupts.STOP_TIME
    while not is_ready() and perf_counter() < latest:
        executor.spin_once(timeout_sec=0.01)
