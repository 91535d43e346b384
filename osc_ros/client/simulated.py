# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Backend of `Arm.simulated`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
import os
from threading import RLock
from time import sleep
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.client.backend import ArmState, LawBackend, warn
from osc_ros.client.robots import (
    clearance_of,
    JOINT_TOLERANCE,
    model_of,
    SHIPPED,
    TOLERANCE,
)
from osc_ros.collision.obstacles import NEW, Obstacle
from osc_ros.control.accepted import bounded_stiffness, joint_duration_text, require_reach
from osc_ros.control.joint_drive import JointDrive
from osc_ros.control.law import Law
from osc_ros.control.limits.clearance import Clearance
from osc_ros.control.reasons import figures_of, Reason, reasons
from osc_ros.control.setpoint.arrival import Arrival
from osc_ros.control.setpoint.set_point_generator import Motion
from osc_ros.control.settings import Settings, with_first_task
from osc_ros.control.tasks.task import Stiffness, Target
from osc_ros.errors import InputError, require_options
from osc_ros.model.files import urdf_text
from osc_ros.model.gripper_state import goal_of, GripperState
from osc_ros.model.robot import Robot
from osc_ros.sim.hand import FINGERS as SHIPPED_HANDS
from osc_ros.sim.hand import Hand, hand_of
from osc_ros.sim.simulation import option_names, Simulation

Array = NDArray[np.float64]

CHECKS = 50.0  # rate at which the distance to the goal is checked [Hz]


class SimulatedBackend(LawBackend):
    """
    A law and MuJoCo in this process; simulated time advances only in `wait`.

    There is no supervisor, and so no watchdogs. For the methods see `Backend`, for the parameters
    and errors `Arm.simulated`.

    Attributes
    ----------
    joint_names : tuple of str
    arm : Simulation

    """

    def __init__(self, robot: str | os.PathLike[str], base: str, tip: str,
                 q: ArrayLike | None = None, settings: Settings | None = None,
                 hand: tuple[str, ...] | None = None, clearance: Clearance | float | bool = False,
                 **options: Any) -> None:
        require_options('Arm.simulated', options, (
            'settings', 'hand', 'clearance', *option_names()))
        clear = clearance_of(robot, clearance)
        urdf, found = model_of(robot, base, tip)
        if isinstance(robot, str) and robot in SHIPPED:
            q = SHIPPED[robot].home if q is None else q
            hand = SHIPPED_HANDS.get(robot, ()) if hand is None else hand
        if clear is not None:
            settings = replace(settings or Settings.of(found), clearance=clear)
        law = Law(found, settings)
        self.lock = RLock()  # of law and plant
        self._hand = hand_of(urdf_text(urdf), hand) if hand else None
        self.arm = Simulation(urdf, law, q, **self._furnished(options))
        self.joint_names: tuple[str, ...] = law.robot.joint_names
        self._set, self._tip = law.settings.tasks[0].gains, law.robot.tip
        self._arrival, self._checked = Arrival(), -np.inf
        self._goal: Array | None = None  # of the last command
        self._listener: Callable[[ArmState], None] | None = None
        self._advance()

    def _furnished(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of the plant, extended by the hand."""
        hand, furnish = self._hand, options.get('furnish')
        if hand is None:
            return options

        def add(spec: Any) -> None:
            hand.add(spec)
            if furnish is not None:
                furnish(spec)

        return {**options, 'furnish': add}

    @property
    def _law(self) -> Law:
        self._require_open()
        return self.arm.law

    @property
    def robot(self) -> Robot:
        """Model of the arm."""
        return self._law.robot

    def _advance(self) -> None:
        """Simulate one period."""
        if self._hand is not None:
            self._hand.advance(self.arm.plant, self.arm.period)
        time, (q, qd, tau) = self.arm.time, self.arm.advance()
        law = self._law
        self._state = ArmState(time, q, qd, tau, law.pose, law.error.copy(),
                               self.arm.plant.external_force(self._tip))
        if abs(time - self._checked) > 1.0 / CHECKS - 1e-9:
            self._check()
        if (listener := self._listener) is not None:
            listener(self._state)

    def _check(self) -> None:
        """Compare the pose of the tip with the goal."""
        self._checked = self._state.time
        law = self._law
        if (joints := law.approach_joints(self._state.q)) is not None:
            self._arrival.update(self._state.time, joints.error(), JOINT_TOLERANCE,
                                 joints.moves)
            return
        level = next(iter(law.levels.values()))
        self._arrival.update(self._state.time, level.approach().error(), TOLERANCE)

    def state(self) -> ArmState:
        """Return the newest state; see `Backend`."""
        self._require_open()
        return self._state

    def _begin(self) -> None:
        """Record that a motion was commanded."""
        self._arrival.begin()
        law = self._law
        self._goal = law.level().goal if law.settings.joints is None else None
        self._check()

    @property
    def _time(self) -> float:
        return self._state.time

    def _set_point(self) -> Target:
        return self._law.target

    def _use(self, settings: Settings | None = None, robot: Robot | None = None) -> None:
        self._law.change(settings, robot)

    def _update_obstacles(self, changes: Mapping[str, Obstacle | None], delay: float = 0.0
                          ) -> None:
        self._law.obstacles.update(changes, since=self._time + delay if delay else NEW)

    def _follow(self, motion: Motion) -> bool:
        self._lead(None)
        is_inside = self._law.follow(motion)
        self._begin()
        return is_inside

    def move_joints(self, goal: Array, duration: float | None, speed: float | None) -> None:
        """Move the joints to a goal; see `Backend`."""
        law = self._law
        self._require_joint_goal(goal, speed)
        self._lead(JointDrive())
        found = law.move_joints(goal, duration, speed)
        self._begin()
        if not law.waits:  # otherwise `found` includes the time until the motion begins
            warn(joint_duration_text(duration, found, law.speed_override))

    def follow_joints(self, times: Array, positions: Array) -> None:
        """Move the joints through positions; see `Backend`."""
        self._lead(JointDrive())
        self._law.follow_joints(times, positions)
        self._begin()

    def follow_chunk(self, times: Array, poses: Array, observed_at: float) -> str:
        """Follow a chunk; see `Backend`."""
        require_reach(self._law.robot, self._first, poses[:, :3, 3])
        self._lead(None)
        entry = self._law.follow_chunk(observed_at + times, poses, self._state.time, observed_at)
        self._begin()
        warn(entry.warning)
        return str(entry)

    def set_wrench(self, wrench: Array) -> None:
        """Apply a wrench; see `Backend`."""
        self._lead(None)
        self._law.set_wrench(wrench)

    def use_gains(self, spring: Stiffness | None) -> None:
        """Set the stiffness of the tip, or reset its gains; see `Backend`."""
        law = self._law
        self._require_led()
        if spring is not None:
            spring, text = bounded_stiffness(spring, np.asarray(np.linalg.inv(law.inertia())),
                                             law.level().axes, law.period)
            warn(text)
        law.change(with_first_task(law.settings, gains=self._set if spring is None else spring))

    def _require_hand(self) -> Hand:
        self._require_open()
        if self._hand is None:
            raise InputError('this arm has no gripper: panda and fr3 have one; for a robot of '
                             "your own give its finger joints, Arm.simulated(…, hand=('left', "
                             "'right'))")
        return self._hand

    def move_gripper(self, command: list[float]) -> None:
        """Move the gripper; see `Backend`."""
        self._require_hand().move(goal_of(command))

    def gripper_state(self) -> GripperState:
        """Return the state of the gripper; see `Backend`."""
        return self._require_hand().state(self.arm.plant)

    @property
    def speed_override(self) -> float:
        """Speed of all motions relative to their own [%]; see `Backend`."""
        return self._law.speed_override

    def set_speed_override(self, percent: float) -> None:
        """Set the speed override; see `Backend`."""
        self._law.speed_override = percent

    def hold(self) -> None:
        """Stop; see `Backend`."""
        self._law.stop()
        self._begin()

    def recover(self) -> str:
        """Do nothing; see `Backend`."""
        return 'there is nothing to recover from: this simulation has no watchdogs'

    def reasons(self) -> list[Reason]:
        """Return the reasons why the arm is not at its goal; see `Backend`."""
        law = self._law
        with self.lock:
            return reasons(law.robot, self._first, figures_of(law), self._goal)

    def wait(self, until: Callable[[], bool], timeout: float) -> bool:
        """Simulate until a condition holds; see `Backend`."""
        end = self._state.time + timeout - 0.5 * self.arm.period
        while True:
            with self.lock:
                if until():
                    return True
                if self._state.time >= end:
                    return False
                self._require_open()
                self._advance()
            sleep(0)  # another thread may command now

    def listen(self, listener: Callable[[ArmState], None] | None) -> None:
        """Call a function with every state; see `Backend`."""
        self._listener = listener

    def close(self) -> None:
        """Close the window and the law."""
        with self.lock:
            self._is_open = False
            self.arm.close()
            self.arm.law.close()
