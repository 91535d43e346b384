"""A tree of rigid bodies as frozen arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
import math
from types import MappingProxyType
from typing import Any
import warnings

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

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
    The moving bodies of a tree, from a base that is fixed to the ground out to one or more tips.

    Every parent comes before its children; body i hangs from body parent[i] by a joint of one
    freedom along +z of its frame, which turns (revolute) or slides (prismatic), or by a spherical
    one, with three. Joints with other freedoms are several bodies in a row, all without mass but
    the last: a planar one slides, slides and turns, a floating one slides three times and is
    spherical. Fixed links and locked branches are lumped into the body that they hang from.
    Spatial quantities are [angular; linear] about the body's origin. All arrays are read-only.

    Positions q (nq,) and velocities qd (n,) run through the bodies in this order. A spherical
    joint has a quaternion x y z w in q, of any length but zero, and the angular velocity in the
    body's axes in qd; everything else has its angle or travel, and its rate. So a floating joint
    has position and quaternion in q, and in qd the velocity in the parent's axes and the angular
    velocity in the body's own.

    Attributes
    ----------
    name, base : str
        Name of the robot; link that is fixed to the ground, and whose frame everything is told in.
    tips : tuple of str
        Links whose motion is the task.
    joints : tuple of str, length b
        Name of the joint that each body moves by.
    parent : (b,) int
        Body that each body hangs from; -1 is the base.
    prismatic, spherical : (b,) bool
        What each body's joint does; neither is revolute.
    T_parent_body : (b, 4, 4)
        Pose of body i's frame in its parent's at q = 0 (no rotation for a spherical joint) [m].
    inertia : (b, 6, 6)
        Spatial inertia about the body's own origin, in its frame [kg m², kg m, kg]. Zero or
        singular is accepted as long as every joint moves something that has inertia.
    rotor_inertia : (n,)
        Reflected rotor inertia [kg m²; kg for prismatic].
    position_limits : (n, 2)
        Lower and upper [rad, m]; infinite for continuous and spherical joints.
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
    tips: tuple[str, ...]
    joints: tuple[str, ...]
    parent: NDArray[np.intp]
    prismatic: NDArray[np.bool_]
    spherical: NDArray[np.bool_]
    T_parent_body: Array
    inertia: Array
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
            A shape, a number or an inertia that no tree of bodies has, with the joint's name.

        """
        bodies = len(self.joints)
        if bodies == 0:
            raise ModelError(f"robot '{self.name}' has no moving joint")
        freeze = object.__setattr__
        freeze(self, 'tips', tuple(self.tips))
        freeze(self, 'joints', tuple(self.joints))
        for name in ('prismatic', 'spherical'):
            freeze(self, name, _frozen(name, getattr(self, name), (bodies,), np.bool_))
        freeze(self, 'parent', _frozen('parent', self.parent, (bodies,), np.intp))
        self._refuse_structure()
        for name, shape in _shapes(bodies, self.n).items():
            freeze(self, name, _frozen(name, getattr(self, name), shape))
        freeze(self, 'frames', MappingProxyType({
            link: (int(body), _frozen(f"frames['{link}']", pose, (4, 4)))
            for link, (body, pose) in self.frames.items()}))
        self._refuse_tips()
        self._refuse_numbers()
        self._refuse_inertias()

    @cached_property
    def joint_names(self) -> tuple[str, ...]:
        """The moving joints, in the order of their bodies."""
        return tuple(dict.fromkeys(self.joints))

    @cached_property
    def n(self) -> int:
        """The number of freedoms: the length of qd and of the torques."""
        return len(self.joints) + 2 * int(np.count_nonzero(self.spherical))

    @cached_property
    def nq(self) -> int:
        """The length of q."""
        return len(self.joints) + 3 * int(np.count_nonzero(self.spherical))

    @cached_property
    def v_index(self) -> NDArray[np.intp]:
        """Where each body's freedoms begin in qd, (b,)."""
        return _begins(np.where(self.spherical, 3, 1))

    @cached_property
    def q_index(self) -> NDArray[np.intp]:
        """Where each body's position begins in q, (b,)."""
        return _begins(np.where(self.spherical, 4, 1))

    @cached_property
    def neutral(self) -> Array:
        """Position (nq,) at which every body is as T_parent_body says."""
        q = np.zeros(self.nq)
        q[self.q_index[self.spherical] + 3] = 1.0
        q.flags.writeable = False
        return q

    @property
    def tip(self) -> str:
        """The first of the tips."""
        return self.tips[0]

    @property
    def T_body_tip(self) -> Array:
        """Pose (4, 4) of the first tip in the frame of the body that carries it [m]."""
        return self.frames[self.tip][1]

    @cached_property
    def definite(self) -> NDArray[np.bool_]:
        """(b,) where the inertia of a body can be inverted."""
        turn, coupling, mass = (self.inertia[:, :3, :3], self.inertia[:, :3, 3:],
                                self.inertia[:, 3:, 3:])
        definite = np.linalg.eigvalsh(mass)[:, 0] > 0
        # The part about the centre of mass: what is left of a point mass is rounding.
        with_mass = np.where(definite[:, None, None], mass, np.eye(3))
        central = turn - coupling @ np.linalg.solve(with_mass, coupling.transpose(0, 2, 1))
        smallest = np.linalg.eigvalsh(central)[:, 0]
        definite &= smallest > DEFINITE_TOLERANCE * np.trace(turn, axis1=1, axis2=2) + NO_MOMENT
        return np.asarray(definite)

    @cached_property
    def serial(self) -> bool:
        """
        Whether this is a plain chain.

        Bodies that have all the inertia that a body can have, one after the other, by revolute and
        prismatic joints, and one tip on the last of them.

        """
        follows = np.arange(-1, len(self.joints) - 1)
        return (len(self.tips) == 1 and self.frames[self.tip][0] == len(self.joints) - 1
                and not self.spherical.any() and bool((self.parent == follows).all())
                and bool(self.definite.all()))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by construction: a mapping proxy does not, and arrays would come writeable."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return Robot, tuple((values | {'frames': dict(self.frames)}).values())

    @classmethod
    def from_urdf(
        cls,
        urdf_text: str,
        base: str,
        tip: str | Sequence[str],
        rotor_inertia: Sequence[float] | Mapping[str, float] | None = None,
        locked: Mapping[str, float] | None = None,
        gravity: Sequence[float] = (0.0, 0.0, -9.81),
        free: Sequence[str] | bool = False,
        floating_base: bool = False,
    ) -> Robot:
        """
        Return the chain from link `base` to link `tip` of a URDF, or the tree to several tips.

        Joints off the paths, and any on them that `locked` names, are held and their bodies lumped
        into the moving body that they hang from; all that does not hang from a moving body is
        ground, or the floating base.

        Parameters
        ----------
        urdf_text : str
            The URDF itself, with xacro already expanded.
        base : str
            Link; it need not be the root.
        tip : str, or sequence of str
            Links that descend from the base.
        rotor_inertia : sequence, length n, or mapping of joint name to float, optional
            Reflected rotor inertia [kg m²; kg for prismatic]; zero where not given.
        locked : mapping of joint name to float, optional
            Values at which joints are held [rad, m]; 0 for the joints that it does not name, and
            for a mimic joint what its source gives.
        gravity : sequence, length 3
            In the base frame [m/s²]; with a floating base, in the frame that it floats in.
        free : sequence of joint names, or bool
            Joints off the paths that move too, and what lies between them and the paths; True for
            all that can, those that mimic others excepted.
        floating_base : bool
            Let the base float, by a joint named 'floating_base', from where it is at q = 0.

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
        tips = (tip,) if isinstance(tip, str) else tuple(tip)
        if not tips:
            raise ModelError('tip names no link: accepted are one or more links')
        base_link = _index(description, 'base', base)
        tip_links = [_index(description, 'tip', link) for link in tips]
        given = _given_values(description, locked or {})
        on_path = sorted({i for link in tip_links for i in _path(description, base_link, link)})
        on_path = [i for i in on_path if description.kinds[i] != 'fixed' and i not in given]
        if not (on_path or floating_base):
            raise ModelError(f"no joint moves between base '{base}' and tip {urdf.quoted(tips)}: "
                             f"at least one must ({', '.join(urdf.MOVING)})")
        moving = sorted({*on_path, *_freed(description, free, base_link, given)})
        _refuse_mimics(description, moving)
        q_held = _held_values(description, set(moving), given)
        tree = _tree(description, moving, q_held, base_link, floating_base)
        _judge_tensors(description, tree.body)
        robot = cls(
            name=description.name,
            base=base,
            tips=tips,
            joints=tuple(tree.joints),
            parent=np.array(tree.parent),
            prismatic=np.array([kind == 'prismatic' for kind in tree.kinds]),
            spherical=np.array([kind == 'spherical' for kind in tree.kinds]),
            T_parent_body=np.array(tree.T_parent_body),
            inertia=_lumped(description.inertia, tree.body, tree.T_body_link, len(tree.parent)),
            rotor_inertia=_rotor_inertias(rotor_inertia, tree.freedoms),
            **{limits: np.array([getattr(description, limits)[i] if i >= 0 else unlimited
                                 for i in tree.limited])
               for limits, unlimited in (('position_limits', (-np.inf, np.inf)),
                                         ('velocity_limits', np.inf), ('effort_limits', np.inf))},
            gravity=_frozen('gravity', gravity, (3,)),
            frames=dict(zip(description.links, zip(tree.body, tree.T_body_link, strict=True),
                            strict=True)),
        )
        _warn_of_limits(description, moving)
        return robot

    def _refuse_structure(self) -> None:
        late = self.parent >= np.arange(len(self.parent))
        self._refuse(late | (self.parent < -1),
                     'its parent does not come before it (-1 is the base)')
        self._refuse(self.prismatic & self.spherical, 'is both prismatic and spherical')
        left: set[str] = set()
        for i in range(1, len(self.joints)):
            if self.joints[i] != self.joints[i - 1]:
                left.add(self.joints[i - 1])
            elif self.parent[i] != i - 1:
                left.add(self.joints[i])
            if self.joints[i] in left:
                raise ModelError(f"robot '{self.name}': its joint names are not unique: "
                                 + urdf.quoted(self.joints))

    def _refuse_tips(self) -> None:
        if not self.tips or len(set(self.tips)) < len(self.tips):
            raise ModelError(f"robot '{self.name}': its tips are {urdf.quoted(self.tips)}; "
                             'accepted are one or more links, each once')
        for tip in self.tips:
            if tip not in self.frames:
                raise ModelError(f"tip '{tip}' is not a link of robot '{self.name}'; "
                                 + urdf.near(tip, self.frames))
            if self.frames[tip][0] < 0:
                raise ModelError(f"tip '{tip}' does not move: no joint is between it and base "
                                 f"'{self.base}'")

    def _refuse_numbers(self) -> None:
        if not np.isfinite(self.gravity).all():
            raise ModelError(f"robot '{self.name}': gravity is not finite")
        for link, (_, pose) in self.frames.items():
            if not np.isfinite(pose).all():
                raise ModelError(f"robot '{self.name}': the pose of link '{link}' is not finite")
        for name in ('T_parent_body', 'inertia'):
            finite = np.isfinite(getattr(self, name)).all(axis=(1, 2))
            self._refuse(~finite, f'{name} is not finite')
        R = self.T_parent_body[:, :3, :3]
        rigid = np.abs(R @ R.transpose(0, 2, 1) - np.eye(3)).max(axis=(1, 2)) < RIGID_TOLERANCE
        rigid &= np.linalg.det(R) > 0
        rigid &= (self.T_parent_body[:, 3] == [0.0, 0.0, 0.0, 1.0]).all(axis=1)
        self._refuse(~rigid, 'T_parent_body is not a rigid transform')
        rotor = (self.rotor_inertia >= 0) & np.isfinite(self.rotor_inertia)
        self._refuse_freedoms(~rotor, 'rotor_inertia must be finite and not negative')
        lower, upper = self.position_limits.T
        self._refuse_freedoms(
            ~(lower <= upper), 'position_limits must be a lower and an upper bound')
        for name in ('velocity_limits', 'effort_limits'):
            self._refuse_freedoms(
                ~(getattr(self, name) > 0), f'{name} must be positive (inf: unlimited)')

    def _refuse(self, bad: NDArray[np.bool_], what: str) -> None:
        for i in np.flatnonzero(bad)[:1]:
            raise ModelError(f"joint '{self.joints[i]}': {what}")

    def _refuse_freedoms(self, bad: NDArray[np.bool_], what: str) -> None:
        for k in np.flatnonzero(bad)[:1]:
            joint = self.joints[int(np.searchsorted(self.v_index, k, side='right')) - 1]
            raise ModelError(f"joint '{joint}': {what}")

    def _refuse_inertias(self) -> None:
        inertia = self.inertia
        scale = np.abs(inertia).max(axis=(1, 2))
        skew = np.abs(inertia - inertia.transpose(0, 2, 1)).max(axis=(1, 2))
        self._refuse(skew > SYMMETRY_TOLERANCE * scale, 'its inertia is not symmetric')
        smallest = np.linalg.eigvalsh(inertia)[:, 0]
        self._refuse(smallest < -SEMIDEFINITE_TOLERANCE * scale - NO_MOMENT,
                     'its inertia is not positive semi-definite')
        if not self.definite.all():
            self._refuse_weightless_joints()

    def _refuse_weightless_joints(self) -> None:
        """Refuse joints that move nothing that has inertia, wherever the others stand."""
        articulated = self.inertia.copy()
        # Any position that is not special will do.
        q = self.neutral + np.random.default_rng(0).uniform(0.2, 0.8, self.nq)
        for i in reversed(range(len(self.parent))):
            I = articulated[i]
            size = np.trace(I[3:, 3:]) if self.prismatic[i] else np.trace(I[:3, :3])
            axes = [0, 1, 2] if self.spherical[i] else [5] if self.prismatic[i] else [2]
            own = slice(self.v_index[i], self.v_index[i] + len(axes))
            D = I[np.ix_(axes, axes)] + np.diag(self.rotor_inertia[own])
            if not np.linalg.eigvalsh(D)[0] > DEFINITE_TOLERANCE * size + NO_MOMENT:
                raise ModelError(f"joint '{self.joints[i]}': what it moves has no inertia "
                                 f'{"along" if self.prismatic[i] else "about"} its axis'
                                 f'{self._carried(i)}: give one of them an <inertial>, give the '
                                 'joint a rotor inertia or lock it')
            if self.parent[i] >= 0:
                U = I[:, axes]
                X = _motion_transform(self.T_parent_body[i] @ self._motion(i, q))
                articulated[self.parent[i]] += X.T @ (I - U @ np.linalg.solve(D, U.T)) @ X

    def _motion(self, i: int, q: Array) -> Array:
        """Return the pose (4, 4) that joint i has at q."""
        T, x = np.eye(4), q[self.q_index[i]]
        if self.spherical[i]:
            T[:3, :3] = Rotation.from_quat(q[self.q_index[i]:self.q_index[i] + 4]).as_matrix()
        elif self.prismatic[i]:
            T[2, 3] = x
        else:
            T[:2, :2] = [[np.cos(x), -np.sin(x)], [np.sin(x), np.cos(x)]]
        return T

    def _carried(self, i: int) -> str:
        """Return ' (link y, …)', the links being those of body `i`, with its joint's others."""
        links = [link for link, (body, _) in self.frames.items() if body == i]
        if not links:
            return ''
        return f" (links {urdf.quoted(links[:9])}{' …' if links[9:] else ''})"


def _begins(widths: NDArray[np.int_]) -> NDArray[np.intp]:
    begins = np.concatenate([[0], np.cumsum(widths)[:-1]]).astype(np.intp)
    begins.flags.writeable = False
    return begins


def _motion_transform(T: Array) -> Array:
    """Return X (6, 6), which takes motions of the parent to a body at pose T in its frame."""
    R_t = T[:3, :3].T
    X = np.zeros((6, 6))
    X[:3, :3] = X[3:, 3:] = R_t
    X[3:, :3] = -R_t @ urdf.cross_matrices(T[None, :3, 3])[0]
    return X


def _shapes(bodies: int, n: int) -> dict[str, tuple[int, ...]]:
    return {
        'T_parent_body': (bodies, 4, 4), 'inertia': (bodies, 6, 6),
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


def _freed(description: urdf.Description, free: Sequence[str] | bool, base: int,
           given: Mapping[int, float]) -> list[int]:
    """Return the links whose joints move although no tip needs them to."""
    if isinstance(free, str):
        raise ModelError(f"free is '{free}': accepted are a list of joint names, True and False")
    can_move = [i for i, kind in enumerate(description.kinds)
                if kind != 'fixed' and i not in given and i not in description.mimics]
    if isinstance(free, bool):
        return [i for i in can_move if free and base in _above(description, i)]
    index = {joint: i for i, joint in enumerate(description.joints) if joint}
    freed: set[int] = set()
    for joint in free:
        if joint not in index:
            raise ModelError(f"free: '{joint}' is not a joint of robot '{description.name}'; "
                             + urdf.near(joint, index))
        i, above = index[joint], _above(description, index[joint])
        if description.kinds[i] == 'fixed' or i in given or base not in above:
            raise ModelError(f"free: joint '{joint}' cannot move: it is fixed, locked or not "
                             f"beyond base '{description.links[base]}'")
        freed.add(i)
        freed.update(k for k in above[:above.index(base)] if k in can_move)
    return sorted(freed)


def _above(description: urdf.Description, link: int) -> list[int]:
    """Return the links between this one and the root, the root last."""
    above = []
    while description.parent[link] >= 0:
        link = int(description.parent[link])
        above.append(link)
    return above


def _refuse_mimics(description: urdf.Description, moving: list[int]) -> None:
    for i in moving:
        joint = description.joints[i]
        if i in description.mimics:
            source = description.joints[description.mimics[i].source]
            raise ModelError(
                f"joint '{joint}' mimics '{source}': a joint that is to move must move by itself; "
                f"hold it with locked={{'{joint}': value}}, or choose another base or tip")


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


@dataclass
class _Tree:
    """The bodies while they are found, and what of them each link and each freedom is."""

    body: NDArray[np.intp]  # of each link; -1 is the ground
    T_body_link: Array
    joints: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    T_parent_body: list[Array] = field(default_factory=list)
    freedoms: list[str] = field(default_factory=list)  # the joint of each
    limited: list[int] = field(default_factory=list)  # the link whose joint limits it, or -1

    def add(self, joint: str, kind: str, parent: int, T: Array, axis: Array, link: int) -> Array:
        """
        Append the bodies that a joint moves, without mass but the last.

        Returns T_link_body (4, 4) of the last one, at whose pose T the joint's link is at zero.

        """
        z = _axis_on_z(axis)
        steps = [(kind, z)]
        if kind == 'planar':
            steps = [('prismatic', z @ _Z_TO_X), ('prismatic', z @ _Z_TO_Y), ('revolute', z)]
        elif kind == 'floating':
            z = np.eye(4)
            steps = [('prismatic', _Z_TO_X), ('prismatic', _Z_TO_Y), ('prismatic', z),
                     ('spherical', z)]
        T_link_last = np.eye(4)
        for step, T_link_body in steps:
            self.T_parent_body.append(T @ T_link_last.T @ T_link_body)
            self.parent.append(parent)
            self.joints.append(joint)
            self.kinds.append(step)
            width = 3 if step == 'spherical' else 1
            self.freedoms += [joint] * width
            self.limited += [link if kind in urdf.MOVING else -1] * width
            parent, T, T_link_last = len(self.parent) - 1, np.eye(4), T_link_body
        return T_link_last


# Turns whose third columns are x and y.
_Z_TO_X = np.eye(4)[:, [1, 2, 0, 3]]
_Z_TO_Y = np.eye(4)[:, [2, 0, 1, 3]]


def _tree(description: urdf.Description, moving: list[int], q_held: Array, base: int,
          floating_base: bool) -> _Tree:
    """Return the bodies, and each link's."""
    T_joint = _held_origins(description, q_held)
    tree = _Tree(np.full(len(description.links), -1, dtype=np.intp), np.empty_like(T_joint))
    if floating_base:
        tree.add('floating_base', 'floating', -1, np.eye(4), np.array([0.0, 0.0, 1.0]), -1)
    ground = len(tree.parent) - 1
    moves = set(moving)
    first = []
    for i, parent in enumerate(description.parent.tolist()):
        T = T_joint[i] if parent < 0 else tree.T_body_link[parent] @ T_joint[i]
        above = ground if parent < 0 else int(tree.body[parent])
        if i in moves:
            if above == ground:
                first.append(len(tree.parent))
            T_link_body = tree.add(
                description.joints[i], description.kinds[i], above, T, description.axis[i], i)
            tree.body[i], tree.T_body_link[i] = len(tree.parent) - 1, T_link_body.T
        else:
            tree.body[i], tree.T_body_link[i] = above, T
    # So far the ground was told of in the frame of the root.
    T_base_root = _inverse(tree.T_body_link[base])
    for i in first:
        tree.T_parent_body[i] = T_base_root @ tree.T_parent_body[i]
    on_ground = tree.body == ground
    tree.T_body_link[on_ground] = T_base_root @ tree.T_body_link[on_ground]
    return tree


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
    given: Sequence[float] | Mapping[str, float] | None, freedoms: list[str],
) -> Array:
    """Return the rotor inertia of each freedom, whose joints are named in `freedoms`."""
    if given is None:
        return np.zeros(len(freedoms))
    if not isinstance(given, Mapping):
        return _frozen('rotor_inertia', given, (len(freedoms),))
    for joint in given.keys() - set(freedoms):
        raise ModelError(f"rotor_inertia: '{joint}' is not a moving joint; known: "
                         + urdf.quoted(dict.fromkeys(freedoms)))
    return np.array([_finite(f"rotor_inertia: the value of joint '{joint}'", given.get(joint, 0.0))
                     for joint in freedoms])


def _warn_of_limits(description: urdf.Description, moving: list[int]) -> None:
    links = np.array([i for i in moving if description.kinds[i] in urdf.MOVING], dtype=np.intp)
    continuous = np.array([description.kinds[i] == 'continuous' for i in links], dtype=np.bool_)
    unbounded = np.isinf(description.position_limits[links]).any(axis=1) & ~continuous
    gaps = [
        f'no {what} limit for {urdf.quoted(description.joints[i] for i in links[open_])}'
        for what, open_ in (
            ('position', unbounded), ('velocity', np.isinf(description.velocity_limits[links])),
            ('effort', np.isinf(description.effort_limits[links]))) if open_.any()]
    if gaps:
        warnings.warn(f"robot '{description.name}': {'; '.join(gaps)}: taken as unlimited",
                      ModelWarning, stacklevel=3)
