# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Lifecycle node that refuses or fails transitions with a reason in the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.lifecycle import LifecycleNode, TransitionCallbackReturn

from osc_ros.errors import InputError, OscError

SUCCESS, FAILURE, ERROR = (TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE,
                           TransitionCallbackReturn.ERROR)
# State after a transition, by the number or the label of the transition.
LEADS_TO = {1: 'inactive', 'configure': 'inactive', 2: 'unconfigured', 'cleanup': 'unconfigured',
            3: 'active', 'activate': 'active', 4: 'inactive', 'deactivate': 'inactive'}


class TooEarlyError(InputError):
    """Raised if a transition is requested before its input, such as joint states, has come."""


class ManagedNode(LifecycleNode):  # type: ignore[misc]
    """A lifecycle node whose transitions are functions that may raise."""

    def __init__(self, name: str, **arguments: Any) -> None:
        super().__init__(name, **arguments)
        self._change_state = self._service_change_state.callback
        self._service_change_state.callback = self._on_change_state

    def destroy_node(self) -> None:
        """Destroy the node; rclpy would keep it visible until the garbage collection."""
        super().destroy_node()
        self._state_machine.destroy_when_not_in_use()

    def _on_change_state(self, request: Any, response: Any) -> Any:
        """Refuse a transition that is impossible now, because rclpy would end the process."""
        wanted, machine = request.transition, self._state_machine
        accepted = {one[0]: one[1] for one in machine.available_transitions}
        if wanted.id in accepted or wanted.label in accepted.values():
            return self._change_state(request, response)
        state = machine.current_state[1]
        text = (f"transition {wanted.label or wanted.id} refused: the node is '{state}': give "
                'one of ' + ', '.join(f'{label} ({number})' for number, label
                                         in accepted.items()))
        # Two calls, because rclpy accepts only one severity per source line. No warning if the
        # node is in the wanted state already, for example after a lost response.
        if LEADS_TO.get(wanted.label or wanted.id) == state:
            self.get_logger().info(text)
        else:
            self.get_logger().warning(text)
        response.success = False
        return response

    def _transition(self, name: str, effect: Callable[[], None]) -> TransitionCallbackReturn:
        """Call `effect`, log its exception, and return the result of the transition."""
        try:
            effect()
        except TooEarlyError as error:
            self.get_logger().warning(f'cannot {name} yet: {error}')
            return FAILURE
        except OscError as error:
            self.get_logger().error(f'cannot {name}: {error}')
            return FAILURE
        except Exception as error:
            self.get_logger().error(f'cannot {name}: {type(error).__name__}: {error}')
            return ERROR
        return SUCCESS
