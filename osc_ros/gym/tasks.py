# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Environments: reach a point, push a block to a mark, wipe a board with a force."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.gym.environment import ArmEnv, JOINTS
from osc_ros.sim.pushed_block import Block

Array = NDArray[np.float64]

TABLE, BOARD = 0.15, 0.4  # heights of the table of Push, and of the board of Wipe [m]
BALL = 0.02  # radius of the ball at the tip [m]
STRONGEST = 1000.0  # largest force in an observation [N]
NEAR = 0.01  # largest distance at which a point counts as reached [m]
AT_MARK = 0.02  # largest distance at which the block is at its mark [m]


def table(height: float) -> Array:
    """Return the pose (4, 4) of a horizontal surface."""
    T = np.eye(4)
    T[2, 3] = height
    return T


def _ball(tip: str) -> tuple[str, float]:
    return tip, BALL


class Reach(ArmEnv):
    """Move the tip to a point."""

    # Reward of a step: negative distance [m]; within NEAR it is 1 more, and the episode ends.
    # observation.environment_state: the point.

    def _begin(self) -> None:
        lower, upper = self.box
        self._point: Array = self.np_random.uniform(lower + 0.05, upper - 0.05)

    def _environment_state(self) -> Array:
        return self._point

    def _judge(self) -> tuple[float, bool]:
        distance = float(np.linalg.norm(self._tip_position() - self._point))
        return (distance < NEAR) - distance, distance < NEAR


class Push(ArmEnv):
    """Push a block over the table to a mark, with a ball at the tip."""

    # Reward of a step: -d - 0.1 b; d: distance from block to mark, b: from tip to block [m]. If d
    # is within AT_MARK it is 1 more, and the episode ends. observation.environment_state:
    # positions of block and mark.

    box = np.array([[0.3, -0.3, TABLE + BALL + 0.005], [0.65, 0.3, 0.5]])
    more_states = 6
    half = (0.04, 0.04, 0.04)

    def __init__(self, **options: Any) -> None:
        self._block = Block(self.half, mass=0.3)
        self.plant = {'wall': table(TABLE), 'ball': _ball, 'furnish': self._block.add}
        super().__init__(**options)

    def _begin(self) -> None:
        lower, upper = [0.42, -0.15], [0.55, 0.15]
        block = self.np_random.uniform(lower, upper)
        self._mark = np.append(self.np_random.uniform(lower, upper), TABLE + self.half[2])
        self._block.put(self.arm.plant, [*block, TABLE + self.half[2]])

    def _environment_state(self) -> Array:
        return np.concatenate([self._block.position(self.arm.plant), self._mark])

    def _judge(self) -> tuple[float, bool]:
        block = self._block.position(self.arm.plant)
        left = float(np.linalg.norm(block[:2] - self._mark[:2]))
        is_done = left < AT_MARK
        return is_done - left - 0.1 * float(np.linalg.norm(block - self._tip_position())), is_done


class Wipe(ArmEnv):
    """Wipe a strip of a board by pressing on it with a ball at the tip; ends when all is wiped."""

    # Reward of a step: fraction wiped in it - 0.01 * relative error of the force. A piece is wiped
    # while the tip is within REACH and the force on the board differs from FORCE by less than
    # half. The last number of an action is the force, 0 to 2 FORCE; none with 'joints'.

    FORCE, REACH, PIECES, LENGTH = 10.0, 0.02, 20, 0.2

    box = np.array([[0.35, -0.25, BOARD], [0.6, 0.25, 0.6]])
    axes = ('motion',) * 5 + ('force',)
    more_actions = 1
    more_states = 4  # centre of the strip x y, its length, the wiped fraction
    plant = {'wall': table(BOARD), 'ball': _ball}

    def _bounds(self, n: int) -> dict[str, NDArray[np.float32]]:
        return {**super()._bounds(n),  # sensors_force: on the board [N]
                'observation.state.sensors_force': np.full(3, STRONGEST, np.float32)}

    def _begin(self) -> None:
        self._centre = self.np_random.uniform([0.4, -0.1], [0.5, 0.1])
        y = np.linspace(-0.5, 0.5, self.PIECES) * self.LENGTH
        self._strip = self._centre + np.outer(y, [0.0, 1.0])
        self._is_wiped = np.zeros(self.PIECES, dtype=bool)
        self._wiped, self._force = 0.0, np.zeros(3)
        if self._control != JOINTS:
            self.arm.law.set_wrench(np.zeros(6))

    def _use_more(self, action: Array) -> None:
        self.arm.law.set_wrench([0.0, 0.0, 0.0, 0.0, 0.0, -self.FORCE * (1.0 + action[0])])

    def _look(self) -> None:
        self._force = self.arm.plant.contact_force()
        if abs(-self._force[2] - self.FORCE) < 0.5 * self.FORCE:
            away = np.linalg.norm(self._strip - self._tip_position()[:2], axis=1)
            self._is_wiped |= away < self.REACH

    def _environment_state(self) -> Array:
        return np.array([*self._centre, self.LENGTH, self._is_wiped.mean()])

    def _rows(self) -> dict[str, Array]:
        return {**super()._rows(), 'observation.state.sensors_force': self._force}

    def _judge(self) -> tuple[float, bool]:
        wiped = float(self._is_wiped.mean())
        gained, self._wiped = wiped - self._wiped, wiped
        error = min(1.0, abs(-self._force[2] - self.FORCE) / self.FORCE)
        return gained - 0.01 * error, bool(wiped == 1.0)
