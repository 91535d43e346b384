# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Simulated sensors: noise of the joint states, and a force-torque sensor."""

from __future__ import annotations

from collections.abc import Mapping

import mujoco
import numpy as np
from numpy.typing import NDArray

from osc_ros.sim.mjcf.parts import amounts

Array = NDArray[np.float64]


class JointNoise:
    """Normally distributed errors of measured joint states; for the arguments see `Plant`."""

    def __init__(self, position_noise: float, velocity_noise: float, seed: int) -> None:
        self._deviations = amounts('standard deviation', [position_noise, velocity_noise],
                                   ('position_noise', 'velocity_noise'), [])
        self._is_any = bool(self._deviations.any())
        self._random = np.random.default_rng(seed)

    def measured(self, q: Array, qd: Array) -> tuple[Array, Array]:
        """Return positions and velocities (n,) with new errors."""
        if not self._is_any:
            return q, qd
        noise = self._random.standard_normal((2, len(q))) * self._deviations[:, None]
        return q + noise[0], qd + noise[1]


def wrench_beyond(model: mujoco.MjModel, data: mujoco.MjData, at: int,
                  pushed: Mapping[int, Array]) -> Array:
    """Wrench (6,), [moment; force], that a sensor in body `at` measures, in its frame."""
    # It is by the arm on its environment at the body's origin [N·m, N], from contacts and pushes
    # on the body and on bodies that it carries, in the last physics step. `pushed`: force and
    # moment (2, 3) about a body's origin, in the axes of MuJoCo's world.
    total, wrench = np.zeros((2, 3)), np.zeros(6)
    origin = data.xpos[at]
    for k, contact in enumerate(data.contact):
        mujoco.mj_contactForce(model, data, k, wrench)
        force = contact.frame.reshape(3, 3).T @ wrench[:3]  # by the first geom on the second
        for geom, sign in ((contact.geom1, 1.0), (contact.geom2, -1.0)):
            if _is_beyond(model, model.geom_bodyid[geom], at):
                total += sign * np.array([np.cross(contact.pos - origin, force), force])
    for body, (force, moment) in pushed.items():
        if _is_beyond(model, body, at):
            total -= [moment + np.cross(data.xpos[body] - origin, force), force]
    return np.asarray((total @ data.xmat[at].reshape(3, 3)).ravel())


def _is_beyond(model: mujoco.MjModel, body: int, at: int) -> bool:
    """Whether a body is `at`, or is carried by it."""
    while body > at:  # a parent has a lower index
        body = model.body_parentid[body]
    return bool(body == at)
