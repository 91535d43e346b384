# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Assembly of the moving bodies of a robot from its URDF, with checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
import math
from typing import Any
import warnings

import numpy as np
from numpy.typing import NDArray

from osc_ros.errors import ModelError, ModelWarning
from osc_ros.model import urdf
from osc_ros.model.joint_types import JOINT_TYPES, MOVING, OF_ONE_FREEDOM

Array = NDArray[np.float64]

# Inertia tensors in URDFs are rounded to a few digits, so those of thin rods and plates may be
# slightly indefinite.
SEMIDEFINITE_TOLERANCE = 1e-6
TRIANGLE_TOLERANCE = 1e-3
FLOATING_BASE = 'floating_base'  # name of the joint of a floating base
NO_MOMENT = 1e-15  # [kg m²]: rounding error of a zero tensor

TOLD = 5  # number of unused parts of a URDF that the warning lists


def bodies(description: urdf.Description, base: str, tips: tuple[str, ...],
           rotor_inertia: Sequence[float] | Mapping[str, float | Sequence[float]] | None,
           locked: Mapping[str, float], gravity: Sequence[float], free: Sequence[str] | bool,
           floating_base: bool) -> dict[str, Any]:
    """Return the fields of a Robot, by name; parameters, errors and warnings: Robot.from_urdf."""
    if not tips:
        raise ModelError('tip names no link: give one or more links')
    if not isinstance(floating_base, (bool, np.bool_)):
        raise ModelError(f'floating_base is {floating_base!r}: must be True or False')
    if floating_base and FLOATING_BASE in description.joints:
        raise ModelError(f"joint '{FLOATING_BASE}' is in the URDF: that name is reserved for the "
                         'joint of a floating base')
    base_link = _index(description, 'base', base)
    tip_links = [_index(description, 'tip', link) for link in tips]
    given = _given_positions(description, locked)
    on_path = {i for link in tip_links for i in _path(description, base_link, link)
               if description.kinds[i] != 'fixed' and i not in given}
    if not (on_path or floating_base):
        raise ModelError(f"no joint moves between base '{base}' and tip {urdf.quoted(tips)}: "
                         f"at least one must ({', '.join(MOVING)})")
    moving = sorted(on_path.union(_freed_links(description, free, base_link, given)))
    _refuse_mimics(description, moving)
    q_locked = _locked_positions(description, set(moving), given)
    tree = _tree(description, moving, q_locked, base_link, floating_base)
    _check_tensors(description, tree.body)
    _warn_of_limits(description, moving)
    return {
        'name': description.name, 'base': base, 'tips': tips, 'joints': tuple(tree.joints),
        'parent': tree.parent,
        'prismatic': [kind == 'prismatic' for kind in tree.kinds],
        'spherical': [kind == 'spherical' for kind in tree.kinds],
        'T_parent_body': tree.T_parent_body,
        'inertia': _lumped_inertias(
            description.inertia, tree.body, tree.T_body_link, len(tree.parent)),
        'rotor_inertia': _rotor_inertias(rotor_inertia, tree.freedoms),
        **{limits: [getattr(description, limits)[i] if i >= 0 else unlimited
                    for i in tree.limited]
           for limits, unlimited in (('position_limits', (-np.inf, np.inf)),
                                     ('velocity_limits', np.inf), ('effort_limits', np.inf),
                                     ('deceleration_limits', np.inf),
                                     ('coulomb_friction', 0.0), ('viscous_friction', 0.0))},
        'gravity': gravity,
        'frames': dict(zip(description.links, zip(tree.body, tree.T_body_link, strict=True),
                           strict=True)),
    }


def names(what: str, given: object, more: str = '') -> tuple[str, ...]:
    """Return the names of links or joints in `given`; ModelError if it is not a list of names."""
    if isinstance(given, Iterable) and not isinstance(given, str):
        found = tuple(given)
        if all(isinstance(name, str) for name in found):
            return found
    raise ModelError(f'{what} is {given!r}: give a list of names{more}')


def read_only(
    what: str, values: object, shape: tuple[int, ...], dtype: type[np.generic] = np.float64,
) -> NDArray[Any]:
    """Return `values` as a read-only array; ModelError if their shape is not `shape`."""
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
    """Return the links between base and tip, including the tip and not the base."""
    upward = [tip]
    while upward[-1] != base:
        above = int(description.parent[upward[-1]])
        if above < 0:
            ancestors = [description.links[i] for i in upward[1:]]
            tip_name, base_name = description.links[tip], description.links[base]
            if tip in _ancestors(description, base):
                raise ModelError(f"base '{base_name}' and tip '{tip_name}' are swapped: the tip "
                                 'must descend from the base, and here the base descends from '
                                 f"the tip; give base '{tip_name}', tip '{base_name}'")
            raise ModelError(
                f"tip '{tip_name}' does not descend from base "
                f"'{base_name}'; give as base one of {urdf.quoted(ancestors[:20])}"
                + (' …' if ancestors[20:] else ''))
        upward.append(above)
    return upward[-2::-1]


def _given_positions(
    description: urdf.Description, locked: Mapping[str, float],
) -> dict[int, float]:
    """Return the positions in `locked`, by the index of the link that the joint carries."""
    index = {joint: i for i, joint in enumerate(description.joints) if joint}
    values: dict[int, float] = {}
    for joint, value in locked.items():
        if joint not in index:
            raise ModelError(f"locked: '{joint}' is not a joint of robot '{description.name}'; "
                             + urdf.near(joint, index))
        kind = description.kinds[index[joint]]
        if kind not in OF_ONE_FREEDOM:
            raise ModelError(f"locked: joint '{joint}' is {kind} and takes no value: "
                             f"must be {', '.join(OF_ONE_FREEDOM)}")
        found = _finite(f"locked: the value of joint '{joint}'", value)
        values[index[joint]] = found
        low, high = description.position_limits[index[joint]]
        if not low <= found <= high:
            warnings.warn(f"locked: '{joint}' at {found:g} is outside of {low:g} to {high:g}",
                          ModelWarning, stacklevel=4)
    return values


def _finite(what: str, value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ModelError(f'{what} must be a finite number, not {value!r}')
    return number


def _freed_links(description: urdf.Description, free: Sequence[str] | bool, base: int,
           given: Mapping[int, float]) -> list[int]:
    """Return the links of the joints in `free`, and the movable links between them and `base`."""
    can_move = [i for i, kind in enumerate(description.kinds)
                if kind != 'fixed' and i not in given and i not in description.mimics]
    if isinstance(free, (bool, np.bool_)):
        return [i for i in can_move if free and base in _ancestors(description, i)]
    index = {joint: i for i, joint in enumerate(description.joints) if joint}
    freed: set[int] = set()
    for joint in names('free', free, ', True or False'):
        if joint not in index:
            raise ModelError(f"free: '{joint}' is not a joint of robot '{description.name}'; "
                             + urdf.near(joint, index))
        i, above = index[joint], _ancestors(description, index[joint])
        if description.kinds[i] == 'fixed' or i in given or base not in above:
            raise ModelError(f"free: joint '{joint}' cannot move: it is fixed, locked or not "
                             f"beyond base '{description.links[base]}'")
        freed.add(i)
        freed.update(k for k in above[:above.index(base)] if k in can_move)
    return sorted(freed)


def _ancestors(description: urdf.Description, link: int) -> list[int]:
    """Return the ancestors of a link, the root last."""
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
                f"joint '{joint}' mimics '{source}': a moving joint cannot mimic another; "
                f"lock it with locked={{'{joint}': value}}, or choose another base or tip")


def _locked_positions(
    description: urdf.Description, moving: set[int], given: Mapping[int, float],
) -> Array:
    """Return the position of every locked joint, (m,): from `given`, its mimic law, or 0."""
    q = np.zeros(len(description.links))
    q[list(given)] = list(given.values())
    known = moving | set(given)
    followers: list[str] = []
    for first in description.mimics:
        chain: dict[int, None] = {}
        i = first
        while i in description.mimics and i not in known:
            if i in chain:
                raise ModelError(f"joint '{description.joints[i]}' mimics itself through "
                                 + urdf.quoted(description.joints[k] for k in chain))
            chain[i] = None
            i = description.mimics[i].source
        for k in reversed(chain):
            law = description.mimics[k]
            q[k] = law.multiplier * q[law.source] + law.offset
            known.add(k)
            if law.source in moving:
                followers.append(description.joints[k])
    if followers:
        warnings.warn(
            f"robot '{description.name}': joints {urdf.quoted(followers)} mimic moving joints; "
            'they are locked at their positions for 0 of those joints', ModelWarning, stacklevel=4)
    return q


@dataclass
class _Tree:
    """Bodies during their construction; maps links to bodies and degrees of freedom to joints."""

    body: NDArray[np.intp]  # index of each link's body; -1 is the ground
    T_body_link: Array
    joints: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    T_parent_body: list[Array] = field(default_factory=list)
    freedoms: list[str] = field(default_factory=list)  # joint of each degree of freedom
    limited: list[int] = field(default_factory=list)  # link whose joint has its limits, or -1

    def add(self, joint: str, kind: str, parent: int, T: Array, axis: Array, link: int) -> Array:
        """Append the bodies that a joint moves; only the last one has mass."""
        # T (4, 4): pose of the joint's link in the parent body at position 0. The result (4, 4) is
        # the pose of the last body in the joint's link.
        made_of = JOINT_TYPES[kind]
        z = axis_on_z(axis) if made_of.has_axis else np.eye(4)
        T_link_last = np.eye(4)
        for step, along in made_of.steps:
            T_link_body = z @ along
            self.T_parent_body.append(T @ T_link_last.T @ T_link_body)
            self.parent.append(parent)
            self.joints.append(joint)
            self.kinds.append(step)
            width = 3 if step == 'spherical' else 1
            self.freedoms += [joint] * width
            self.limited += [link if kind in OF_ONE_FREEDOM else -1] * width
            parent, T, T_link_last = len(self.parent) - 1, np.eye(4), T_link_body
        return T_link_last


def _tree(description: urdf.Description, moving: list[int], q_locked: Array, base: int,
          floating_base: bool) -> _Tree:
    """Return the bodies, with the body and pose of each link."""
    T_joint = _locked_origins(description, q_locked)
    tree = _Tree(np.full(len(description.links), -1, dtype=np.intp), np.empty_like(T_joint))
    if floating_base:
        tree.add(FLOATING_BASE, 'floating', -1, np.eye(4), np.array([0.0, 0.0, 1.0]), -1)
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
    # So far, poses on the ground are in the frame of the root.
    T_base_root = _inverse(tree.T_body_link[base])
    for i in first:
        tree.T_parent_body[i] = T_base_root @ tree.T_parent_body[i]
    on_ground = tree.body == ground
    tree.T_body_link[on_ground] = T_base_root @ tree.T_body_link[on_ground]
    return tree


def _locked_origins(description: urdf.Description, q: Array) -> Array:
    """Return the poses of the links in their parents' frames, with the joints at `q`."""
    T = description.T_parent_link.copy()
    for i in np.flatnonzero(q):
        motion = np.eye(4)
        [(step, _)] = JOINT_TYPES[description.kinds[i]].steps
        if step == 'prismatic':
            motion[:3, 3] = q[i] * description.axis[i]
        else:
            K = urdf.cross_matrices(description.axis[i:i + 1])[0]
            motion[:3, :3] += np.sin(q[i]) * K + (1 - np.cos(q[i])) * K @ K
        T[i] = T[i] @ motion
    return T


def axis_on_z(axis: Array) -> Array:
    """Return a rotation, (4, 4), whose third column is `axis`; the identity if `axis` is +z."""
    T = np.eye(4)
    up = axis if axis[2] >= 0 else -axis  # the formula below is singular at z = -1
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


def _check_tensors(description: urdf.Description, body: NDArray[np.intp]) -> None:
    """Raise ModelError for impossible inertia tensors of moving links; warn of doubtful ones."""
    moments = description.moments
    floor = -SEMIDEFINITE_TOLERANCE * np.abs(moments).max(axis=1) - NO_MOMENT
    for i in np.flatnonzero((body >= 0) & (moments[:, 0] < floor)):
        raise ModelError(
            f"link '{description.links[i]}': its inertia tensor is not positive semi-definite "
            f"(principal moments {', '.join(f'{m:.6g}' for m in moments[i])} kg m²): are the six "
            'numbers ixx ixy ixz iyy iyz izz the rows of a matrix, read in another order?')
    excess = moments[:, 2] * (1 - TRIANGLE_TOLERANCE) - moments[:, 0] - moments[:, 1]
    suspect = np.flatnonzero((body >= 0) & (excess > NO_MOMENT))
    if suspect.size:
        warnings.warn(
            f"robot '{description.name}': the inertia of links "
            f'{urdf.quoted(description.links[i] for i in suspect)} breaks the triangle inequality '
            '(one principal moment exceeds the sum of the others): not physically possible',
            ModelWarning, stacklevel=4)


def _lumped_inertias(inertia: Array, body: NDArray[np.intp], T_body_link: Array, n: int) -> Array:
    """Return the inertia of each body about its origin, (n, 6, 6): the sum over its links."""
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
    given: Sequence[float] | Mapping[str, float | Sequence[float]] | None, freedoms: list[str],
) -> Array:
    """Return the rotor inertia of each degree of freedom; `freedoms` names their joints."""
    if given is None:
        return np.zeros(len(freedoms))
    if not isinstance(given, Mapping):
        return read_only('rotor_inertia', given, (len(freedoms),))
    for joint in given.keys() - set(freedoms):
        raise ModelError(f"rotor_inertia: '{joint}' is not a moving joint; known: "
                         + urdf.quoted(dict.fromkeys(freedoms)))
    found = np.zeros(len(freedoms))
    for joint, value in given.items():
        own = [k for k, name in enumerate(freedoms) if name == joint]
        what = f"rotor_inertia: the value of joint '{joint}'"
        found[own] = (_finite(what, value) if len(own) == 1
                      else read_only(what, value, (len(own),)))
    return found


def _warn_of_limits(description: urdf.Description, moving: list[int]) -> None:
    links = np.array([i for i in moving if description.kinds[i] in OF_ONE_FREEDOM],
                     dtype=np.intp)
    has_range = np.array([JOINT_TYPES[description.kinds[i]].has_range for i in links],
                         dtype=np.bool_)
    unbounded = np.isinf(description.position_limits[links]).any(axis=1) & has_range
    gaps = [
        f'no {what} limit for {urdf.quoted(description.joints[i] for i in links[open_])}'
        for what, open_ in (
            ('position', unbounded), ('velocity', np.isinf(description.velocity_limits[links])),
            ('effort', np.isinf(description.effort_limits[links]))) if open_.any()]
    if description.unused:
        shown = '; '.join(description.unused[:TOLD])
        more = len(description.unused) - TOLD
        warnings.warn(f"robot '{description.name}': {shown}" + (
            f'; and {more} more' if more > 0 else ''), ModelWarning, stacklevel=4)
    if gaps:
        warnings.warn(f"robot '{description.name}': {'; '.join(gaps)}: 0 or missing, taken as "
                      'unlimited', ModelWarning, stacklevel=4)
