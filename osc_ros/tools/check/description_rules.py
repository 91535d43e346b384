# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Rules on an arm at its home posture; `osc_ros.model.doubts` has those on its URDF."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
import warnings

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.tasks.freedoms import require_single_freedoms
from osc_ros.errors import InputError, ModelWarning, UnitWarning
from osc_ros.model.robot import Robot
from osc_ros.tools.check.arm_dynamics import weight

Array = NDArray[np.float64]

HEAVY = 0.9  # the weight may take this share of a torque limit
UPRIGHT = np.array([0.0, 0.0, -9.81])  # gravity in the base frame of an arm on a table [m/s²]
SAME = 0.2  # smaller differences of gravity are not noted [m/s²]: 1° of direction, 2 % of size


@dataclass(frozen=True, eq=False)
class Description:
    """Data of an arm that the rules check."""

    robot: Robot
    home: Array  # (n,) [rad, m]: where the rules check the weight of the arm
    freedoms: int = 6  # number of degrees of freedom of the tip, at most 6
    warned: tuple[Warning, ...] = ()  # UnitWarning: a problem; others: notes

    @property
    def weight(self) -> Array:
        """Torques (n,) that hold the arm at home [N m, N]."""
        return weight(self.robot, self.home)


def problems(about: Description) -> list[str]:
    """Return the errors that make it impossible to control the arm, each with a remedy."""
    return [*(str(one) for one in about.warned if isinstance(one, UnitWarning)),
            *(text for rule in PROBLEMS for text in rule(about))]


def notes(about: Description) -> list[str]:
    """Return missing and unusual data of the description, each with advice for the user."""
    return [*(str(one) for one in about.warned if not isinstance(one, UnitWarning)),
            *(text for rule in NOTES for text in rule(about))]


def loaded(load: Callable[[], Robot]) -> tuple[Robot, tuple[Warning, ...]]:
    """Return a robot, and the warnings of `Robot.from_urdf` on its description."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always', ModelWarning)
        robot = load()
    return robot, tuple(one.message for one in caught if isinstance(one.message, ModelWarning))


def links_by_joint(robot: Robot) -> dict[str, list[str]]:
    """Return the links of each body, by the joint that moves it; key '': links of the base."""
    found: dict[str, list[str]] = {joint: [] for joint in ('', *robot.joints)}
    for link, (body, _) in robot.frames.items():
        found[robot.joints[body] if body >= 0 else ''].append(link)
    return found


def _no_mass(about: Description) -> Iterator[str]:
    if not about.robot.inertia[:, 5, 5].any():
        yield ('no link that moves has a mass: add <inertial> to the links; without it the '
               'controller carries no weight')


def _several_freedoms(about: Description) -> Iterator[str]:
    try:
        require_single_freedoms(about.robot)
    except InputError as error:
        yield str(error)


def _too_heavy(about: Description) -> Iterator[str]:
    robot, tau = about.robot, about.weight
    for k, name in enumerate(robot.joint_names):
        effort = robot.effort_limits[k]  # infinite if there is none: a note says so
        if abs(tau[k]) > HEAVY * effort:
            yield (f"joint '{name}': the weight takes {abs(tau[k]):.3g} of {effort:.3g} N m at "
                   'home: check masses and centres of mass (grams? millimetres?), the effort '
                   'limit, and gravity')


def _home_outside(about: Description) -> Iterator[str]:
    robot, home = about.robot, about.home
    low, high = robot.position_limits.T
    for k in np.flatnonzero((home < low) | (home > high)):
        yield (f"home: '{robot.joint_names[k]}' at {home[k]:g} is outside of {low[k]:g} to "
               f'{high[k]:g}')


def _turned_gravity(about: Description) -> Iterator[str]:
    gravity = about.robot.gravity
    if np.linalg.norm(gravity - UPRIGHT) > SAME:
        yield (f'gravity is {gravity.tolist()} m/s² in the base frame, not {UPRIGHT.tolist()}: '
               'the arm is assumed to be mounted like that, which a simulation cannot check; for '
               "an arm whose base stands upright remove parameter 'gravity'")


def _few_freedoms(about: Description) -> Iterator[str]:
    if about.freedoms < 6:
        yield (f'the tip can move along {about.freedoms} of 6 axes at once: control those '
               "(parameters 'translation.axes', 'rotation.axes'; `osc_demo` chooses them)")


def _no_rotors(about: Description) -> Iterator[str]:
    if not about.robot.rotor_inertia.any():
        yield ('no rotor inertia is known, a URDF has none: with geared motors set parameter '
               "'rotor_inertia'")


def _no_friction(about: Description) -> Iterator[str]:
    if not (about.robot.coulomb_friction.any() or about.robot.viscous_friction.any()):
        yield ('no friction is described: joints that have some will stop short of the goal '
               "unless 'friction.coulomb' is set or <dynamics> is added")


Rule = Callable[[Description], Iterator[str]]
PROBLEMS: tuple[Rule, ...] = (_several_freedoms, _no_mass, _too_heavy)
NOTES: tuple[Rule, ...] = (_home_outside, _turned_gravity, _few_freedoms, _no_rotors, _no_friction)
