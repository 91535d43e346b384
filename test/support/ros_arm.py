# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Simulator and controller in a thread, and the client that commands them."""

from contextlib import contextmanager
from threading import Thread

from osc_ros.client.robots import SHIPPED

HOME = SHIPPED['panda'].home
RATE = 250.0  # of the states of a simulator in lockstep: as few messages as the gains allow [Hz]


class Spun:
    """Nodes that a thread spins; `close` destroys them, the last one first."""

    def __init__(self, executor, *nodes):
        """Begin to spin the nodes."""
        self.nodes, self._executor, self._goes_on = nodes, executor, True
        for node in nodes:
            executor.add_node(node)
        self._thread = Thread(target=self._spin, daemon=True)
        self._thread.start()

    def _spin(self):
        while self._goes_on:
            self._executor.spin_once(timeout_sec=0.02)

    def close(self):
        """End the thread and the nodes."""
        self._goes_on = False
        self._thread.join()
        for node in reversed(self.nodes):
            if hasattr(node, 'stop'):
                node.stop()
            node.destroy_node()
        self._executor.shutdown()


class RosArm(Spun):
    """A simulator in lockstep and a controller, in a thread of this process."""

    def __init__(self, rclpy, simulator=None, rate=RATE, remaps=(), **parameters):
        """Start the nodes, the simulator with further parameters; `remaps` are for both."""
        from osc_ros.ros.controller.controller import Controller
        from osc_ros.ros.process.node_process import EventsExecutor
        from osc_ros.ros.simulator.simulator import Simulator
        robot = {'robot_description_file': 'panda', 'base': SHIPPED['panda'].base,
                 'tip': SHIPPED['panda'].tip}

        def given(**values):
            return [rclpy.parameter.Parameter(name.replace('__', '.'), value=value)
                    for name, value in values.items()]

        arguments = ['--ros-args', *(word for remap in remaps for word in ('-r', remap))]
        super().__init__(
            EventsExecutor(),
            Simulator(cli_args=arguments, parameter_overrides=given(
                **robot, rate=rate, lockstep=True, lockstep_timeout=3600.0, publish_tf=False,
                initial_positions=list(HOME), **(simulator or {}))),
            Controller(cli_args=arguments, parameter_overrides=given(
                **robot, rate=rate, state_timeout=30.0, **parameters)))


@contextmanager
def client_over_ros(rclpy):
    """Yield the client of a `RosArm`, whose nodes are closed also if it cannot be opened."""
    import osc_ros
    nodes = RosArm(rclpy)
    try:
        with osc_ros.Arm.ros(timeout=120.0) as arm:
            yield arm
    finally:  # these nodes would disturb other tests
        nodes.close()
