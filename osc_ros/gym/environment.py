# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Base class of the environments: arm, actions, observations, and one step."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.transform import Rotation

from osc_ros.client.robots import SHIPPED
from osc_ros.control.joint_drive import JointDrive
from osc_ros.control.law import Law
from osc_ros.control.setpoint.trajectory import PoseGoal
from osc_ros.control.settings import Settings, with_first_task
from osc_ros.control.tasks.task import Stiffness, TargetLimits, Task
from osc_ros.errors import InputError
from osc_ros.model.files import shipped_urdf
from osc_ros.model.robot import Robot
from osc_ros.sim.simulation import Simulation

Array = NDArray[np.float64]
Observation = dict[str, NDArray[np.float32]]

DELTA, POSE, JOINTS = CONTROLS = 'delta', 'pose', 'joints'
RATE, SUBSTEPS = 500.0, 25  # rate of law and physics [Hz]; their periods in a step
LOOK = 5  # periods of the law between two calls of `_look`
LARGEST = np.array([0.05, 0.05, 0.05, 0.2, 0.2, 0.2])  # change of the goal in a step [m], [rad]
LARGEST_JOINT = 0.05  # change of the goal of each joint in a step [rad]
TILT = 0.6  # largest rotation from the initial orientation about each axis [rad]
STIFFEST_ACTION = np.ones(2)
SOFTEST, STIFFEST = np.array([100.0, 5.0]), np.array([2000.0, 60.0])  # [N/m], [N·m/rad]
FARTHEST = 3.0  # largest coordinate in an observation [m]
WANDER = 0.05  # largest change of the initial position of each joint [rad]


class ArmEnv(gymnasium.Env[Observation, NDArray[np.float32]]):
    """An arm whose tip or joints are moved by actions at 20 Hz; law and physics run at 500 Hz."""

    # doc/gym.md has the options, actions and observations, and what raises InputError. Poses in
    # observations: position [m], Euler angles xyz [rad]. `render_mode` 'rgb_array' shows only the
    # arm, and requires OpenGL. `stiffness` is one number or (n,) [N·m/rad].

    metadata = {'render_modes': ['rgb_array'], 'render_fps': RATE / SUBSTEPS}
    box = np.array([[0.3, -0.3, 0.2], [0.6, 0.3, 0.6]])  # bounds of the goal [m]
    axes = ('motion',) * 6
    more_actions = 0
    more_states = 3
    plant: dict[str, Any] = {}

    def __init__(self, control: str = 'delta', variable_impedance: bool = False,
                 robot: str = 'panda', render_mode: str | None = None,
                 stiffness: ArrayLike | None = None) -> None:
        if control not in CONTROLS:
            raise InputError(f"control is '{control}': must be one of {', '.join(CONTROLS)}")
        if variable_impedance if control == JOINTS else stiffness is not None:
            raise InputError(f"control is '{control}': give variable_impedance with "
                             f"'{DELTA}' and '{POSE}', stiffness with '{JOINTS}'")
        if robot not in ('panda', 'fr3'):
            raise InputError(f"robot is '{robot}': must be one of panda, fr3")
        self.render_mode = render_mode
        self._control, self._is_variable = control, variable_impedance
        drive = JointDrive(stiffness=stiffness) if control == JOINTS else None
        known, urdf = SHIPPED[robot], shipped_urdf(robot)
        model = Robot.from_urdf(urdf, known.base, known.tip)
        gains = Stiffness([60.0] * 3 + [2000.0] * 3) if variable_impedance else Task().gains
        task = Task(gains, axes=self.axes, limits=TargetLimits(box=self.box))
        self.arm = Simulation(urdf, Law(model, Settings.of(model, tasks=(task,), joints=drive)),
                              known.home, RATE, timestep=1.0 / RATE, **{
                                  name: value(known.tip) if callable(value)
                                  and name == 'ball' else value
                                  for name, value in self.plant.items()})
        self._home, self._tip = np.array(known.home), known.tip
        self._upright = self.arm.pose()[:3, :3]
        size = (model.n if control == JOINTS
                else 6 + 2 * variable_impedance + self.more_actions)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (size,), np.float32)
        self._largest = self._bounds(model.n)
        self.observation_space: Any = gymnasium.spaces.Dict({
            name: gymnasium.spaces.Box(-bound, bound, bound.shape, np.float32)
            for name, bound in self._largest.items()})
        self._goal: Any = None  # goal of the tip (4, 4), from `reset` on
        self._set_stiffness = STIFFEST_ACTION  # action of the gains above

    def _bounds(self, n: int) -> dict[str, NDArray[np.float32]]:
        """Return the largest absolute values of each observation."""
        pose = np.array([FARTHEST] * 3 + [4.0] * 3, np.float32)
        joints = np.full(n, 7.0, np.float32)
        return {'observation.state.cartesian': pose,
                'observation.state.joints': joints,
                'observation.state.target': joints if self._control == JOINTS else pose,
                'observation.environment_state': np.full(self.more_states, FARTHEST, np.float32)}

    # methods that an environment implements

    def _begin(self) -> None:
        """Draw the goals of an episode from `np_random`, and place the objects."""
        raise NotImplementedError

    def _environment_state(self) -> Array:
        raise NotImplementedError

    def _judge(self) -> tuple[float, bool]:
        """Return the reward of the last step, and whether the task is done."""
        raise NotImplementedError

    def _use_more(self, action: Array) -> None:
        """Use the entries of the action that only a subclass has; not with 'joints'."""

    def _look(self) -> None:
        """Hook that runs after every LOOK periods of the law."""

    # gymnasium

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None
              ) -> tuple[Observation, dict[str, Any]]:
        """Put the arm near its home; return the first observation and an empty dict."""
        super().reset(seed=seed)
        away = self.np_random.uniform(-WANDER, WANDER, len(self._home))
        if self._is_variable:
            self._stiffen(STIFFEST_ACTION)  # undo the change by the previous episode
        self.arm.reset(self._home + away)
        self._goal = self.arm.pose()
        self._turn = Rotation.from_matrix(self._goal[:3, :3] @ self._upright.T)
        self._begin()
        return self._observation(), {}

    def step(self, action: NDArray[np.float32]
             ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Move for 50 ms; return observation, reward, whether the task is done, False, infos."""
        if self._goal is None:
            raise gymnasium.error.ResetNeeded(
                'step before the first reset: accepted after reset()')
        given, law = self._checked(action), self.arm.law
        if self._control == JOINTS:
            law.move_joints(np.clip(law.posture + LARGEST_JOINT * given,
                                    *law.robot.position_limits.T))
        else:
            self._move_goal(given[:6])
            if self._is_variable:
                self._stiffen(given[6:8])
            self._use_more(given[6 + 2 * self._is_variable:])
            law.follow(PoseGoal(self._goal))
        for k in range(SUBSTEPS):
            self.arm.advance()
            if k % LOOK == LOOK - 1:
                self._look()
        reward, is_done = self._judge()
        return self._observation(), float(reward), is_done, False, {'is_success': is_done}

    def render(self) -> Any:
        """Return an image of the arm (480, 640, 3) if `render_mode` is 'rgb_array'."""
        return self.arm.plant.picture() if self.render_mode == 'rgb_array' else None

    def close(self) -> None:
        """Release the simulation and the law."""
        self.arm.close()
        self.arm.law.close()

    def _checked(self, action: Any) -> Array:
        """Return an action as float64; InputError if it is outside of the action space."""
        given = np.asarray(action, dtype=np.float64)
        if given.shape != self.action_space.shape:
            raise InputError(f'action of shape {given.shape}: give '
                             f'{self.action_space.shape}')
        if not (np.abs(given) <= 1.0).all():
            raise InputError(f'action {given.tolist()}: give numbers from -1 to 1')
        return given

    def _move_goal(self, action: Array) -> None:
        goal, (lower, upper) = self._goal.copy(), self.box
        if self._control == DELTA:
            goal[:3, 3] += LARGEST[:3] * action[:3]
            turn = Rotation.from_rotvec(LARGEST[3:] * action[3:]) * self._turn
        else:
            goal[:3, 3] = lower + 0.5 * (1.0 + action[:3]) * (upper - lower)
            turn = Rotation.from_rotvec(TILT * action[3:])
        goal[:3, 3] = np.minimum(np.maximum(goal[:3, 3], lower), upper)
        self._turn = Rotation.from_rotvec(np.clip(turn.as_rotvec(), -TILT, TILT))
        goal[:3, :3] = self._turn.as_matrix() @ self._upright
        self._goal = goal

    def _stiffen(self, action: Array) -> None:
        """Set the stiffness of the tip, if it has changed."""
        if (action == self._set_stiffness).all():
            return
        self._set_stiffness = action
        moving, turning = SOFTEST * (STIFFEST / SOFTEST) ** (0.5 + 0.5 * action)
        law = self.arm.law
        law.change(with_first_task(
            law.settings, gains=Stiffness([turning] * 3 + [moving] * 3)))

    def _tip_position(self) -> Array:
        return np.asarray(self.arm.law.pose[:3, 3])

    def _observation(self) -> Observation:
        rows = self._rows()
        return {name: np.clip(rows[name], -bound, bound).astype(np.float32)
                for name, bound in self._largest.items()}

    def _rows(self) -> dict[str, Array]:
        """Return the observation by key."""
        is_joints = self._control == JOINTS
        return {'observation.state.cartesian': _euler(self.arm.plant.pose(self._tip)),
                'observation.state.joints': self.arm.q,
                'observation.state.target': (self.arm.law.posture if is_joints
                                             else _euler(self._goal)),
                'observation.environment_state': self._environment_state()}


def _euler(T: Array) -> Array:
    """Return the position [m] and the Euler angles xyz [rad] of a pose (4, 4) as (6,)."""
    R = T.tolist()
    return np.array([R[0][3], R[1][3], R[2][3], math.atan2(R[2][1], R[2][2]),
                     math.asin(min(max(-R[2][0], -1.0), 1.0)), math.atan2(R[1][0], R[0][0])])
