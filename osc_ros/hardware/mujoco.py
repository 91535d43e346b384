# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A simulated arm in MuJoCo, in the process of the control loop: `MujocoArm`."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter, sleep
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.errors import InputError
from osc_ros.hardware.contract import Description, HardwareError, Setting, State
from osc_ros.model.gripper_state import GripperState, HandGoal
from osc_ros.model.urdf import description as urdf_description
from osc_ros.model.urdf import near
from osc_ros.sim.hand import Hand, hand_of
from osc_ros.sim.plant import COMPENSATES, Plant, steps_per_period
from osc_ros.sim.plant_payload import with_payload

Array = NDArray[np.float64]

NAME = "the simulated arm of hardware 'mujoco'"
CATCH_UP = 5  # largest number of periods that a late loop catches up on
BY_JOINT = 'damping', 'friction', 'effort_limits', 'rotor_inertia'


class MujocoArm:
    """MuJoCo's simulation of an arm on a fixed base, with the settings of osc_simulator."""

    # The simulated time advances by one period per cycle: `write` applies its torque for one
    # period, and `read` applies the last torque again if there was no `write` since the previous
    # `read`. With the pace 'real_time', `read` waits until the state is due on the wall clock,
    # counted from the first `read`. A late loop catches up on at most CATCH_UP periods; `late`
    # counts the others, by which the simulated time has fallen behind. The brakes are closed
    # except from the first `write` after `start` until `stop`.

    settings = (
        Setting('pace', 'real_time', 'real_time: a state arrives at its time on the wall clock; '
                'fast: at once, so that the simulation is as fast as the machine',
                choices=('real_time', 'fast')),
        Setting('rate', 1000.0, 'Rate of the states, in simulated time [Hz]', lower=1.0,
                upper=20000.0),
        Setting('timestep', 0.001, 'Physics step; a period of `rate` must be a whole number of '
                'them [s]', lower=1e-6, upper=0.1),
        Setting('base', '', 'Link that is fixed to the ground; empty: the root of the robot '
                'description'),
        Setting('gravity', (0.0, 0.0, -9.81), 'Gravity in the base frame [m/s²]', lower=-1e3,
                upper=1e3, size=3),
        Setting('locked_joints', (), 'Joints that do not move, apart from the controlled ones',
                of=str),
        Setting('locked_positions', (), 'Positions of locked_joints [rad, m], one each; empty: '
                'all 0'),
        Setting('initial_positions', (), 'Joint positions at the start, base first [rad, m]; '
                'empty: 0, or the nearest limit'),
        Setting('driver_compensates', 'none', 'What the arm itself adds to the commanded torques',
                choices=COMPENSATES),
        Setting('payload.mass', 0.0, 'Mass of the payload that the arm carries, in addition to '
                'the robot description [kg]; the arm knows it, if driver_compensates is not none',
                lower=0.0, upper=1e4),
        Setting('payload.center_of_mass', (0.0, 0.0, 0.0), 'Centre of mass of the payload in the '
                'frame of payload.link [m]', lower=-1e2, upper=1e2, size=3),
        Setting('payload.inertia', (0.0,) * 6, 'xx xy xz yy yz zz about its centre of mass, in '
                'the axes of payload.link [kg m²]', lower=-1e4, upper=1e4, size=6),
        Setting('payload.link', '', 'Link that the payload is fixed to; empty: the link that the '
                'last joint moves'),
        Setting('rotor_inertia', (), 'Reflected rotor inertia of every moving joint, base first '
                '[kg m²]; empty: 0', lower=0.0),
        Setting('damping', (), "Joint damping, base first [N m s/rad]; empty: the URDF's",
                lower=0.0),
        Setting('friction', (), "Coulomb friction, base first [N m]; empty: the URDF's",
                lower=0.0),
        Setting('effort_limits', (), "Torque limits, base first [N m], 0: unlimited; empty: the "
                "URDF's", lower=0.0),
        Setting('gripper.joints', (), 'Two prismatic joints of the robot description that open in '
                'opposite directions from 0: then the fingers move and grasp. Empty: no gripper',
                of=str),
        Setting('position_noise', 0.0, 'Standard deviation of measured positions [rad, m]',
                lower=0.0),
        Setting('velocity_noise', 0.0, 'Standard deviation of measured velocities [rad/s, m/s]',
                lower=0.0),
        Setting('seed', 0, 'Seed of the noise', lower=0),
        Setting('identity', '', 'Name of an arm that is treated like a real one: if the node is '
                'killed, the loop goes on and holds the arm, and a second process for the same '
                'name is refused. Empty: the loop ends with its node', fixed=True),
    )

    def __init__(self, values: Mapping[str, Any], urdf: str, joint_names: tuple[str, ...],
                 plant: Plant | None = None, hand: Hand | None = None) -> None:
        # plant, hand: the simulated arm, at its initial positions, and its gripper; default: made
        # from `values`
        self._period = 1.0 / values['rate']
        self._steps = steps_per_period(values, 'hardware.timestep', 'hardware.rate')
        self._hand = hand_of(urdf, values['gripper.joints']) if plant is None else hand
        self._plant = _plant(values, urdf, joint_names, self._hand) if plant is None else plant
        self._initial = self._plant.q
        self._compensates, self._is_held = values['driver_compensates'], bool(values['identity'])
        self._waits = values['pace'] == 'real_time'
        self.late, self._due = 0, 0.0
        self._tau = np.zeros(self._plant.n)
        self._is_open = self._has_control = self._has_read = False
        self._rest()

    def open(self) -> Description:
        """Return the description of the arm, which is at its initial positions."""
        self._is_open, self._cycle = True, 0
        self._rest()
        return Description(NAME, self._plant.joint_names, self._period, self._compensates,
                           self._plant.effort_limits, clock='simulated',
                           is_held=self._is_held)

    def start(self) -> None:
        """Accept torques; the brakes open at the first one."""
        self._require_usable()
        if self._has_control:
            raise HardwareError(f'{NAME}: the control runs already')
        self._has_control = True

    def read(self) -> State:
        """Return the next state when it is due."""
        self._require_usable()
        if self._has_read:
            self._step(self._tau)
        self._has_read = True
        q, qd, tau = self._plant.measured()
        if self._is_braked and self._compensates == 'none':
            tau = self._plant.weight  # joint torque sensors also measure the load on the brakes
        state = State(self._cycle * self._period, q, qd, tau)
        if self._waits:
            self._wait()
        self._cycle += 1
        return state

    def write(self, tau: Array) -> None:
        """Apply torques (n,) for one period, clipped at the effort limits [N·m; N]."""
        # HardwareError: the control has ended, or the state was answered already; or the torques
        # are not n finite numbers, or make the simulation diverge, which both end the control
        if not self._has_control:
            raise HardwareError(f'{NAME}: the control was not started, or has ended. Start it')
        if not self._has_read:
            raise HardwareError(f'{NAME}: a second torque for the same state. Read the next one')
        if np.shape(tau) != (self._plant.n,) or not np.isfinite(tau).all():
            self.stop()
            raise HardwareError(f'{NAME}: torques {tau}: give {self._plant.n} finite '
                                'numbers; the control ends')
        if self._is_braked:
            self._brake(False)
        self._has_read = False
        self._tau = np.array(tau)
        self._step(self._tau)

    def stop(self) -> None:
        """Close the brakes."""
        self._has_control = False
        self._brake(True)

    def recover(self) -> None:
        """Reset the arm to its initial positions if the simulation has diverged."""
        if self._has_diverged:
            self._rest()

    def move_gripper(self, goal: HandGoal) -> None:
        """Move the fingers; InputError if there is no gripper, or it refuses the numbers."""
        self._require_hand().move(goal)

    def gripper_state(self) -> GripperState:
        """Return the state of the gripper; InputError if there is none."""
        return self._require_hand().state(self._plant)

    def _require_hand(self) -> Hand:
        if self._hand is None:
            raise InputError(f"{NAME} has no gripper: panda and fr3 have one; for another robot "
                             "give its two finger joints: Arm.simulated(…, hand=('left', "
                             "'right')), setting 'gripper.joints' of the hardware")
        return self._hand

    def report(self) -> Mapping[str, float]:
        """Return `late`."""
        return {'late periods': self.late}

    def close(self) -> None:
        """End the simulation."""
        self._is_open = self._has_control = False

    def pose(self, link: str) -> Array:
        """Return the true pose T_base_link (4, 4) of any link, for tests of a controller."""
        return self._plant.pose(link)

    def _require_usable(self) -> None:
        if not self._is_open:
            raise HardwareError(f'{NAME} is not open')
        if self._has_diverged:
            raise HardwareError(f'{NAME}: the simulation has diverged. Recover: the arm returns '
                                'to its initial positions')

    def _rest(self) -> None:
        """Reset the arm to its initial positions, at rest with closed brakes."""
        self._plant.reset(self._initial)
        self._has_diverged = self._has_read = False
        self._brake(True)

    def _brake(self, closed: bool) -> None:
        self._is_braked, self._tau = closed, np.zeros(self._plant.n)
        self._plant.brake(closed)

    def _step(self, tau: Array) -> None:
        try:
            if self._hand is not None:
                self._hand.advance(self._plant, self._period)
            self._plant.step(tau, self._steps)
        except InputError as error:
            self._has_diverged = True
            self.stop()
            raise HardwareError(f'{NAME}: {error}') from error

    def _wait(self) -> None:
        """Wait until the state is due; skip periods that a late loop does not catch up on."""
        now = perf_counter()
        self._due = now if self._cycle == 0 else self._due + self._period
        lost = int((now - self._due) / self._period) - CATCH_UP
        if lost > 0:
            self.late += lost
            self._due += lost * self._period
        elif self._due > now:
            sleep(self._due - now)


def _plant(values: Mapping[str, Any], urdf: str, joint_names: tuple[str, ...],
           hand: Hand | None) -> Plant:
    """Return the simulated arm with its payload, at its initial positions; raise InputError."""
    found = urdf_description(urdf)
    locked = dict(zip(values['locked_joints'], values['locked_positions'] or (
        (0.0,) * len(values['locked_joints']))))
    if len(locked) < max(len(values['locked_joints']), len(values['locked_positions'])):
        raise InputError(f"hardware.locked_positions has {len(values['locked_positions'])} "
                         f"entries and locked_joints {len(values['locked_joints'])}: give "
                         'one each, or none')
    link = values['payload.link']
    if not link and joint_names[-1] in found.joints:
        link = found.links[found.joints.index(joint_names[-1])]
    if link not in found.links and values['payload.mass']:
        raise InputError(f"hardware.payload.link: '{link}' is not a link of '{found.name}'; "
                         + near(link, found.links))
    plant = Plant(
        with_payload(urdf, link, values), values['base'] or found.links[0], joint_names, locked,
        timestep=values['timestep'], gravity=values['gravity'], seed=values['seed'],
        position_noise=values['position_noise'], velocity_noise=values['velocity_noise'],
        compensates=values['driver_compensates'], furnish=None if hand is None else hand.add,
        **{name: values[name] or None for name in BY_JOINT})
    if values['initial_positions']:
        plant.reset(values['initial_positions'])
    return plant
