# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Options, wall, ball and contacts of a simulated arm, and checks of its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.errors import InputError
from osc_ros.sim.mjcf.mjcf_description import require

Array = NDArray[np.float64]
PerJoint = ArrayLike | Mapping[str, float] | None
STOP_IMPEDANCE = (0.99, 0.999, 1e-3, 0.5, 2.0)  # solimp of joint stops and contacts


def set_options(spec: mujoco.MjSpec, timestep: float) -> None:
    """Set integrator and time step [s] in a model's specification."""
    # Euler's method with implicit joint damping: with 100 N m s/rad the Panda is stable at 1 ms,
    # while RK4 (three times the cost) diverges. It is of first order: free motion over seconds
    # needs a shorter step to conserve energy.
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.timestep = timestep
    # A diverged state must raise an error; MuJoCo must not reset it silently.
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET


def contact(timestep: float) -> dict[str, Any]:
    """Return parameters of a contact as stiff as the joint stops; a ball penetrates by some µm."""
    return dict(condim=1, solref=(2.0 * timestep, 1.0), solimp=STOP_IMPEDANCE)


def add_wall(spec: mujoco.MjSpec, timestep: float) -> None:
    """Add a plane to a model's specification; its pose is set after the compilation."""
    # Not at the origin: MuJoCo would make that pose constant, but it is set later.
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, name='wall', size=[0.0, 0.0, 1.0],
                            pos=[0.0, 0.0, -1.0], quat=[0.6, 0.8, 0.0, 0.0],
                            **contact(timestep))


def add_ball(spec: mujoco.MjSpec, link: str, radius: float, timestep: float) -> None:
    """Add a ball without mass at the origin of a link."""
    spec.body(link).add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, name='ball', mass=0.0,
                             size=[radius, 0.0, 0.0], **contact(timestep))


def slice_of(places: NDArray[np.intp]) -> Any:
    """Return consecutive places as a slice, which indexes several times faster."""
    first = int(places[0])
    if (places == np.arange(first, first + len(places))).all():
        return slice(first, first + len(places))
    return places


def vector(what: str, given: ArrayLike, size: int) -> Array:
    """Return finite numbers as an array (size,); otherwise raise InputError that names `what`."""
    try:
        vector = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        vector = np.full(1, np.nan)
    if vector.shape != (size,) or not np.isfinite(vector).all():
        shown = ' '.join(repr(given).split())
        raise InputError(f'{what} is {shown}; must be {size} finite numbers, shape ({size},)')
    return vector


def amounts(what: str, given: PerJoint, names: Sequence[str],
             defaults: Sequence[float]) -> Array:
    """Return (n,) finite numbers of 0 or more: `given` by joint, otherwise the defaults."""
    if isinstance(given, Mapping):
        for name in given:
            require('joint', name, names)
        given = [given.get(name, default) for name, default in zip(names, defaults)]
    amounts = vector(what, defaults if given is None else given, len(names))
    for i in np.flatnonzero(amounts < 0.0).tolist():
        raise InputError(f"{what} of '{names[i]}' is {amounts[i]}; must be 0 or more")
    return amounts
