# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Service ~/learn_contact, which learns and sets the thresholds of contact detection."""

from __future__ import annotations

from typing import Any

from rclpy.node import Node
from rclpy.parameter import Parameter
from std_srvs.srv import Trigger

from osc_ros.control.model_error.contact import Thresholds
from osc_ros.errors import OscError
from osc_ros.loop import requests

DIGITS = 4  # significant digits of a learned threshold


class Contacts:
    """Service `~/learn_contact` of a configured controller."""

    def __init__(self, node: Node, loop: Any) -> None:
        self._node, self._loop = node, loop
        self._service = node.create_service(Trigger, '~/learn_contact', self._on_learn)

    def close(self) -> None:
        """Destroy the service."""
        self._node.destroy_service(self._service)

    def _on_learn(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        duration = self._node.get_parameter('contact.learn_time').value
        try:
            self._loop.request(requests.learn_contact, duration)
        except OscError as error:
            response.success, response.message = False, str(error)
            return response
        response.success = True
        response.message = (
            f'learning for {duration:g} s, in which contacts are not detected: move the arm as it '
            'will be moved, and let it touch nothing; contact.torque, contact.force and '
            'contact.moment are then set')
        self._node.get_logger().info(response.message)
        return response

    def store_thresholds(self, found: Thresholds | None, text: str) -> None:
        """Set the parameters to learned thresholds; if `found` is None, log the reason `text`."""
        if found is None:
            self._node.get_logger().warning(f'thresholds of contacts: {text}')
            return
        values = {'contact.torque': [_rounded(value) for value in found.torque.tolist()],
                  'contact.force': _rounded(found.force),
                  'contact.moment': _rounded(found.moment)}
        result = self._node.set_parameters_atomically(
            [Parameter(name, value=value) for name, value in values.items()])
        if result.successful:
            self._node.get_logger().info('learned thresholds of contacts: ' + ', '.join(
                f'{name}: {value}' for name, value in values.items()))
        else:
            self._node.get_logger().error(f'thresholds of contacts: {result.reason}')


def _rounded(value: float) -> float:
    return float(f'{value:.{DIGITS}g}')
