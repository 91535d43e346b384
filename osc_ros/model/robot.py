# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The robot model `Robot`: a tree of rigid bodies as read-only arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from os import PathLike
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.errors import ModelError
from osc_ros.model import assembly, files, urdf
from osc_ros.model.assembly import NO_MOMENT, read_only, SEMIDEFINITE_TOLERANCE
from osc_ros.model.doubts import warn_of_doubts
from osc_ros.model.validation import (
    are_rigid,
    DEFINITE_TOLERANCE,
    FRICTION,
    require_inertias,
    require_numbers,
    require_structure,
    require_tips,
    SYMMETRY_TOLERANCE,
    why_not_rigid,
)

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Robot:
    """
    The moving bodies of a tree, from a base that is fixed to the ground to one or more tips.

    Every parent comes before its children. A joint connects body i to body parent[i]. It has one
    degree of freedom along z of the body's frame, revolute or prismatic, or three (spherical). A
    joint of another type is modelled by several bodies in a row, of which only the last one has
    mass: a planar joint by prismatic, prismatic and revolute joints, a floating joint by three
    prismatic joints and a spherical one. Fixed links and locked branches are lumped into the body
    that carries them. Spatial quantities are [angular; linear] about the body's origin. All arrays
    are read-only.

    Positions q (nq,) and velocities qd (n,) are in the order of the bodies. A spherical joint has
    a quaternion x y z w in q, of any length but zero, and the angular velocity in the body's axes
    in qd; any other joint has its angle or travel, and its rate. So a floating joint has position
    and quaternion in q; in qd it has the linear velocity in the parent's axes and the angular
    velocity in the body's axes. `neutral` is a valid initial q.

    A pendulum of 1 kg, 0.5 m below a ball joint, built in code:

    >>> I = np.diag([0.26, 0.26, 0.01, 1.0, 1.0, 1.0])
    >>> I[0, 4] = I[4, 0] = 0.5   # m c×, its centre of mass at (0, 0, -0.5)
    >>> I[1, 3] = I[3, 1] = -0.5
    >>> low = np.eye(4)
    >>> low[2, 3] = -0.5
    >>> free = np.full(3, np.inf)
    >>> robot = Robot(
    ...     name='pendulum', base='ceiling', tips=('bob',), joints=('ball',), parent=[-1],
    ...     prismatic=[False], spherical=[True], T_parent_body=[np.eye(4)], inertia=[I],
    ...     rotor_inertia=np.zeros(3), position_limits=np.stack([-free, free], axis=1),
    ...     velocity_limits=free, effort_limits=free, gravity=[0.0, 0.0, -9.81],
    ...     frames={'bob': (0, low)})
    >>> robot.neutral.tolist(), robot.n
    ([0.0, 0.0, 0.0, 1.0], 3)

    M is singular at positions where joints without mass between them are aligned; results there
    are undefined.

    Attributes
    ----------
    name, base : str
        Name of the robot; link that is fixed to the ground, in whose frame quantities are given.
    tips : tuple of str
        Links that tasks control.
    joints : tuple of str, length b
        Name of the joint that moves each body.
    parent : (b,) int
        Parent of each body; -1 is the base.
    prismatic, spherical : (b,) bool
        Type of each body's joint; if neither is true it is revolute.
    T_parent_body : (b, 4, 4)
        Pose of body i's frame in its parent's at q = 0 (no rotation for a spherical joint) [m].
    inertia : (b, 6, 6)
        Spatial inertia about the body's own origin, in its frame [kg m², kg m, kg]. May be
        zero or singular, if every joint moves bodies with inertia along or about its axis.
    rotor_inertia : (n,)
        Reflected rotor inertia [kg m²; kg for prismatic].
    position_limits : (n, 2)
        Lower and upper limit [rad, m]; infinite for continuous and spherical joints.
    velocity_limits, effort_limits : (n,)
        [rad/s, m/s] and [N·m, N]; infinite where the description gives none.
    gravity : (3,)
        Gravity in the base frame [m/s²].
    frames : mapping of str to (int, (4, 4))
        Every link of the description: the body that carries it (-1 is the base) and its pose in
        that body's frame, with locked joints at their locked positions.
    described_inertia : (b, 6, 6), optional
        `inertia` without payloads; None if there is no payload.
    coulomb_friction, viscous_friction : (n,), optional
        Friction and damping of the joints as described [N·m, N], [N·m·s/rad, N·s/m]; no equation
        of the dynamics uses them; default zero.
    deceleration_limits : (n,), optional
        Largest deceleration of each joint as described [rad/s², m/s²]; default infinite.

    Raises
    ------
    ModelError
        If a shape is wrong, or a number or inertia is not physically possible; names the joint.

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
    described_inertia: Array | None = None
    coulomb_friction: Array = None  # type: ignore[assignment]
    viscous_friction: Array = None  # type: ignore[assignment]
    deceleration_limits: Array = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        bodies = len(self.joints)
        if bodies == 0:
            raise ModelError(f"robot '{self.name}' has no moving joint")
        freeze = object.__setattr__
        freeze(self, 'tips', tuple(self.tips))
        freeze(self, 'joints', tuple(self.joints))
        for name in ('prismatic', 'spherical'):
            freeze(self, name, read_only(name, getattr(self, name), (bodies,), np.bool_))
        freeze(self, 'parent', read_only('parent', self.parent, (bodies,), np.intp))
        require_structure(self)
        for name, usual in (*dict.fromkeys(FRICTION, 0.0).items(),
                            ('deceleration_limits', np.inf)):
            if getattr(self, name) is None:
                freeze(self, name, np.full(self.n, usual))
        for name, shape in _shapes(bodies, self.n).items():
            freeze(self, name, read_only(name, getattr(self, name), shape))
        freeze(self, 'frames', MappingProxyType({
            link: (int(body), read_only(f"frames['{link}']", pose, (4, 4)))
            for link, (body, pose) in self.frames.items()}))
        require_tips(self)
        require_numbers(self)
        require_inertias(self)

    @cached_property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the moving joints, in the order of their bodies."""
        return tuple(dict.fromkeys(self.joints))

    @cached_property
    def n(self) -> int:
        """Number of degrees of freedom: length of qd and of the torques."""
        return len(self.joints) + 2 * int(np.count_nonzero(self.spherical))

    @cached_property
    def nq(self) -> int:
        """Length of q."""
        return len(self.joints) + 3 * int(np.count_nonzero(self.spherical))

    @cached_property
    def v_index(self) -> NDArray[np.intp]:
        """Index in qd of each body's first degree of freedom, (b,)."""
        return _first_indices(np.where(self.spherical, 3, 1))

    @cached_property
    def q_index(self) -> NDArray[np.intp]:
        """Index in q of each body's first position, (b,)."""
        return _first_indices(np.where(self.spherical, 4, 1))

    @cached_property
    def neutral(self) -> Array:
        """Position (nq,) at which every body has the pose T_parent_body."""
        q = np.zeros(self.nq)
        q[self.q_index[self.spherical] + 3] = 1.0
        q.flags.writeable = False
        return q

    @property
    def tip(self) -> str:
        """Name of the first tip."""
        return self.tips[0]

    @property
    def T_body_tip(self) -> Array:
        """Pose (4, 4) of the first tip in the frame of the body that carries it [m]."""
        return self.frames[self.tip][1]

    @cached_property
    def definite(self) -> NDArray[np.bool_]:
        """Whether the inertia of each body can be inverted, (b,) bool."""
        turn, coupling, mass = (self.inertia[:, :3, :3], self.inertia[:, :3, 3:],
                                self.inertia[:, 3:, 3:])
        definite = np.linalg.eigvalsh(mass)[:, 0] > 0
        # `central`: inertia about the centre of mass; for a point mass it is only rounding error
        with_mass = np.where(definite[:, None, None], mass, np.eye(3))
        central = turn - coupling @ np.linalg.solve(with_mass, coupling.transpose(0, 2, 1))
        smallest = np.linalg.eigvalsh(central)[:, 0]
        definite &= smallest > DEFINITE_TOLERANCE * np.trace(turn, axis1=1, axis2=2) + NO_MOMENT
        return np.asarray(definite)

    @cached_property
    def chain(self) -> bool:
        """True for one chain of revolute and prismatic joints, with one tip on its last body."""
        follows = np.arange(-1, len(self.joints) - 1)
        return (len(self.tips) == 1 and self.frames[self.tip][0] == len(self.joints) - 1
                and not self.spherical.any() and bool((self.parent == follows).all()))

    @cached_property
    def serial(self) -> bool:
        """True for a `chain` in which the inertia of every body can be inverted."""
        return self.chain and bool(self.definite.all())

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as a call of the constructor."""
        # mapping proxies cannot be pickled, and unpickled arrays would be writeable
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return Robot, tuple((values | {'frames': dict(self.frames)}).values())

    @classmethod
    def from_urdf(
        cls,
        urdf_text: str | PathLike[str],
        base: str,
        tip: str | Sequence[str],
        rotor_inertia: Sequence[float] | Mapping[str, float | Sequence[float]] | None = None,
        locked: Mapping[str, float] | None = None,
        gravity: Sequence[float] = (0.0, 0.0, -9.81),
        free: Sequence[str] | bool = False,
        floating_base: bool = False,
    ) -> Robot:
        """
        Return the chain from link `base` to link `tip` of a URDF, or the tree to several tips.

        Joints off the paths, and joints that `locked` names, are locked; their links are lumped
        into the moving body that carries them, or into the ground (or the floating base).

        Parameters
        ----------
        urdf_text : str or path
            Text of the URDF, with xacro expanded; or the path of its file, such as 'arm.urdf'.
        base : str
            Link that is fixed to the ground; need not be the root.
        tip : str, or sequence of str
            Links that descend from the base.
        rotor_inertia : sequence, length n, or mapping of joint name to float, optional
            Reflected rotor inertia [kg m²; kg for prismatic], default zero. A joint with several
            degrees of freedom has a sequence, with a number for each.
        locked : mapping of joint name to float, optional
            Positions of locked joints [rad, m], default 0; a mimic joint follows its source.
        gravity : sequence, length 3
            In the base frame [m/s²]; with a floating base, in the frame of the ground.
        free : sequence of joint names, or bool
            Joints beyond the base that move although they are off the paths; the joints between
            them and the paths move too. True: all joints beyond the base that do not mimic others.
        floating_base : bool
            Connect the base to the ground by a floating joint named 'floating_base'; at `neutral`
            the base is at the origin of the ground.

        Raises
        ------
        ModelError
            If the description cannot be used; names the joint or link, the reason, and what is
            accepted.

        Warns
        -----
        ModelWarning
            If limits are missing, an inertia violates the triangle inequality, a locked joint
            mimics a moving joint or has a position outside of its limits, or a number is
            implausible; UnitWarning if it is probably in another unit.

        """
        tips = assembly.names('tip', [tip] if isinstance(tip, str) else tip)
        description = urdf.description(files.urdf_text(urdf_text))
        found = cls(**assembly.bodies(description, base, tips, rotor_inertia, locked or {},
                                      gravity, free, floating_base))
        warn_of_doubts(description, found)
        return found

    def with_payload(self, mass: float, center_of_mass: ArrayLike = (0.0, 0.0, 0.0),
                     inertia: ArrayLike | None = None, link: str | None = None) -> Robot:
        """
        Return a copy of the robot with a payload fixed to one of its links.

        Parameters
        ----------
        mass : float [kg]
        center_of_mass : (3,), optional
            Centre of mass in the link's frame [m].
        inertia : (3, 3), optional
            About the centre of mass, in the link's axes [kg m²]; default: a point mass.
        link : str, optional
            Default: the first tip.

        Raises
        ------
        ModelError
            If the link does not move, or mass or inertia are not physically possible.

        """
        link = self.tip if link is None else link
        if link not in self.frames:
            raise ModelError(f"payload: '{link}' is not a link of robot '{self.name}'; "
                             + urdf.near(link, self.frames))
        body, T = self.frames[link]
        if body < 0:
            raise ModelError(f"payload: link '{link}' does not move: a payload there has no "
                             'effect')
        c_link = read_only('payload: center_of_mass', center_of_mass, (3,))
        moment = read_only('payload: inertia', np.zeros((3, 3)) if inertia is None else inertia,
                        (3, 3))
        if not (np.isfinite(mass) and mass >= 0.0 and np.isfinite(c_link).all()):
            raise ModelError(f'payload: mass {mass:g} kg at {c_link.tolist()} m: must be '
                             'finite numbers, the mass 0 or more')
        size = np.abs(moment).max()
        if not (np.isfinite(size) and np.abs(moment - moment.T).max() <= SYMMETRY_TOLERANCE * size
                and np.linalg.eigvalsh(moment)[0] >= -SEMIDEFINITE_TOLERANCE * size):
            raise ModelError(f'payload: inertia {moment.tolist()} kg m²: give a symmetric '
                             'positive semi-definite matrix, about the centre of mass')
        if mass == 0.0 and size > 0.0:
            raise ModelError(f'payload: inertia {moment.tolist()} kg m² with a mass of 0 kg: '
                             'give both, a mass alone, or neither')
        cross = urdf.cross_matrices((T[:3, :3] @ c_link + T[:3, 3])[None])[0]
        carried = self.inertia.copy()
        carried[body, :3, :3] += T[:3, :3] @ moment @ T[:3, :3].T + mass * cross @ cross.T
        carried[body, :3, 3:] += mass * cross
        carried[body, 3:, :3] += mass * cross.T
        carried[body, 3:, 3:] += mass * np.eye(3)
        symmetric = (carried + carried.transpose(0, 2, 1)) / 2
        described = self.inertia if self.described_inertia is None else self.described_inertia
        return replace(self, inertia=symmetric, described_inertia=described)

    def without_payload(self) -> Robot:
        """Return a copy of the robot without the payloads that `with_payload` added."""
        if self.described_inertia is None:
            return self
        return replace(self, inertia=self.described_inertia, described_inertia=None)

    @property
    def payload_mass(self) -> float:
        """Total mass that `with_payload` added [kg]."""
        if self.described_inertia is None:
            return 0.0
        return float((self.inertia - self.described_inertia)[:, 5, 5].sum())

    def with_tool(self, T_tip_tool: ArrayLike, name: str | None = None) -> Robot:
        """
        Return a copy of the robot whose first tip is displaced by T_tip_tool (4, 4), in its frame.

        The new link is named `name`; default: name of the tip + '_tool', as in 'flange_tool'.

        Raises
        ------
        ModelError
            If T_tip_tool is not a rigid transform, or the robot already has a link of that name.

        """
        name = f'{self.tip}_tool' if name is None else name
        if name in self.frames:
            raise ModelError(f"tool: '{name}' is a link of robot '{self.name}' already: give "
                             'another name')
        T = read_only('tool: T_tip_tool', T_tip_tool, (4, 4))
        if not are_rigid(T[None])[0]:
            raise ModelError(f'tool: T_tip_tool {why_not_rigid(T)}')
        body, T_body_tip = self.frames[self.tip]
        return replace(self, tips=(name, *self.tips[1:]),
                       frames={**self.frames, name: (body, T_body_tip @ T)})

    def __repr__(self) -> str:
        return f'<Robot {self.name!r}: {self.n} freedoms, {self.base} → {", ".join(self.tips)}>'

    def with_gravity(self, gravity: ArrayLike) -> Robot:
        """
        Return a copy of the robot with other gravity, (3,) in the base frame [m/s²].

        For an arm that hangs from a ceiling, with its base upside down, gravity is (0, 0, 9.81).

        """
        return replace(self, gravity=read_only('gravity', gravity, (3,)))


def _first_indices(widths: NDArray[np.int_]) -> NDArray[np.intp]:
    begins = np.concatenate([[0], np.cumsum(widths)[:-1]]).astype(np.intp)
    begins.flags.writeable = False
    return begins


def _shapes(bodies: int, n: int) -> dict[str, tuple[int, ...]]:
    return {
        'T_parent_body': (bodies, 4, 4), 'inertia': (bodies, 6, 6),
        'rotor_inertia': (n,), 'position_limits': (n, 2), 'velocity_limits': (n,),
        'effort_limits': (n,), 'deceleration_limits': (n,), 'gravity': (3,),
        **dict.fromkeys(FRICTION, (n,)),
    }
