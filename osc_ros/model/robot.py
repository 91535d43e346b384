"""A serial chain of rigid bodies as frozen arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
import math
from types import MappingProxyType
from typing import Any
import warnings

import numpy as np
from numpy.typing import NDArray

from osc_ros.errors import ModelError, ModelWarning
from osc_ros.model import urdf

Array = NDArray[np.float64]

RIGID_TOLERANCE = 1e-9
SYMMETRY_TOLERANCE = 1e-12
# Of the trace; a wire of 1 m with a radius of 10 µm has 1e-10.
DEFINITE_TOLERANCE = 1e-12
# Published tensors are rounded to a few digits: thin rods and plates miss zero by that.
SEMIDEFINITE_TOLERANCE = 1e-6
TRIANGLE_TOLERANCE = 1e-3
NO_MOMENT = 1e-15  # [kg m²]: the rounding of a tensor of zeros


@dataclass(frozen=True, eq=False)
class Robot:
    """
    The moving bodies between a fixed base and a tip, base first.

    Body i carries its frame at joint i with the joint axis along +z; fixed links and locked
    branches are lumped into the body that they hang from. Spatial quantities are
    [angular; linear] about the body's origin. All arrays are read-only.

    Attributes
    ----------
    name, base, tip : str
        Name of the robot; link that is fixed to the ground; link whose motion is the task.
    joint_names : tuple of str, length n
    prismatic : (n,) bool
        True where the joint slides along its axis, False where it turns about it.
    T_parent_body : (n, 4, 4)
        Pose of body i's frame in body i-1's (the base frame for i = 0) at q = 0 [m].
    inertia : (n, 6, 6)
        Spatial inertia about the body's own origin, in its frame [kg m², kg m, kg].
    T_body_tip : (4, 4)
        Pose of the tip frame in the last body's frame [m].
    rotor_inertia : (n,)
        Reflected rotor inertia [kg m²; kg for prismatic].
    position_limits : (n, 2)
        Lower and upper [rad, m]; infinite for continuous joints.
    velocity_limits, effort_limits : (n,)
        [rad/s, m/s] and [N·m, N]; infinite where the description gives none.
    gravity : (3,)
        In the base frame [m/s²].
    frames : mapping of str to (int, (4, 4))
        Every link of the description: the body that carries it (-1 is the base) and its pose in
        that body's frame, for the locked joints at their locked values.

    """

    name: str
    base: str
    tip: str
    joint_names: tuple[str, ...]
    prismatic: NDArray[np.bool_]
    T_parent_body: Array
    inertia: Array
    T_body_tip: Array
    rotor_inertia: Array
    position_limits: Array
    velocity_limits: Array
    effort_limits: Array
    gravity: Array
    frames: Mapping[str, tuple[int, Array]]

    def __post_init__(self) -> None:
        """
        Freeze the arrays.

        Raises
        ------
        ModelError
            A shape, a number or an inertia that no chain of bodies has, with the joint's name.

        """
        n = len(self.joint_names)
        if n == 0:
            raise ModelError(f"robot '{self.name}' has no moving joint")
        if len(set(self.joint_names)) < n:
            raise ModelError(f"robot '{self.name}': its joint names are not unique: "
                             + urdf.quoted(self.joint_names))
        freeze = object.__setattr__
        freeze(self, 'prismatic', _frozen('prismatic', self.prismatic, (n,), np.bool_))
        for field, shape in _shapes(n).items():
            freeze(self, field, _frozen(field, getattr(self, field), shape))
        freeze(self, 'frames', MappingProxyType({
            link: (int(body), _frozen(f"frames['{link}']", pose, (4, 4)))
            for link, (body, pose) in self.frames.items()}))
        self._refuse_numbers()
        self._refuse_inertias()

    @property
    def n(self) -> int:
        """The number of moving joints."""
        return len(self.joint_names)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by construction: a mapping proxy does not, and arrays would come writeable."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return Robot, tuple((values | {'frames': dict(self.frames)}).values())

    @classmethod
    def from_urdf(
        cls,
        urdf_text: str,
        base: str,
        tip: str,
        rotor_inertia: Sequence[float] | Mapping[str, float] | None = None,
        locked: Mapping[str, float] | None = None,
        gravity: Sequence[float] = (0.0, 0.0, -9.81),
    ) -> Robot:
        """
        Return the chain from link `base` to link `tip` of a URDF.

        Joints off that path, and any on it that `locked` names, are held and their bodies lumped
        into the moving body that they hang from; all that does not hang from a moving body is
        ground.

        Parameters
        ----------
        urdf_text : str
            The URDF itself, with xacro already expanded.
        base, tip : str
            Links; the tip must descend from the base, which need not be the root.
        rotor_inertia : sequence, length n, or mapping of joint name to float, optional
            Reflected rotor inertia [kg m²; kg for prismatic]; zero where not given.
        locked : mapping of joint name to float, optional
            Values at which joints are held [rad, m]; 0 for the joints that it does not name, and
            for a mimic joint what its source gives.
        gravity : sequence, length 3
            In the base frame [m/s²].

        Raises
        ------
        ModelError
            The description cannot be used: which joint or link, what, what is accepted.

        Warns
        -----
        ModelWarning
            Limits that are not given, an inertia that breaks the triangle inequality, a locked
            joint that mimics a moving one.

        """
        description = urdf.description(urdf_text)
        base_link, tip_link = _index(description, 'base', base), _index(description, 'tip', tip)
        given = _given_values(description, locked or {})
        moving = [i for i in _path(description, base_link, tip_link)
                  if description.kinds[i] != 'fixed' and i not in given]
        _refuse_path(description, moving, base, tip)
        q_held = _held_values(description, set(moving), given)
        joint_names = tuple(description.joints[i] for i in moving)
        body, T_parent_body, T_body_link = _bodies(description, moving, q_held, base_link)
        _judge_tensors(description, body)
        robot = cls(
            name=description.name,
            base=base,
            tip=tip,
            joint_names=joint_names,
            prismatic=np.array([description.kinds[i] == 'prismatic' for i in moving]),
            T_parent_body=T_parent_body,
            inertia=_lumped(description.inertia, body, T_body_link, len(moving)),
            T_body_tip=T_body_link[tip_link],
            rotor_inertia=_rotor_inertias(rotor_inertia, joint_names),
            position_limits=description.position_limits[moving],
            velocity_limits=description.velocity_limits[moving],
            effort_limits=description.effort_limits[moving],
            gravity=_frozen('gravity', gravity, (3,)),
            frames=dict(zip(
                description.links, zip(body, T_body_link, strict=True), strict=True)),
        )
        _warn_of_limits(robot, [description.kinds[i] == 'continuous' for i in moving])
        return robot

    def _refuse_numbers(self) -> None:
        for field in ('T_body_tip', 'gravity'):
            if not np.isfinite(getattr(self, field)).all():
                raise ModelError(f"robot '{self.name}': {field} is not finite")
        for field in ('T_parent_body', 'inertia'):
            finite = np.isfinite(getattr(self, field)).all(axis=(1, 2))
            self._refuse(~finite, f'{field} is not finite')
        R = self.T_parent_body[:, :3, :3]
        rigid = np.abs(R @ R.transpose(0, 2, 1) - np.eye(3)).max(axis=(1, 2)) < RIGID_TOLERANCE
        rigid &= np.linalg.det(R) > 0
        rigid &= (self.T_parent_body[:, 3] == [0.0, 0.0, 0.0, 1.0]).all(axis=1)
        self._refuse(~rigid, 'T_parent_body is not a rigid transform')
        rotor = (self.rotor_inertia >= 0) & np.isfinite(self.rotor_inertia)
        self._refuse(~rotor, 'rotor_inertia must be finite and not negative')
        lower, upper = self.position_limits.T
        self._refuse(~(lower <= upper), 'position_limits must be a lower and an upper bound')
        for field in ('velocity_limits', 'effort_limits'):
            self._refuse(~(getattr(self, field) > 0), f'{field} must be positive (inf: unlimited)')

    def _refuse(self, bad: NDArray[np.bool_], what: str) -> None:
        for i in np.flatnonzero(bad)[:1]:
            raise ModelError(f"joint '{self.joint_names[i]}': {what}")

    def _refuse_inertias(self) -> None:
        inertia = self.inertia
        scale = np.abs(inertia).max(axis=(1, 2))
        skew = np.abs(inertia - inertia.transpose(0, 2, 1)).max(axis=(1, 2))
        self._refuse(skew > SYMMETRY_TOLERANCE * scale, 'its inertia is not symmetric')
        turn, coupling, mass = inertia[:, :3, :3], inertia[:, :3, 3:], inertia[:, 3:, 3:]
        massless = np.linalg.eigvalsh(mass)[:, 0] <= 0
        for i in np.flatnonzero(massless)[:1]:
            raise ModelError(f'{self._carried(i)} no mass: a massless moving link is not '
                             'supported yet; give it an <inertial> or make its joint fixed')
        # The part about the centre of mass: what is left of a point mass is rounding.
        central = turn - coupling @ np.linalg.solve(mass, coupling.transpose(0, 2, 1))
        smallest = np.linalg.eigvalsh(central)[:, 0]
        size = np.trace(turn, axis1=1, axis2=2)
        for i in np.flatnonzero(smallest <= DEFINITE_TOLERANCE * size)[:1]:
            raise ModelError(
                f'{self._carried(i)} an inertia that is not positive definite (smallest principal '
                f'moment {smallest[i]:.3g} kg m²): a point mass or a line cannot be a moving body')

    def _carried(self, i: int) -> str:
        """Return 'joint x: link y (…) has', the links being those of body `i`."""
        links = [link for link, (body, _) in self.frames.items() if body == i]
        if not links:
            return f"joint '{self.joint_names[i]}': the body that it moves has"
        rest = f', with {urdf.quoted(links[1:9])}' if links[1:] else ''
        more = ' …' if links[9:] else ''
        return f"joint '{self.joint_names[i]}': link '{links[0]}'{rest}{more} has"


def _shapes(n: int) -> dict[str, tuple[int, ...]]:
    return {
        'T_parent_body': (n, 4, 4), 'inertia': (n, 6, 6), 'T_body_tip': (4, 4),
        'rotor_inertia': (n,), 'position_limits': (n, 2), 'velocity_limits': (n,),
        'effort_limits': (n,), 'gravity': (3,),
    }


def _frozen(
    what: str, values: object, shape: tuple[int, ...], dtype: type[np.generic] = np.float64,
) -> NDArray[Any]:
    try:
        array = np.array(values, dtype=dtype, order='C')
    except (TypeError, ValueError):
        raise ModelError(f'{what} is not an array of numbers of shape {shape}') from None
    if array.shape != shape:
        raise ModelError(f'{what} has shape {array.shape}, not {shape}')
    array.flags.writeable = False
    return array


def _index(description: urdf.Description, role: str, link: str) -> int:
    if link not in description.links:
        raise ModelError(f"{role} '{link}' is not a link of robot '{description.name}'; "
                         + urdf.near(link, description.links))
    return description.links.index(link)


def _path(description: urdf.Description, base: int, tip: int) -> list[int]:
    """Return the links below the base down to the tip."""
    upward = [tip]
    while upward[-1] != base:
        above = int(description.parent[upward[-1]])
        if above < 0:
            ancestors = [description.links[i] for i in upward[1:]]
            raise ModelError(
                f"tip '{description.links[tip]}' does not descend from base "
                f"'{description.links[base]}'; accepted as base: {urdf.quoted(ancestors[:20])}"
                + (' …' if ancestors[20:] else ''))
        upward.append(above)
    return upward[-2::-1]


def _given_values(description: urdf.Description, locked: Mapping[str, float]) -> dict[int, float]:
    index = {joint: i for i, joint in enumerate(description.joints) if joint}
    values: dict[int, float] = {}
    for joint, value in locked.items():
        if joint not in index:
            raise ModelError(f"locked: '{joint}' is not a joint of robot '{description.name}'; "
                             + urdf.near(joint, index))
        kind = description.kinds[index[joint]]
        if kind not in urdf.MOVING:
            raise ModelError(f"locked: joint '{joint}' is {kind} and takes no value "
                             f"(accepted: {', '.join(urdf.MOVING)})")
        values[index[joint]] = _finite(f"locked: the value of joint '{joint}'", value)
    return values


def _finite(what: str, value: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ModelError(f'{what} must be a finite number, not {value!r}')
    return number


def _refuse_path(description: urdf.Description, moving: list[int], base: str, tip: str) -> None:
    if not moving:
        raise ModelError(f"no joint moves between base '{base}' and tip '{tip}': at least one "
                         f"must ({', '.join(urdf.MOVING)})")
    for i in moving:
        joint = description.joints[i]
        if description.kinds[i] not in urdf.MOVING:
            raise ModelError(
                f"joint '{joint}' between '{base}' and '{tip}' is {description.kinds[i]}, which "
                f"is not supported on the path (accepted: {', '.join(urdf.MOVING)}, fixed)")
        if i in description.mimics:
            source = description.joints[description.mimics[i].source]
            raise ModelError(
                f"joint '{joint}' between '{base}' and '{tip}' mimics '{source}': a joint on the "
                f"path must move by itself; hold it with locked={{'{joint}': value}}, or choose "
                'another base or tip')


def _held_values(
    description: urdf.Description, moving: set[int], given: Mapping[int, float],
) -> Array:
    """Return every joint's value, (m,): as given, by its mimic law, else 0."""
    q = np.zeros(len(description.links))
    q[list(given)] = list(given.values())
    settled = moving | set(given)
    led: list[str] = []
    for first in description.mimics:
        chain: dict[int, None] = {}
        i = first
        while i in description.mimics and i not in settled:
            if i in chain:
                raise ModelError(f"joint '{description.joints[i]}' mimics itself by way of "
                                 + urdf.quoted(description.joints[k] for k in chain))
            chain[i] = None
            i = description.mimics[i].source
        for k in reversed(chain):
            law = description.mimics[k]
            q[k] = law.multiplier * q[law.source] + law.offset
            settled.add(k)
            if law.source in moving:
                led.append(description.joints[k])
    if led:
        warnings.warn(
            f"robot '{description.name}': joints {urdf.quoted(led)} mimic moving joints; they are "
            'held where those stand at 0', ModelWarning, stacklevel=3)
    return q


def _bodies(
    description: urdf.Description, moving: list[int], q_held: Array, base: int,
) -> tuple[NDArray[np.intp], Array, Array]:
    """Return each link's body (-1: ground), T_parent_body (n, 4, 4), T_body_link (m, 4, 4)."""
    T_joint = _held_origins(description, q_held)
    body = np.full(len(description.links), -1, dtype=np.intp)
    T_body_link = np.empty_like(T_joint)
    T_parent_body = np.empty((len(moving), 4, 4))
    number = {link: i for i, link in enumerate(moving)}
    for i, parent in enumerate(description.parent.tolist()):
        T = T_joint[i] if parent < 0 else T_body_link[parent] @ T_joint[i]
        if i in number:
            body[i] = number[i]
            T_link_body = _axis_on_z(description.axis[i])
            T_parent_body[body[i]] = T @ T_link_body
            T_body_link[i] = T_link_body.T
        else:
            body[i] = body[parent] if parent >= 0 else -1
            T_body_link[i] = T
    T_base_root = _inverse(T_body_link[base])
    T_parent_body[0] = T_base_root @ T_parent_body[0]
    ground = body < 0
    T_body_link[ground] = T_base_root @ T_body_link[ground]
    return body, T_parent_body, T_body_link


def _held_origins(description: urdf.Description, q: Array) -> Array:
    """Return the poses of the links in their parents' frames with the joints at `q`."""
    T = description.T_parent_link.copy()
    for i in np.flatnonzero(q):
        motion = np.eye(4)
        if description.kinds[i] == 'prismatic':
            motion[:3, 3] = q[i] * description.axis[i]
        else:
            K = urdf.cross_matrices(description.axis[i:i + 1])[0]
            motion[:3, :3] += np.sin(q[i]) * K + (1 - np.cos(q[i])) * K @ K
        T[i] = T[i] @ motion
    return T


def _axis_on_z(axis: Array) -> Array:
    """Return the rotation, (4, 4), whose third column is `axis`; 1 where the axis is +z."""
    T = np.eye(4)
    up = axis if axis[2] >= 0 else -axis  # the shortest turn from z, far from its singularity
    x, y, z = up
    T[:3, :3] = [[1 - x * x / (1 + z), -x * y / (1 + z), x],
                 [-x * y / (1 + z), 1 - y * y / (1 + z), y],
                 [-x, -y, z]]
    if axis[2] < 0:
        T[:3, 1:3] *= -1
    return T


def _inverse(T: Array) -> Array:
    inverse = np.eye(4)
    inverse[:3, :3] = T[:3, :3].T
    inverse[:3, 3] = -T[:3, :3].T @ T[:3, 3]
    return inverse


def _judge_tensors(description: urdf.Description, body: NDArray[np.intp]) -> None:
    """Refuse or warn of the tensors of the links that move; the ground's do not matter."""
    moments = description.moments
    floor = -SEMIDEFINITE_TOLERANCE * np.abs(moments).max(axis=1) - NO_MOMENT
    for i in np.flatnonzero((body >= 0) & (moments[:, 0] < floor)):
        raise ModelError(
            f"link '{description.links[i]}': its inertia tensor is not positive semi-definite "
            f"(principal moments {', '.join(f'{m:.6g}' for m in moments[i])} kg m²)")
    excess = moments[:, 2] * (1 - TRIANGLE_TOLERANCE) - moments[:, 0] - moments[:, 1]
    suspect = np.flatnonzero((body >= 0) & (excess > NO_MOMENT))
    if suspect.size:
        warnings.warn(
            f"robot '{description.name}': the inertia of links "
            f'{urdf.quoted(description.links[i] for i in suspect)} breaks the triangle inequality '
            '(one principal moment exceeds the sum of the others): no body has it',
            ModelWarning, stacklevel=3)


def _lumped(inertia: Array, body: NDArray[np.intp], T_body_link: Array, n: int) -> Array:
    """Return the sum over each body's links of their inertias moved to its origin, (n, 6, 6)."""
    carried = np.flatnonzero(body >= 0)
    R, p = T_body_link[carried, :3, :3], T_body_link[carried, :3, 3]
    R_link_body = R.transpose(0, 2, 1)
    X = np.zeros((len(carried), 6, 6))
    X[:, :3, :3] = X[:, 3:, 3:] = R_link_body
    X[:, 3:, :3] = -R_link_body @ urdf.cross_matrices(p)
    lumped = np.zeros((n, 6, 6))
    np.add.at(lumped, body[carried], X.transpose(0, 2, 1) @ inertia[carried] @ X)
    symmetric: Array = (lumped + lumped.transpose(0, 2, 1)) / 2
    return symmetric


def _rotor_inertias(
    given: Sequence[float] | Mapping[str, float] | None, joint_names: tuple[str, ...],
) -> Array:
    if given is None:
        return np.zeros(len(joint_names))
    if not isinstance(given, Mapping):
        return _frozen('rotor_inertia', given, (len(joint_names),))
    for joint in given.keys() - set(joint_names):
        raise ModelError(f"rotor_inertia: '{joint}' is not a moving joint; known: "
                         + urdf.quoted(joint_names))
    return np.array([_finite(f"rotor_inertia: the value of joint '{joint}'", given.get(joint, 0.0))
                     for joint in joint_names])


def _warn_of_limits(robot: Robot, continuous: list[bool]) -> None:
    unbounded = np.isinf(robot.position_limits).any(axis=1) & ~np.array(continuous)
    gaps = [
        f'no {what} limit for {urdf.quoted(robot.joint_names[i] for i in np.flatnonzero(open_))}'
        for what, open_ in (('position', unbounded), ('velocity', np.isinf(robot.velocity_limits)),
                            ('effort', np.isinf(robot.effort_limits))) if open_.any()]
    if gaps:
        warnings.warn(f"robot '{robot.name}': {'; '.join(gaps)}: taken as unlimited",
                      ModelWarning, stacklevel=3)
