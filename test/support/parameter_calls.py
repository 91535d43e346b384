# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Tables of parameters of the nodes, and a node that calls their services."""


import pytest

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')
from rcl_interfaces.srv import (  # noqa: E402
    GetParameters,
    ListParameters,
)
from rclpy.node import Node  # noqa: E402
from rclpy.parameter import parameter_value_to_python  # noqa: E402

from osc_ros.hardware.mujoco import MujocoArm  # noqa: E402
from osc_ros.ros import arm_node, relay  # noqa: E402
from osc_ros.ros.parameters import controller_parameters  # noqa: E402
from osc_ros.ros.simulator import simulator  # noqa: E402

TABLES = {'controller': controller_parameters.PARAMETERS, 'relay': relay.PARAMETERS,
          'simulator': simulator.PARAMETERS,
          'arm': (*arm_node.OWN, *arm_node.entries_of(MujocoArm))}


class Other(Node):
    """Calls the parameter services of a node, as `ros2 param` and rqt_reconfigure do."""

    def __init__(self, spin, node):
        """Create this node; from now on `spin` spins it and `node`."""
        super().__init__('other')
        self._spin, self._node = spin, node
        spin(lambda: True, self, node)

    def call(self, kind, service, **fields):
        """Call a service of the node, and return the response."""
        client = self.create_client(kind, f'{self._node.get_name()}/{service}')
        self._spin(client.service_is_ready)
        future = client.call_async(kind.Request(**fields))
        self._spin(future.done)
        return future.result()

    def dump(self):
        """Return the values of all parameters, by name."""
        names = self.call(ListParameters, 'list_parameters').result.names
        found = self.call(GetParameters, 'get_parameters', names=names).values
        values = map(parameter_value_to_python, found)
        return {name: value if isinstance(value, (bool, int, float, str)) else list(value)
                for name, value in zip(names, values)}
