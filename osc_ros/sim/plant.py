"""A fixed-base arm in MuJoCo, built from a URDF: the only module that knows mujoco."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
import difflib
import math
import re
from xml.etree import ElementTree

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.errors import InputError, ModelError

Array = NDArray[np.float64]
PerJoint = ArrayLike | Mapping[str, float] | None
MOVING = ('revolute', 'continuous', 'prismatic')


class Plant:
    """
    Torques in, joint states out: MuJoCo's physics of one arm on a fixed base.

    Every joint that is not in `joint_names` is locked exactly: its child is welded on at the
    locked value (default 0). A mimic joint follows its locked source unless it is locked itself.
    Nothing collides; masses and inertias are used as given, or refused. The arm starts at rest
    at q = 0, or at the limit nearest to it.

    Parameters
    ----------
    urdf_text : the robot description (meshes are not needed)
    base : the link that is held still; poses and gravity are in its frame
    joint_names : the n joints that move, in the order of every (n,) array
    locked : joint name -> value at which it is locked [rad or m]
    rotor_inertia : reflected rotor inertia [kg m² or kg], default 0
    timestep : physics step [s]
    gravity : (3,) in the base frame [m/s²]
    effort_limits : torque limit [N m or N], default the URDF's; 0 is unlimited
    damping : viscous friction [N m s/rad or N s/m], default the URDF's
    friction : dry friction [N m or N], default the URDF's
    position_noise, velocity_noise : standard deviations in `measured` [rad or m; rad/s or m/s]
    seed : of the noise

    Parameters by joint are (n,), or map names to values (the other joints keep the default).

    Raises
    ------
    ModelError : the URDF cannot be used
    InputError : another argument cannot be used

    """

    def __init__(self, urdf_text: str, base: str, joint_names: Sequence[str],
                 locked: Mapping[str, float] | None = None, rotor_inertia: PerJoint = None,
                 timestep: float = 1e-3, gravity: ArrayLike = (0.0, 0.0, -9.81),
                 effort_limits: PerJoint = None, damping: PerJoint = None,
                 friction: PerJoint = None, position_noise: float = 0.0,
                 velocity_noise: float = 0.0, seed: int = 0) -> None:
        if not (math.isfinite(timestep) and timestep > 0.0):
            raise InputError(f'timestep is {timestep}; accepted: finite, > 0 s')
        urdf = _Urdf(urdf_text)
        names = self.joint_names = tuple(joint_names)
        self.n = len(names)
        locks = urdf.locks(names, locked or {})
        effort, viscous, dry = (
            _amounts(what, given, names, [urdf.number(name, tag, what) for name in names])
            for what, given, tag in (('effort', effort_limits, 'limit'),
                                     ('damping', damping, 'dynamics'),
                                     ('friction', friction, 'dynamics')))
        armature = _amounts('rotor inertia', rotor_inertia, names, [0.0] * self.n)
        self._noise = _amounts('standard deviation', [position_noise, velocity_noise],
                               ('position_noise', 'velocity_noise'), [])
        self._random = np.random.default_rng(seed)
        self._effort_limits = np.where(effort > 0.0, effort, np.inf)
        self._position_limits = np.array([urdf.span(name) for name in names])

        spec = urdf.spec(locks)
        # Euler's step with joint damping taken implicitly: 100 N m s/rad on the Panda stay
        # stable at 1 ms, where RK4 (three times the cost) blows up. It is first order: ask for a
        # shorter step where free motion over seconds must keep its energy.
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        spec.option.timestep = timestep
        # A diverged state must be seen, not silently reset to zero.
        spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
        for i, name in enumerate(names):
            joint = spec.joint(name)
            joint.armature = armature[i]
            joint.damping = (viscous[i], 0.0, 0.0)  # no powers of the velocity above the first
            joint.frictionloss = dry[i]
            joint.limited = bool(np.isfinite(self._position_limits[i]).all())
            joint.range = self._position_limits[i] if joint.limited else (0.0, 0.0)
            # As stiff as the step allows: a stop is overshot by about one step's motion and gives
            # back a quarter of the speed; dry friction creeps at 1/1000 of one step's push.
            joint.solref_limit = joint.solref_friction = (2.0 * timestep, 1.0)
            joint.solimp_limit = (0.99, 0.999, 1e-3, 0.5, 2.0)
            joint.solimp_friction = (0.999, 0.999, 1e-3, 0.5, 2.0)
        self._model = urdf.compiled(spec)
        self._data = mujoco.MjData(self._model)
        self._probe = mujoco.MjData(self._model)  # so that a question leaves no trace in _data
        self._at = np.array([self._model.joint(name).dofadr[0] for name in names])
        self._links = {link: self._model.body(link).id for link in urdf.links}
        self._require_still(base)
        self._T_base_root: Array = np.eye(4)
        self._T_base_root = np.asarray(np.linalg.inv(self.pose(base)), dtype=np.float64)
        self._model.opt.gravity = self._T_base_root[:3, :3].T @ _vector('gravity', gravity, 3)
        self.reset(np.clip(np.zeros(self.n), *self._position_limits.T))

    @property
    def time(self) -> float:
        """Time since the last reset [s]."""
        return float(self._data.time)

    @property
    def q(self) -> Array:
        """(n,) true joint positions [rad or m], a fresh array."""
        return np.asarray(self._data.qpos[self._at], dtype=np.float64)

    @property
    def qd(self) -> Array:
        """(n,) true joint velocities [rad/s or m/s], a fresh array."""
        return np.asarray(self._data.qvel[self._at], dtype=np.float64)

    def reset(self, q: ArrayLike, qd: ArrayLike | None = None) -> None:
        """Put the arm at q, moving at qd (default 0), at time 0; the noise goes on as it was."""
        q = _vector('q', q, self.n)
        qd = _vector('qd', np.zeros(self.n) if qd is None else qd, self.n)
        lower, upper = self._position_limits.T
        for i in np.flatnonzero((q < lower) | (q > upper)).tolist():
            raise InputError(f"q of joint '{self.joint_names[i]}' is {q[i]}; "
                             f'accepted: {lower[i]} to {upper[i]}')
        mujoco.mj_resetData(self._model, self._data)
        self._data.qpos[self._at] = q
        self._data.qvel[self._at] = qd
        self._tau = np.zeros(self.n)

    def step(self, tau: ArrayLike, steps: int = 1) -> None:
        """Hold tau (n,) [N m or N], clipped at the effort limits, for so many physics steps."""
        if steps < 1:
            raise InputError(f'steps is {steps}; accepted: 1 or more')
        self._tau = self._clipped(tau)
        self._data.qfrc_applied[self._at] = self._tau
        mujoco.mj_step(self._model, self._data, steps)
        if self._data.warning[mujoco.mjtWarning.mjWARN_BADQACC].number:
            raise InputError(f'the arm diverged before t = {self.time} s, tau = {self._tau}; '
                             'accepted: torques that it can take (reset it to go on)')

    def measured(self) -> tuple[Array, Array, Array]:
        """Positions and velocities with sensor noise, and the torque last applied: (n,) each."""
        noise = self._random.standard_normal((2, self.n)) * self._noise[:, None]
        return self.q + noise[0], self.qd + noise[1], self._tau.copy()

    def pose(self, link: str) -> Array:
        """(4, 4) pose T_base_link of any link of the URDF."""
        _require('link', link, self._links)
        mujoco.mj_kinematics(self._model, self._data)
        T_root_link = np.eye(4)
        T_root_link[:3, :3] = self._data.xmat[self._links[link]].reshape(3, 3)
        T_root_link[:3, 3] = self._data.xpos[self._links[link]]
        return self._T_base_root @ T_root_link

    def acceleration(self, tau: ArrayLike) -> Array:
        """(n,) acceleration [rad/s² or m/s²] here and now under tau, clipped as in `step`."""
        for state in ('qpos', 'qvel', 'qacc_warmstart'):
            getattr(self._probe, state)[:] = getattr(self._data, state)
        self._probe.qfrc_applied[self._at] = self._clipped(tau)
        mujoco.mj_forward(self._model, self._probe)
        return np.asarray(self._probe.qacc[self._at], dtype=np.float64)

    def _require_still(self, base: str) -> None:
        _require('link', base, self._links)
        body = self._links[base]
        while body:
            if self._model.body_jntnum[body]:
                joint = self._model.joint(self._model.body_jntadr[body]).name
                raise InputError(f"joint '{joint}' carries the base '{base}'; "
                                 'accepted: moving joints beyond the base')
            body = self._model.body_parentid[body]

    def _clipped(self, tau: ArrayLike) -> Array:
        return np.clip(_vector('tau', tau, self.n), -self._effort_limits, self._effort_limits)


class _Urdf:
    """A URDF as MuJoCo can use it. Reads it by itself: the plant has to judge the controller."""

    def __init__(self, text: str) -> None:
        try:
            root = ElementTree.fromstring(text)
        except ElementTree.ParseError as error:
            raise ModelError(f'the URDF is not XML: {error}') from error
        self.links, self._joints = (_by_name(root.findall(tag)) for tag in ('link', 'joint'))
        self._joint_of = {self._end(name, 'child'): name for name in self._joints}
        roots = sorted(self.links.keys() - self._joint_of.keys())
        if len(roots) != 1:
            raise ModelError(f'the URDF has {len(roots)} root links {roots}; accepted: one')

    def number(self, joint: str, tag: str, attribute: str, absent: float = 0.0) -> float:
        """An attribute of an element of the joint."""
        element = self._joints[joint].find(tag)
        text = None if element is None else element.get(attribute)
        try:
            return absent if text is None else float(text)
        except ValueError:
            raise ModelError(f"joint '{joint}': {tag} {attribute} is '{text}'; "
                             'accepted: a number') from None

    def span(self, joint: str) -> tuple[float, float]:
        """Least and greatest position; infinite without <limit> and for continuous joints."""
        lower, upper = (self.number(joint, 'limit', end) for end in ('lower', 'upper'))
        if self._kind(joint) == 'continuous' or lower == upper == 0.0:
            return -math.inf, math.inf
        if not -math.inf < lower < upper < math.inf:
            raise ModelError(f"joint '{joint}': limits {lower} to {upper}; "
                             'accepted: lower < upper')
        return lower, upper

    def locks(self, moving: Sequence[str], locked: Mapping[str, float]) -> dict[str, float]:
        """The value of every joint that does not move."""
        for name in (*moving, *locked):
            _require('joint', name, self._joints)
        if not moving or len({*moving, *locked}) < len(moving) + len(locked):
            raise InputError(f'joint_names {list(moving)}, locked {list(locked)}; '
                             'accepted: at least one joint to move, each joint once')
        for name in moving:
            if self._kind(name) not in MOVING:
                raise ModelError(f"joint '{name}' is {self._kind(name)} and cannot move; "
                                 f"accepted: {', '.join(MOVING)}")
            if self._joints[name].find('mimic') is not None:
                raise ModelError(f"joint '{name}' mimics another and cannot move by itself")
        return {name: self._lock(name, locked, moving)
                for name in self._joints if name not in moving}

    def _lock(self, name: str, locked: Mapping[str, float], barred: Sequence[str]) -> float:
        mimic = self._joints[name].find('mimic')
        if name in locked or mimic is None:
            value = float(locked.get(name, 0.0))
        else:
            source = mimic.get('joint', '')
            if source not in self._joints or source in (*barred, name):
                raise ModelError(f"joint '{name}' mimics '{source}', which is not a locked joint; "
                                 f"accepted: '{name}' or its source locked")
            value = (self.number(name, 'mimic', 'multiplier', 1.0)
                     * self._lock(source, locked, (*barred, name))
                     + self.number(name, 'mimic', 'offset'))
        if not math.isfinite(value) or value != 0.0 and self._kind(name) not in MOVING:
            raise InputError(f"joint '{name}' ({self._kind(name)}) is locked at {value}; "
                             f"accepted: finite, and 0 unless {', '.join(MOVING)}")
        return value

    def spec(self, locks: Mapping[str, float]) -> mujoco.MjSpec:
        """MuJoCo's editable model, every link a body, with joints only where they move."""
        # fusestatic would swallow links; the other two would make up inertias.
        text = ('<robot name="plant"><mujoco><compiler fusestatic="false" balanceinertia="false" '
                'inertiafromgeom="false"/></mujoco>')
        kept = {'link': ('inertial',), 'joint': ('origin', 'parent', 'child', 'axis')}
        for element in (*self.links.values(), *self._joints.values()):
            copy = ElementTree.Element(element.tag, element.attrib)
            copy.extend(part for part in element if part.tag in kept[element.tag])
            text += '\n' + ElementTree.tostring(copy, encoding='unicode').replace('\n', ' ')
        try:
            spec = mujoco.MjSpec.from_string(text + '</robot>')
        except ValueError as error:
            raise self._refusal(error) from error
        for name, value in locks.items():
            body = spec.body(self._end(name, 'child'))
            for joint in list(body.joints):
                if value:
                    _displace(body, joint, value)
                spec.delete(joint)
        return spec

    def compiled(self, spec: mujoco.MjSpec) -> mujoco.MjModel:
        """MuJoCo's model for use."""
        try:
            return spec.compile()
        except ValueError as error:
            raise self._refusal(error) from error

    def _refusal(self, error: ValueError) -> ModelError:
        """MuJoCo's message, with the names of the joint and link in place of line numbers."""
        message = ' '.join(str(error).split())
        named, line = re.search("name '(.*?)'", message), re.search(r'line (\d+)', message)
        name = named.group(1) if named else ''
        if line:  # line 1 holds the compiler's settings, then `spec` wrote one element on each
            name = [*self.links, *self._joints][int(line.group(1)) - 2]
        joint = self._joint_of.get(name, name)
        where = f"joint '{joint}'" if joint in self._joints else f"link '{name}'"
        return ModelError(f'{where}: MuJoCo refuses the URDF here: {message}')

    def _kind(self, joint: str) -> str:
        return self._joints[joint].get('type', '')

    def _end(self, joint: str, which: str) -> str:
        element = self._joints[joint].find(which)
        if element is None or not element.get('link'):
            raise ModelError(f"joint '{joint}' has no {which} link")
        return element.get('link', '')


def _displace(body: mujoco.MjsBody, joint: mujoco.MjsJoint, value: float) -> None:
    """Move the body's frame [in its parent's] to where the joint takes it at that value."""
    axis = np.array(joint.axis)
    mujoco.mju_normalize3(axis)
    change, frame = np.empty(3), np.array(body.quat)
    if joint.type == mujoco.mjtJoint.mjJNT_SLIDE:
        mujoco.mju_rotVecQuat(change, value * axis, frame)
        body.pos = body.pos + change
    else:
        turn = np.empty(4)
        mujoco.mju_axisAngle2Quat(turn, axis, value)
        mujoco.mju_mulQuat(frame, frame.copy(), turn)
        body.quat = frame


def _by_name(elements: list[ElementTree.Element]) -> dict[str, ElementTree.Element]:
    named: dict[str, ElementTree.Element] = {}
    for element in elements:
        name = element.get('name', '')
        if not name or name in named:
            raise ModelError(f"{element.tag} name '{name}' is empty or repeated")
        named[name] = element
    return named


def _require(kind: str, name: str, names: Iterable[str]) -> None:
    if name not in names:
        near = difflib.get_close_matches(name, names := list(names)) or names
        raise InputError(f"unknown {kind} '{name}'; accepted: {', '.join(near)}")


def _vector(what: str, given: ArrayLike, size: int) -> Array:
    try:
        vector = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        vector = np.full(1, np.nan)
    if vector.shape != (size,) or not np.isfinite(vector).all():
        shown = ' '.join(repr(given).split())
        raise InputError(f'{what} is {shown}; accepted: {size} finite numbers, shape ({size},)')
    return vector


def _amounts(what: str, given: PerJoint, names: Sequence[str],
             defaults: Sequence[float]) -> Array:
    """Return (n,) finite amounts of 0 or more: those given, the default where none is."""
    if isinstance(given, Mapping):
        for name in given:
            _require('joint', name, names)
        given = [given.get(name, default) for name, default in zip(names, defaults)]
    amounts = _vector(what, defaults if given is None else given, len(names))
    for i in np.flatnonzero(amounts < 0.0).tolist():
        raise InputError(f"{what} of '{names[i]}' is {amounts[i]}; accepted: 0 or more")
    return amounts
