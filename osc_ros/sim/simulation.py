# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Control loop of a law with a simulated arm in MuJoCo, and the records of its runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, signature
import math
import os
from time import perf_counter, sleep
from typing import Any, TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.transform import Rotation

from osc_ros.control.law import Law
from osc_ros.dynamics.algebra.arrays import finite_array
from osc_ros.dynamics.algebra.task_inertia import SingularityDamping
from osc_ros.errors import InputError, require_options, require_type

if TYPE_CHECKING:
    from osc_ros.sim.plant import Plant

Array = NDArray[np.float64]

LONGEST_STEP = 1e-3  # largest physics step [s]
MIDDLE = 0.7  # central share of the joints' ranges for random start positions
STARTS = 300  # number of random start positions
LATE = 0.2  # delay behind real time at which the window's clock is reset [s]
PICTURE = 1.0 / 30.0  # time between two pictures in the window [s]


@dataclass(frozen=True, eq=False)
class Record:
    """
    A run of a simulation, with one row for each of k control periods.

    Attributes
    ----------
    time : (k,) [s]
    q, qd : (k, n) [rad, m and per s]
        Measured state, the input of the law.
    torque : (k, n) [N·m, N]
        Torque of the law for this state.
    pose, target : (k, 4, 4)
        Pose of the first task's link, and its set-point, in the base frame.
    error : (k, 6) [rad, m]
        Error from the link to its set-point, base axes, [angular; linear].

    """

    time: Array
    q: Array
    qd: Array
    torque: Array
    pose: Array
    target: Array
    error: Array


def option_names() -> list[str]:
    """Return the names of the options of `Simulation`, which include those of `Plant`."""
    return [name for kind in (Simulation, plant_class())
            for name, one in signature(kind).parameters.items()
            if one.default is not Parameter.empty]


def plant_class() -> type[Plant]:
    """Return the class `Plant`; ImportError says how to install MuJoCo."""
    try:
        from osc_ros.sim.plant import Plant
    except ModuleNotFoundError as error:
        raise ImportError(f'the simulation needs MuJoCo ({error}): pip install mujoco') from error
    return Plant


class Simulation:
    """
    An arm in MuJoCo under a law.

    The simulated arm has the URDF's masses, joint damping and dry friction; payload and tool of
    the law's robot are not simulated. After each `reset` the law holds the pose.

    >>> arm = Simulation(urdf, law)                          # doctest: +SKIP
    >>> law.follow(arm.pose(shift=(0.0, 0.0, 0.1)))          # 10 cm up
    >>> record = arm.run(2.0)
    >>> pyplot.plot(record.time, record.error[:, 3:])

    Attributes
    ----------
    law : Law
    plant : Plant
        The simulated arm: pushes, brakes, contact forces, pictures.
    period : float [s]
        Control period.

    Parameters
    ----------
    urdf : str or path
        URDF of the law's robot: its text, or its file.
    law : Law
    q : (n,), optional
        Start positions [rad, m]. Default: see `well_conditioned_positions`.
    rate : float [Hz]
        Rate of the law; the physics takes steps of at most `timestep`, default LONGEST_STEP.
    show : bool
        Show the arm in a window, and run no faster than real time.
    **plant
        More parameters of `osc_ros.sim.Plant`, such as friction, position_noise, wall or ball.
        `locked` is necessary if the robot has joints that are locked at positions other than 0.

    Raises
    ------
    InputError, ModelError
        An argument cannot be used, or `show` is set without a display.
    ImportError
        MuJoCo is not installed.

    """

    def __init__(self, urdf: str | os.PathLike[str], law: Law, q: ArrayLike | None = None,
                 rate: float = 500.0, show: bool = False, **plant: Any) -> None:
        require_type('law', law, Law, 'a Law: Simulation(urdf, Law(robot))')
        if not (math.isfinite(rate) and rate > 0.0):
            raise InputError(f'rate is {rate} Hz: must be a finite number above 0')
        require_options('Simulation', plant, option_names())
        robot = law.robot
        self.law, self.period = law, 1.0 / rate
        longest = plant.get('timestep', LONGEST_STEP)
        self._steps = max(1, math.ceil(self.period / longest - 1e-9))
        given = {'rotor_inertia': robot.rotor_inertia, 'gravity': robot.gravity,
                 'timestep': self.period / self._steps,
                 **{name: value for name, value in plant.items() if name != 'timestep'}}
        self.plant = plant_class()(urdf, robot.base, robot.joint_names, **given)
        self._start = well_conditioned_positions(law) if q is None else q
        self.reset()
        self._window = self.plant.viewer() if show else None
        self._shown = self._began = self._shown_time = -math.inf

    @property
    def time(self) -> float:
        """Time since the last reset [s]."""
        return self.plant.time

    @property
    def q(self) -> Array:
        """True joint positions (n,) [rad, m]."""
        return self.plant.q

    @property
    def qd(self) -> Array:
        """True joint velocities (n,) [rad/s, m/s]."""
        return self.plant.qd

    def pose(self, link: str | None = None, shift: ArrayLike = (0.0, 0.0, 0.0),
             turn: ArrayLike = (0.0, 0.0, 0.0)) -> Array:
        """
        Return the simulated pose (4, 4) of a link in the base frame, moved by `shift` and `turn`.

        Use it to define a goal relative to the present pose.

        Parameters
        ----------
        link : str, optional
            Default: the link of the law's first task.
        shift : (3,) [m]
            Added to the position, in base axes.
        turn : (3,) [rad]
            Rotation vector, in base axes, of a rotation about the link's origin.

        Raises
        ------
        InputError
            An argument is not three finite numbers, or the link is unknown.

        """
        T = self.plant.pose(link or self.law.settings.tasks[0].link or self.law.robot.tip)
        T[:3, 3] += finite_array('shift', shift, (3,))
        turned = Rotation.from_rotvec(finite_array('turn', turn, (3,)))
        T[:3, :3] = turned.as_matrix() @ T[:3, :3]
        return T

    def reset(self, q: ArrayLike | None = None) -> None:
        """
        Set the arm to rest at q (n,), by default its start positions, at time 0.

        The law then holds this pose.

        Raises
        ------
        InputError
            q has the wrong size, or is outside of the joint limits.

        """
        self.plant.reset(self._start if q is None else q)
        self.law.hold(self.plant.q)

    def step(self) -> Array:
        """Advance by one period; return the torques (n,) of the law [N·m, N]."""
        return self.advance()[2]

    def advance(self) -> tuple[Array, Array, Array]:
        """Advance by one period; return measured q, qd and the law's torques for them, (n,)."""
        q, qd, _ = self.plant.measured()
        tau = self.law.torque(self.plant.time, q, qd)
        self.plant.step(tau, self._steps)
        self.law.plan()
        self.show()
        return q, qd, tau

    def run(self, seconds: float, each: Callable[[], object] | None = None) -> Record:
        """
        Advance by a time [s]; return the record of this time.

        Parameters
        ----------
        seconds : float
        each : callable, optional
            Called before every step, to command the law or to push the arm.

        Raises
        ------
        InputError
            The time is not finite and positive, or the arm diverged.

        """
        if not (math.isfinite(seconds) and seconds > 0.0):
            raise InputError(f'seconds is {seconds}: must be a finite number above 0')
        rows, law = [], self.law
        for _ in range(max(1, round(seconds / self.period))):
            if each is not None:
                each()
            rows.append((self.plant.time, *self.advance(), law.pose, law.target.pose.copy(),
                         law.error))
        return Record(*(np.array(column) for column in zip(*rows)))

    def show(self) -> None:
        """With a window, wait until real time has reached the simulated time; draw the arm."""
        if self._window is None or not self._window.is_running():
            return  # the user has closed the window
        now, time = perf_counter(), self.plant.time
        if time < self._shown_time or now - self._began > time + LATE:
            self._began = now - time  # a reset, or a pause between two calls
        self._shown_time = time
        sleep(max(0.0, self._began + time - now))
        if perf_counter() - self._shown > PICTURE:
            self._window.sync()
            self._shown = perf_counter()

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._window is not None:
            self._window.close()


def well_conditioned_positions(law: Law, seed: int = 0) -> Array:
    """Positions (n,) far from singularities and limits that the arm can hold [rad, m]."""
    # Of STARTS random positions in the middle of the joints' ranges, those with the largest ratio
    # of the smallest to the largest singular value of the scaled Jacobian of the first task's
    # link.
    robot, settings = law.robot, law.settings
    damping = SingularityDamping(settings.damping.length)
    lower, upper = np.clip(robot.position_limits.T, -np.pi, np.pi)
    middle, half = 0.5 * (lower + upper), 0.5 * (upper - lower)
    rest, first = np.zeros(robot.n), max(0, 6 - robot.n)
    best, most = middle, -1.0
    for share in np.random.default_rng(seed).uniform(-MIDDLE, MIDDLE, size=(STARTS, robot.n)):
        q = middle + share * half
        law.space.outward(q, rest)
        damping.conditioning(law.space.jacobian()[:6])
        # an arm with n < 6 joints has 6 - n singular values of 0, which do not count
        ratio = float(np.sort(damping.ratios)[first])
        can_hold = (np.abs(law.bias_torque(q, rest)) < settings.limits.effort).all()
        if can_hold and ratio > most:
            best, most = q, ratio
    return np.asarray(best)
