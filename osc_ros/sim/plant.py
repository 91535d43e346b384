# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A fixed-base arm in MuJoCo, built from a URDF, with brakes and contacts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
import math
import os
from pathlib import Path
from typing import Any
import warnings

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.control.setpoint.trajectory import require_rigid
from osc_ros.dynamics.algebra.arrays import finite_array
from osc_ros.errors import InputError, ModelWarning
from osc_ros.model.files import urdf_path, urdf_text
from osc_ros.sim.mjcf.mjcf_description import FLOOR, give_least, require, Urdf
from osc_ros.sim.mjcf.parts import (
    add_ball,
    add_wall,
    amounts,
    PerJoint,
    set_options,
    slice_of,
    STOP_IMPEDANCE,
    vector,
)
from osc_ros.sim.mjcf.picture import add_shapes, arm_corners, Image, picture, shape_names, Viewer
from osc_ros.sim.sensor import JointNoise, wrench_beyond

Array = NDArray[np.float64]
COMPENSATES = ('none', 'gravity', 'gravity+coriolis')
BRAKE = 2.0  # torque of a closed brake, relative to the joint's effort limit
STRONGEST = 1e6  # torque of a closed brake if the joint has no effort limit [N m, N]
STICKS = 0.05  # below this speed a braked joint stops, unless its brake is overloaded [rad/s]


class Brakes:
    """Dry friction (n,) of the joints [N m or N]: their own, and that of their closed brakes."""

    def __init__(self, dry: Array, effort_limits: Array) -> None:
        self._dry, self._strength = dry, np.minimum(BRAKE * effort_limits, STRONGEST)
        self.close(False)

    def close(self, closed: ArrayLike) -> None:
        """Close or open the brakes, see `Plant.brake`."""
        self.closed = np.broadcast_to(np.asarray(closed, dtype=bool), self._dry.shape).copy()
        self.are_open = not self.closed.any()
        self.friction = self._dry + self.closed * self._strength

    def standing(self, qd: Array, friction_torque: Array) -> NDArray[np.bool_]:
        """Return whether (n,) the brake of each joint holds it, for velocities and torques."""
        return np.asarray(self.closed & (np.abs(qd) < STICKS)
                          & (np.abs(friction_torque) < 0.99 * self.friction))


class Plant:
    """
    MuJoCo's simulation of one arm on a fixed base: takes torques, returns joint states.

    Every joint that is not in `joint_names` is locked exactly: its child is welded to its parent
    at the locked position (default 0). A mimic joint follows its locked source unless it is locked
    itself. There are no collisions, except between ball and wall if both are given, and collisions
    that `furnish` adds. Masses and inertias are exactly those of the URDF, except that a massless
    link between two joints, or a link without inertia, gets a tiny value, and an impossible
    inertia the nearest possible one; a ModelWarning names these links. The arm starts at rest at
    q = 0, or at the nearest limit.

    Parameters
    ----------
    urdf : the robot description, as text or path (meshes are not needed)
    base : the fixed link; poses and gravity are in its frame
    joint_names : the n joints that move, in the order of every (n,) array
    locked : joint name -> position at which it is locked [rad or m]
    rotor_inertia : reflected rotor inertia [kg m² or kg], default 0
    timestep : physics step [s]
    gravity : (3,) in the base frame [m/s²]
    effort_limits : torque limit [N m or N], default the URDF's; 0 is unlimited
    damping : viscous friction [N m s/rad or N s/m], default the URDF's
    friction : dry friction [N m or N], default the URDF's
    position_noise, velocity_noise : standard deviations in `measured` [rad or m; rad/s or m/s]
    seed : seed of the random noise
    compensates : torque that a driver adds: 'none', 'gravity' or 'gravity+coriolis'
    wall : (4, 4) pose, in the base frame, of a stiff frictionless plane, solid on its -z side
    ball : link that carries a ball, and the radius of the ball [m]
    furnish : receives MuJoCo's specification, in the axes of the URDF's root, and adds bodies
    beside the arm, for example `Block.add` or `World.add`
    folder : from which pictures and viewer find meshes, default the folder of the URDF's path

    Parameters by joint are (n,), or a mapping of names to values (default for missing joints).

    Raises
    ------
    ModelError : the URDF cannot be used
    InputError : another argument cannot be used

    """

    def __init__(self, urdf: str | os.PathLike[str], base: str, joint_names: Sequence[str],
                 locked: Mapping[str, float] | None = None, rotor_inertia: PerJoint = None,
                 timestep: float = 1e-3, gravity: ArrayLike = (0.0, 0.0, -9.81),
                 effort_limits: PerJoint = None, damping: PerJoint = None,
                 friction: PerJoint = None, position_noise: float = 0.0,
                 velocity_noise: float = 0.0, seed: int = 0, wall: ArrayLike | None = None,
                 ball: tuple[str, float] | None = None, compensates: str = 'none',
                 folder: str | os.PathLike[str] | None = None,
                 furnish: Callable[[mujoco.MjSpec], None] | None = None) -> None:
        if not (math.isfinite(timestep) and timestep > 0.0):
            raise InputError(f'timestep is {timestep}; must be finite, > 0 s')
        if compensates not in COMPENSATES:
            raise InputError(f"compensates is '{compensates}'; must be one of "
                             f"{', '.join(COMPENSATES)}")
        self._compensates = compensates
        description, file = Urdf(urdf_text(urdf)), urdf_path(urdf)
        names = self.joint_names = tuple(joint_names)
        self.n = len(names)
        locks = description.locks(names, locked or {})
        effort, viscous, dry = (
            amounts(what, given, names, [description.number(name, tag, what) for name in names])
            for what, given, tag in (('effort', effort_limits, 'limit'),
                                     ('damping', damping, 'dynamics'),
                                     ('friction', friction, 'dynamics')))
        armature = amounts('rotor inertia', rotor_inertia, names, [0.0] * self.n)
        self._noise = JointNoise(position_noise, velocity_noise, seed)
        self._effort_limits = np.where(effort > 0.0, effort, np.inf)
        self._brakes = Brakes(dry, self._effort_limits)
        self._position_limits = np.array([description.span(name) for name in names])
        spec = description.spec(locks)
        set_options(spec, timestep)
        self._set_joints(spec, armature, viscous, timestep)
        if wall is not None:
            add_wall(spec, timestep)
        if ball is not None:
            if not isinstance(ball, Sequence) or len(ball) != 2:
                raise InputError(f"ball is {ball!r}: give a link and a radius [m], ('LINK', 0.05)")
            require('link', ball[0], description.links)
            add_ball(spec, *ball, timestep)
        if furnish is not None:
            description.compiled_model(spec)  # refuse a bad URDF before parts are added
            furnish(spec)
        self.model = description.compiled_model(spec)
        if description.substitutes:
            warnings.warn('the simulated arm differs from its description: '
                          + '; '.join(description.substitutes), ModelWarning, stacklevel=2)
        self._find_places(description.links)
        self._drawing = partial(description.scene, locks,
                                folder=Path(folder) if folder else file and file.parent)
        self._require_still(base)
        self._T_base_root: Array = np.eye(4)
        self._T_base_root = np.asarray(np.linalg.inv(self.pose(base)), dtype=np.float64)
        if wall is not None:
            self._place_wall(wall)
        self.model.opt.gravity = self._T_base_root[:3, :3].T @ vector('gravity', gravity, 3)
        self.reset(np.clip(np.zeros(self.n), *self._position_limits.T))

    def _find_places(self, links: Iterable[str]) -> None:
        """Create MuJoCo's states, and find joints, links and the wall in them."""
        self._data = mujoco.MjData(self.model)
        self._probe = mujoco.MjData(self.model)  # for computations that must not change _data
        self._at = np.array([self.model.joint(name).dofadr[0] for name in self.joint_names])
        self._here = slice_of(self._at)  # as a slice if possible, which is faster
        self._diverged = self._data.warning[mujoco.mjtWarning.mjWARN_BADQACC]
        self._zeros = np.zeros(self.n)
        self._wall = mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_GEOM, 'wall')
        self._links = {link: self.model.body(link).id for link in links}

    def _set_joints(self, spec: mujoco.MjSpec, armature: Array, viscous: Array, timestep: float
                    ) -> None:
        """Set inertia, friction and limits of the moving joints in a model's specification."""
        for i, name in enumerate(self.joint_names):
            joint = spec.joint(name)
            joint.armature = armature[i]
            if armature[i] > 0.0 and joint.parent.mass == 0.0:  # the rotor alone moves
                give_least(joint.parent)
            joint.damping = (viscous[i], 0.0, 0.0)  # linear in the velocity
            joint.frictionloss = self._brakes.friction[i]
            joint.limited = bool(np.isfinite(self._position_limits[i]).all())
            joint.range = self._position_limits[i] if joint.limited else (0.0, 0.0)
            # As stiff as the step allows: a joint overshoots its stop by about one step's motion
            # and rebounds with a quarter of its speed; under dry friction a joint creeps by 1/1000
            # of the speed that its torque would cause in one step.
            joint.solref_limit = joint.solref_friction = (2.0 * timestep, 1.0)
            joint.solimp_limit = STOP_IMPEDANCE
            joint.solimp_friction = (0.999, 0.999, 1e-3, 0.5, 2.0)

    def _place_wall(self, wall: ArrayLike) -> None:
        pose = finite_array('wall', wall, (4, 4))
        require_rigid('wall', pose[None])
        T = np.linalg.inv(self._T_base_root) @ pose
        self.model.geom('wall').pos = T[:3, 3]
        mujoco.mju_mat2Quat(self.model.geom('wall').quat, T[:3, :3].ravel())

    @property
    def effort_limits(self) -> Array:
        """Torque limits (n,) [N m or N], infinite if there is none; a new array."""
        return self._effort_limits.copy()

    @property
    def time(self) -> float:
        """Time since the last reset [s]."""
        return float(self._data.time)

    @property
    def q(self) -> Array:
        """True joint positions (n,) [rad or m], a new array."""
        return np.array(self._data.qpos[self._here])

    @property
    def qd(self) -> Array:
        """True joint velocities (n,) [rad/s or m/s], a new array."""
        return np.array(self._data.qvel[self._here])

    def reset(self, q: ArrayLike, qd: ArrayLike | None = None) -> None:
        """
        Set the state to q, qd (default 0) at time 0; open the brakes and end all pushes.

        The sequence of the sensor noise is not restarted. Raises InputError for q outside of the
        limits.

        """
        q = vector('q', q, self.n)
        qd = vector('qd', np.zeros(self.n) if qd is None else qd, self.n)
        lower, upper = self._position_limits.T
        for i in np.flatnonzero((q < lower) | (q > upper)).tolist():
            raise InputError(f"q of joint '{self.joint_names[i]}' is {q[i]}; "
                             f'must be {lower[i]} to {upper[i]}')
        mujoco.mj_resetData(self.model, self._data)
        self._data.qpos[self._at] = q
        self._data.qvel[self._at] = qd
        self._tau = np.zeros(self.n)
        self.brake(False)
        self._pushed: dict[int, Array] = {}

    @property
    def braked(self) -> NDArray[np.bool_]:
        """Whether (n,) the brake of each joint is closed; a new array."""
        return self._brakes.closed.copy()

    def brake(self, closed: ArrayLike) -> None:
        """
        Close or open the brakes: one bool for all joints, or (n,).

        A joint with a closed brake gets no motor torque; dry friction of twice its effort limit
        stops and holds it. A joint without an effort limit stops at once.

        """
        self._brakes.close(closed)
        self.model.dof_frictionloss[self._at] = self._brakes.friction

    def push(self, link: str, force: ArrayLike, moment: ArrayLike = (0.0, 0.0, 0.0)) -> None:
        """
        Apply a force (3,) at a link's origin [N] and a moment (3,) [N·m], in base axes.

        They act until the next call for this link, or a reset.

        """
        require('link', link, self._links)
        self._pushed[self._links[link]] = np.concatenate([
            vector('force', force, 3), vector('moment', moment, 3)])

    def sensor_wrench(self, link: str) -> Array:
        """
        Return the wrench (6,), [moment; force], by the arm on its environment, in a link's frame.

        A force-torque sensor at the origin of the link would measure this wrench, after
        compensation of the weight and inertia that it carries: contacts and pushes on the link and
        on links beyond it, in the last physics step [N·m, N].

        """
        require('link', link, self._links)
        return wrench_beyond(self.model, self._data, self._links[link], self._pushes_at_root())

    def _pushes_at_root(self) -> dict[int, Array]:
        """Return the pushes, force and moment (2, 3) by body, in the axes of MuJoCo's world."""
        return {body: push.reshape(2, 3) @ self._T_base_root[:3, :3]
                for body, push in self._pushed.items()}

    def external_force(self, link: str) -> Array:
        """
        Return the force (3,) by the environment on the moving body of a link, base frame [N].

        It contains the contacts and pushes that `sensor_wrench` measures, on all links that are
        fixed to this one, too, and on links that they carry, such as fingers.

        """
        require('link', link, self._links)
        if not (self._data.ncon or self._pushed):  # most states: the rest takes long
            return np.zeros(3)
        body = self.model.body_weldid[self._links[link]]
        force = wrench_beyond(self.model, self._data, body, self._pushes_at_root())[3:]
        return np.asarray(-self._T_base_root[:3, :3]
                          @ self._data.xmat[body].reshape(3, 3) @ force)

    def contact_force(self) -> Array:
        """Return the force (3,) on the wall, by arm and other bodies, base frame [N]."""
        mujoco.mj_forward(self.model, self._data)
        total, wrench, data = np.zeros(3), np.zeros(6), self._data
        contacts = data.contact  # arrays: one object per contact takes longer than a step
        for k in np.flatnonzero(contacts.geom[:, 0] == self._wall).tolist():
            mujoco.mj_contactForce(self.model, data, k, wrench)
            # `wrench`: by the first geom, the wall, on the second, in the contact's axes
            total -= contacts.frame[k].reshape(3, 3).T @ wrench[:3]
        return np.asarray(self._T_base_root[:3, :3] @ total)

    def _apply_pushes(self) -> None:
        for body, push in self._pushes_at_root().items():
            f, m = push
            # MuJoCo applies a force at the centre of mass
            arm = self._data.xpos[body] - self._data.xipos[body]
            self._data.xfrc_applied[body] = np.concatenate([f, m + np.cross(arm, f)])

    def step(self, tau: ArrayLike, steps: int = 1) -> None:
        """
        Apply tau (n,) [N m or N], clipped at the effort limits, for a number of physics steps.

        Joints with closed brakes get no torque. Raises InputError if the arm diverged.

        """
        if steps < 1:
            raise InputError(f'steps is {steps}; must be 1 or more')
        self._tau = self._clipped(tau)
        if not self._brakes.are_open:
            self._tau[self._brakes.closed] = 0.0
        self._apply_pushes()
        if self._compensates == 'none' and self._brakes.are_open:
            self._data.qfrc_applied[self._here] = self._tau
            mujoco.mj_step(self.model, self._data, steps)
        else:
            for _ in range(steps):
                self._step_once()
        if self._diverged.number:
            raise InputError(f'the arm diverged before t = {self.time} s, tau = {self._tau}; '
                             'give smaller torques or a smaller timestep (reset it to go on)')

    def _step_once(self) -> None:
        """Make one physics step with the driver's torques and with brakes."""
        tau = self._tau
        if self._compensates != 'none':
            qd = 0.0 if self._compensates == 'gravity' else 1.0
            added = self._bias(qd * self._data.qvel)
            tau = np.where(self._brakes.closed, 0.0, self._clipped(tau + added))
        self._data.qfrc_applied[self._at] = tau
        before = self.q
        mujoco.mj_step(self.model, self._data)
        # with MuJoCo's dry friction a loaded joint creeps; a braked joint must not
        stands = self._brakes.standing(self._data.qvel[self._at],
                                       self._data.qfrc_constraint[self._at])
        self._data.qpos[self._at[stands]] = before[stands]
        self._data.qvel[self._at[stands]] = 0.0

    def measured(self) -> tuple[Array, Array, Array]:
        """Return positions and velocities with sensor noise, and the last torque, (n,) each."""
        return *self._noise.measured(self.q, self.qd), self._tau.copy()

    @property
    def weight(self) -> Array:
        """Torques (n,) that hold the arm at its present position [N m or N], a new array."""
        return self._bias(0.0 * self._data.qvel)

    def _bias(self, qvel: Array) -> Array:
        self._probe.qpos[:], self._probe.qvel[:] = self._data.qpos, qvel
        mujoco.mj_forward(self.model, self._probe)
        return np.asarray(self._probe.qfrc_bias[self._at], dtype=np.float64)

    def pose(self, link: str, q: ArrayLike | None = None) -> Array:
        """Return the pose T_base_link (4, 4) of any link of the URDF; at positions q, if given."""
        require('link', link, self._links)
        data = self._data if q is None else self._probe
        if q is not None:
            data.qpos[self._at] = vector('q', q, self.n)
        mujoco.mj_kinematics(self.model, data)
        T_root_link = np.eye(4)
        T_root_link[:3, :3] = data.xmat[self._links[link]].reshape(3, 3)
        T_root_link[:3, 3] = data.xpos[self._links[link]]
        return self._T_base_root @ T_root_link

    def in_base(self, T: Array) -> Array:
        """Transform a pose (4, 4) from the URDF's root to the base frame."""
        return self._T_base_root @ T

    def acceleration(self, tau: ArrayLike) -> Array:
        """Return the acceleration (n,) [rad/s² or m/s²] under tau, clipped as in `step`."""
        for state in ('qpos', 'qvel', 'qacc_warmstart'):
            getattr(self._probe, state)[:] = getattr(self._data, state)
        self._probe.qfrc_applied[self._at] = self._clipped(tau)
        mujoco.mj_forward(self.model, self._probe)
        return np.asarray(self._probe.qacc[self._at], dtype=np.float64)

    def viewer(self) -> Viewer:
        """Open a window that shows the arm; raise InputError without a display with OpenGL."""
        return Viewer(self)

    def picture(self, path: str | os.PathLike[str] | None = None, width: int = 640,
                height: int = 480) -> Image:
        """
        Return a picture, (height, width, 3) RGB; also write it as a PNG file to `path` if given.

        Requires OpenGL, but no display if MUJOCO_GL is egl or osmesa.

        Raises
        ------
        InputError : OpenGL is not available, or width or height is not positive

        """
        return picture(*self.scene(), path, width, height)

    @property
    def data(self) -> mujoco.MjData:
        """MuJoCo's state."""
        return self._data

    @property
    def qpos(self) -> Array:
        """Positions of the arm's joints in the order of a scene [rad or m], a new array."""
        return np.array(self._data.qpos[np.sort(self._at)])

    def show_in(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Set the arm and the bodies beside it in a `scene` to their present poses."""
        data.qpos, data.time = self.qpos, self.time
        mujoco.mj_kinematics(self.model, self._data)
        for name, at in shape_names(self.model).items():
            model.geom(name).pos = self._data.geom_xpos[at]
            mujoco.mju_mat2Quat(model.geom(name).quat, self._data.geom_xmat[at])
        mujoco.mj_forward(model, data)

    def scene(self) -> tuple[mujoco.MjModel, mujoco.MjData]:
        """Return a model for drawing, with gravity down, and data with the arm at its q."""
        model = self._drawing(self.model.opt.gravity, more=partial(add_shapes, model=self.model))
        data = mujoco.MjData(model)
        self.show_in(model, data)
        least, greatest = arm_corners(model, data)
        model.geom_pos[FLOOR, 2] = least[2]
        # MuJoCo places the camera 1.5 extents away, so the whole arm is in view; the camera angles
        # turn the front of the arm to the right.
        model.stat.center = 0.5 * (least + greatest)
        model.stat.extent = 0.9 * math.dist(least, greatest)
        model.vis.global_.azimuth, model.vis.global_.elevation = 140.0, -15.0
        mujoco.mj_forward(model, data)
        return model, data

    def _require_still(self, base: str) -> None:
        require('link', base, self._links)
        body = self._links[base]
        while body:
            if self.model.body_jntnum[body]:
                joint = self.model.joint(self.model.body_jntadr[body]).name
                raise InputError(f"joint '{joint}' carries the base '{base}'; "
                                 'the joints that move must be beyond the base')
            body = self.model.body_parentid[body]

    def _clipped(self, tau: ArrayLike) -> Array:
        if not (type(tau) is np.ndarray and tau.dtype == np.float64 and tau.shape == (self.n,)
                and math.isfinite(tau.dot(self._zeros))):  # 0 times inf or nan is nan
            tau = vector('tau', tau, self.n)
        # np.clip would take several times as long
        return np.minimum(np.maximum(tau, -self._effort_limits), self._effort_limits)


def steps_per_period(values: Mapping[str, Any], timestep: str, rate: str) -> int:
    """Return the number of physics steps in a period, from 'timestep' and 'rate' of `values`."""
    # InputError, with the two given names, if it is not a whole number
    steps = 1.0 / float(values['rate'] * values['timestep'])
    if abs(steps - round(steps)) > 1e-6 * steps or round(steps) < 1:
        raise InputError(f"{timestep} is {values['timestep']} s and {rate} {values['rate']} Hz: "
                         'must be a whole number of steps a period')
    return round(steps)
