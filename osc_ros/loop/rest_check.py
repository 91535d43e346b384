# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Compares measured efforts of an arm at rest with the gravity torques of the model."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog

from osc_ros.dynamics.algebra.arrays import finite_array
from osc_ros.dynamics.algebra.kinematics import Placement, placement
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

SHARE = 0.02  # tolerance for friction and sensor offsets, per effort limit of the joint
WITHOUT_LIMIT = 0.05  # tolerance without an effort limit, per largest gravity load of all joints
ENOUGH = 5  # least number of states for an average
MOST = 500  # largest number of states in an average
STILL = 0.01  # largest motion of a joint within the states of an average [rad, m]
# A verdict needs a joint whose gravity torque exceeds this many tolerances; below, efforts with
# and without gravity cannot be distinguished.
DISTINGUISHABLE = 3.0
# A difference of more than this many tolerances (5 % of the effort limit) is certain, because the
# arm falls if this weight is missing in the model.
CERTAIN = 2.5
LOADED = 2  # least number of loaded joints for a certain direction of gravity
REACH = 0.25  # largest distance of a payload's centre of mass from the tip, per length of the arm
DIRECTIONS = 2000  # directions of gravity in the first search, about 5° apart
ROUNDS, TRIED = 16, 100  # rounds of the refinement, and directions in each round


class Verdict(Enum):
    """Possible results of comparing the driver's efforts with the model."""

    WELL = 'all is well'
    COMPENSATED = 'the efforts do not contain the weight'
    MASS = 'the mass is off'
    SIGN_OR_ORDER = 'the sign or order of joints is wrong'
    GRAVITY = 'gravity points elsewhere'
    UNEXPLAINED = 'the efforts do not fit the model'
    UNCLEAR = 'cannot tell'


@dataclass(frozen=True, eq=False)
class Finding:
    """Result of comparing the efforts with the model."""

    verdict: Verdict
    reason: str  # explanation of the verdict, with numbers
    # interval of the mass that is missing at the first tip; None: no mass there explains it [kg]
    mass: tuple[float, float] | None = None
    # the model is wrong: sign, order, direction of gravity, or a mass with a weight of more than
    # CERTAIN tolerances of a joint; not if efforts may be motor currents, or brakes hold the arm
    is_certain: bool = False
    remedy: str = ''  # parameters that explain the efforts
    # torques (n,) that the model lacks to hold the arm, if a payload explains them [N·m; N]
    missing: Array | None = None

    def __str__(self) -> str:
        """Verdict and reason."""
        return f'{self.verdict.value}: {self.reason}'


class StartupStatistics:
    """Averages the positions and efforts that a driver reports while the arm is at rest."""

    def __init__(self) -> None:
        self._q: deque[Array] = deque(maxlen=MOST)
        self._efforts: deque[Array] = deque(maxlen=MOST)

    def add(self, q: Array, efforts: Array) -> None:
        """Add q (n,) and finite efforts (n,) to the averages; begin anew if a joint has moved."""
        if not np.isfinite(efforts).all():
            return
        if self._q and np.abs(q - self._q[0]).max() > STILL:
            # in one assignment: to another thread, an empty queue means a driver without efforts
            self._q, self._efforts = deque([q], MOST), deque([efforts], MOST)
        else:
            self._q.append(q)
            self._efforts.append(efforts)

    @property
    def is_enough(self) -> bool:
        """Whether to stop waiting: there are ENOUGH states, or none (no measured efforts)."""
        return len(self._q) not in range(1, ENOUGH)

    def finding(self, robot: Robot, friction: ArrayLike | None = None) -> Finding:
        """Compare the averages by `compare_efforts`; add 3 standard errors to the tolerance."""
        if not self._q:
            return Finding(Verdict.UNCLEAR, 'the driver reports no efforts')
        if not self.is_enough:
            return Finding(Verdict.UNCLEAR, f'{len(self._q)} states with efforts came while the '
                           f'arm stood still: give {ENOUGH} or more')
        q, efforts = np.mean(self._q, axis=0), np.array(self._efforts)
        error = 3.0 * efforts.std(axis=0, ddof=1) / np.sqrt(len(efforts))
        mean = efforts.mean(axis=0)
        found = compare_efforts(robot, q, mean,
                                friction=error if friction is None else error + friction)
        if (found.verdict is not Verdict.MASS or found.mass is None
                or not is_load(robot, found.mass)):
            return found
        return replace(found, missing=mean - weights(robot, q[None])[0])


def compare_efforts(robot: Robot, q: ArrayLike, efforts: ArrayLike,
                    tolerance: ArrayLike | None = None, friction: ArrayLike | None = None
                    ) -> Finding:
    """Compare efforts at rest (n,) or (k, n) with the gravity torques of the model."""
    # Friction may hold a part of the load: an explanation fits if for some choice of its
    # parameters the differences of all joints are within `tolerance` (n,), default SHARE of the
    # effort limits, plus `friction` (n,), the known dry friction [N·m; N]. Tried in this order:
    # the model is right; the driver compensates gravity. If neither fits: signs of efforts; joints
    # reversed, swapped or shifted (positions and efforts, or efforts only); one wrong mass at a
    # tip, in one body, or in all bodies by one factor; another direction of gravity. InputError:
    # shapes do not fit, numbers are not finite, or a joint is spherical.
    if robot.spherical.any():
        raise InputError(f"joint '{robot.joints[int(np.argmax(robot.spherical))]}' is spherical: "
                         'give revolute and prismatic joints')
    shape = (len(np.atleast_2d(q)), robot.n)
    q = finite_array('q', np.atleast_2d(q), shape)
    efforts = finite_array('efforts', np.atleast_2d(efforts), shape)
    weight = weights(robot, q)
    bound = _bounds(robot, weight, tolerance)
    known = np.zeros(robot.n) if friction is None else finite_array('friction', friction,
                                                                    (robot.n,))
    bound = bound + known
    if not (np.abs(weight) > DISTINGUISHABLE * bound).any():
        return Finding(Verdict.UNCLEAR, 'the weight hardly loads a joint here: '
                       + _listed(weight[0], '{:.1f}') + ' N m, where '
                       + _listed(bound, '{:.1f}') + ' may be friction; try another '
                       'pose')
    return _explanation(robot, q, efforts, weight, bound, known)


def _explanation(robot: Robot, q: Array, efforts: Array, weight: Array, bound: Array,
                 known: Array) -> Finding:
    """Return a finding with the explanations that fit the efforts (k, n) within `bound` (n,)."""
    # `known` (n,) is the known friction, which is a part of `bound`
    mass = missing_mass(robot, robot.tip, q, efforts - weight, bound)
    if fits(efforts, weight, bound):
        low, high = mass or (0.0, 0.0)
        return Finding(Verdict.WELL, 'the efforts are those of the model; at '
                       f'{tip_text(robot, robot.tip)} the arm may carry between '
                       f'{difference_text(low)} and {difference_text(high)} than the '
                       'controller is told', mass)
    if fits(efforts, np.zeros_like(weight), bound):
        return Finding(Verdict.COMPENSATED, 'they are near zero, where the weight asks for up to '
                       f'{np.abs(weight).max():.1f} N m: either the driver compensates gravity '
                       '(then set driver_compensates), or brakes hold the arm (then the efforts '
                       'tell nothing)', mass)
    is_large = bool((np.abs(efforts - weight) - known > CERTAIN * (bound - known)).any())
    found = []
    names = list(dict.fromkeys(disorders(robot, q, efforts, weight, bound)))
    if names:
        found.append(Finding(Verdict.SIGN_OR_ORDER, ', or '.join(names[:4])
                             + ' …' * bool(names[4:]), is_certain=True))
    text, is_sure = wrong_mass(robot, q, efforts, weight, bound)
    if text:
        found.append(Finding(Verdict.MASS, text, mass, is_large and is_sure,
                             _payload(robot, mass)))
    turned = turned_gravity(robot, q, efforts, bound)
    if turned is not None:
        loaded = (np.abs(efforts) > DISTINGUISHABLE * bound).any(axis=0).sum()
        found = _with_gravity(robot, turned, found, bool(loaded >= LOADED))
    if len(found) == 1:
        return found[0]
    if found:
        return Finding(Verdict.UNCLEAR, 'either ' + '; or '.join(map(str, found)), mass,
                       is_large and all(one.is_certain for one in found), found[-1].remedy)
    pose, joint = np.unravel_index(np.argmax(np.abs(efforts - weight) / bound), weight.shape)
    return Finding(Verdict.UNEXPLAINED, f"joint '{robot.joint_names[joint]}' has "
                   f'{efforts[pose, joint]:.2f} N m where its weight asks for '
                   f'{weight[pose, joint]:.2f}, and no one wrong mass, sign or order and no '
                   'direction of gravity explains the efforts (are they motor currents, as of '
                   'ur_robot_driver with use_currents_as_efforts?)')


def _payload(robot: Robot, mass: tuple[float, float] | None) -> str:
    """Return the parameter for a payload of this mass; empty if a payload does not explain it."""
    if mass is None or not is_load(robot, mass):
        return ''
    total = max(0.0, robot.payload_mass + 0.5 * sum(mass))
    return f'payload.mass to {total:.2f} (and payload.center_of_mass)'


def _with_gravity(robot: Robot, turned: Array, found: list[Finding], is_certain: bool
                  ) -> list[Finding]:
    """Add the explanation that gravity is `turned` (3,) to the last finding, or as the first."""
    cosine = turned @ robot.gravity / (robot.gravity @ robot.gravity)
    text = (f'gravity is turned by {np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))):.0f}° '
            'from that of the model')
    remedy = 'gravity to [' + ', '.join(f'{x:.2f}' for x in np.round(turned, 2) + 0.0) + ']'
    if not found:
        return [Finding(Verdict.GRAVITY, text, is_certain=is_certain, remedy=remedy)]
    last = found[-1]
    return [*found[:-1], replace(last, reason=f'{last.reason}; or {text}',
                                 remedy=' or '.join(filter(None, (last.remedy, remedy))))]


def _bounds(robot: Robot, weight: Array, tolerance: ArrayLike | None) -> Array:
    if tolerance is not None:
        return finite_array('tolerance', tolerance, (robot.n,))
    limits = SHARE * robot.effort_limits
    return np.where(np.isfinite(limits), limits, WITHOUT_LIMIT * np.abs(weight).max())


def _listed(values: Array, form: str) -> str:
    return ' '.join(form.format(value) for value in values)


# explanations of efforts that differ from the model's gravity torques


def disorders(robot: Robot, q: Array, efforts: Array, weight: Array, bound: Array
               ) -> Iterator[str]:
    """Yield the wrong signs and orders of joints that would explain the efforts."""
    names = robot.joint_names
    as_is, turned = np.abs(efforts - weight) <= bound, np.abs(efforts + weight) <= bound
    reversed_ = ~as_is.all(axis=0) & turned.all(axis=0)
    if (as_is.all(axis=0) | reversed_).all():
        yield (f'the efforts of {_quoted(names, np.flatnonzero(reversed_).tolist())} have another '
               'sign')
    signs = -2.0 * np.eye(robot.n) + 1.0
    for i, sign in enumerate((*signs, np.full(robot.n, -1.0))):
        if _possible(robot, sign * q) and fits(efforts, sign * weights(robot, sign * q), bound):
            which = _quoted(names, range(robot.n) if i == robot.n else [i])
            yield f'{which} turn{"s" if i < robot.n else ""} the other way'
    for what, order in _orders(names):
        if fits(efforts[:, order], weight, bound[order]):
            yield f'the efforts of {what}'
        if _possible(robot, q[:, order]) and fits(
                efforts[:, order], weights(robot, q[:, order]), bound[order]):
            yield what


def _orders(names: tuple[str, ...]) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """Yield possible wrong orders of the joints, with the indices that correct them."""
    n = len(names)
    own = np.arange(n)
    for i in range(n):
        for k in range(i + 1, n):
            order = own.copy()
            order[[i, k]] = k, i
            yield f'{_quoted(names, (i, k))} are swapped', order
    if n > 2:
        yield 'all joints are in the opposite order', own[::-1].copy()
        for step in (1, -1):
            yield 'all joints are shifted by one', np.roll(own, step)


def wrong_mass(robot: Robot, q: Array, efforts: Array, weight: Array, bound: Array
               ) -> tuple[str, bool]:
    """Return as a text the one wrong mass that explains the efforts, and whether it is certain."""
    # Empty text: no mass does. Efforts that are smaller, or all wrong by one factor, are not
    # certain, because they may be in another unit.
    missing = efforts - weight
    for tip in robot.tips:
        mass = missing_mass(robot, tip, q, missing, bound)
        if mass:
            return (f'at {tip_text(robot, tip)} the arm carries '
                    f'{difference_text(0.5 * sum(mass))} than the controller is told (between '
                    f'{difference_text(mass[0])} and {difference_text(mass[1])})',
                    is_load(robot, mass))
    for body, joint in enumerate(robot.joints):
        own, centre = robot.inertia[body, 5, 5], robot.inertia[body, [2, 0, 1], [4, 5, 3]]
        if own > 0.0:
            centre = centre / own
        unit = _unit_loads(robot, q, body) @ np.array([1.0, *centre])
        between = _factor(unit, missing, bound, -own)
        if between:
            return (f"the body that joint '{joint}' moves has "
                    f'{difference_text(0.5 * sum(between))} than the controller is told (between '
                    f'{difference_text(between[0])} and {difference_text(between[1])})',
                    sum(between) > 0.0)
    between = _factor(weight, missing, bound, -0.9)
    if between:
        return (f'all masses, or all efforts, are {1.0 + 0.5 * sum(between):.2f} times '
                'those of the model', False)
    return '', False


def turned_gravity(robot: Robot, q: Array, efforts: Array, bound: Array) -> Array | None:
    """Gravity (3,) of the model's size that explains the efforts [m/s²]; None if none does."""
    # a random search for the explaining direction nearest to the model's; None without gravity
    size = float(np.linalg.norm(robot.gravity))
    if size == 0.0:
        return None
    unit = np.stack([weights(robot.with_gravity(size * axis), q) / bound for axis in np.eye(3)])
    scaled, own = (efforts / bound).ravel(), robot.gravity / size
    unit, rng, best, spread = unit.reshape(3, -1), np.random.default_rng(0), own, np.inf
    for k in range(ROUNDS + 1):
        tried = rng.normal(size=(TRIED if k else DIRECTIONS, 3))
        tried = np.vstack([best, tried if spread == np.inf else best + spread * tried])
        tried /= np.linalg.norm(tried, axis=1)[:, None]
        worst = np.abs(tried @ unit - scaled).max(axis=1)
        # directions that fit cost less than 3, more at larger angles from the model's gravity
        cost = np.where(worst <= 1.0, 1.0 - tried @ own, 3.0 + worst)
        best, spread = tried[np.argmin(cost)], 0.1 if spread == np.inf else 0.7 * spread
    return size * best if cost.min() < 3.0 else None


def is_load(robot: Robot, mass: tuple[float, float]) -> bool:
    """Whether payload plus missing mass may be positive, so that a payload explains it."""
    return mass[1] > -robot.payload_mass


def difference_text(mass: float) -> str:
    """Return a mass difference as a text, such as '0.50 kg less'."""
    return f'{abs(mass):.2f} kg ' + ('more' if mass >= 0.0 else 'less')


def tip_text(robot: Robot, tip: str) -> str:
    return 'the tip' if len(robot.tips) == 1 else f"'{tip}'"


def missing_mass(robot: Robot, tip: str, q: Array, missing: Array, bound: Array
                  ) -> tuple[float, float] | None:
    """Interval of the mass near a tip that explains missing efforts [kg]; None if none does."""
    # its centre is within REACH times the length of the arm from the tip, along each axis
    body, T_body_tip = robot.frames[tip]
    at_body = _unit_loads(robot, q, body)
    # maps [m, m c] with c in the tip's frame to [m, m c] with c in the body's frame
    to_body = np.eye(4)
    to_body[1:, 0], to_body[1:, 1:] = T_body_tip[:3, 3], T_body_tip[:3, :3]
    unit = (at_body @ to_body).reshape(-1, 4)
    reach = REACH * float(np.linalg.norm(robot.T_parent_body[:, :3, 3], axis=1).sum()
                          + np.linalg.norm(T_body_tip[:3, 3]))
    limit = np.broadcast_to(bound, missing.shape).ravel()
    rows, ends = np.vstack([unit, -unit]), np.concatenate([missing.ravel() + limit,
                                                           limit - missing.ravel()])
    found = []
    for sign in (1.0, -1.0):
        # |m c| is at most the reach times |m|, along each axis
        box = np.array([[-sign * reach, *(side * axis)] for axis in np.eye(3)
                        for side in (1.0, -1.0)])
        lightest = (0.0, None) if sign > 0.0 else (-robot.inertia[body, 5, 5], 0.0)
        for least in (1.0, -1.0):
            solved = linprog([least, 0.0, 0.0, 0.0], np.vstack([rows, box]),
                             np.concatenate([ends, np.zeros(6)]),
                             bounds=[lightest, *[(None, None)] * 3])
            if solved.status == 0:
                found.append(float(solved.x[0]))
    return (min(found), max(found)) if found else None


def _factor(unit: Array, missing: Array, bound: Array, least: float
            ) -> tuple[float, float] | None:
    """Interval of s ≥ `least` for which s·unit equals `missing` to within the bound, or None."""
    low, high = least, np.inf
    limit = np.broadcast_to(bound, missing.shape)
    if (np.abs(missing) > limit)[unit == 0.0].any():
        return None
    at = unit != 0.0
    ends = np.stack([missing[at] - limit[at], missing[at] + limit[at]]) / unit[at]
    low, high = max(low, ends.min(axis=0).max()), min(high, ends.max(axis=0).min())
    return (float(low), float(high)) if low <= high else None


def weights(robot: Robot, q: Array) -> Array:
    """Torques (k, n) that hold the robot at rest at configurations q (k, n) [N·m; N]."""
    first_moments = np.column_stack([robot.inertia[:, 5, 5],
                                     robot.inertia[:, [2, 0, 1], [4, 5, 3]]])
    found = np.zeros(q.shape)
    for torques, values in zip(found, q, strict=True):
        at = placement(robot, values)
        for body, moments in enumerate(first_moments):
            torques += _body_load(robot, at, body) @ moments
    return found


def _unit_loads(robot: Robot, q: Array, body: int) -> Array:
    """Derivatives (k, n, 4) of the gravity torques at q (k, n), see `_body_load`."""
    return np.array([_body_load(robot, placement(robot, values), body) for values in q])


def _body_load(robot: Robot, at: Placement, body: int) -> Array:
    """Derivatives (n, 4) of the gravity torques by mass and first moment of a body [kg, kg m]."""
    # the first moment is along x, y, z of the body's frame
    found, i = np.zeros((robot.n, 4)), body
    while i >= 0:
        z = at.R[i, :, 2]
        if robot.prismatic[i]:
            found[i, 0] = -z @ robot.gravity
        else:
            turned = np.cross(z, robot.gravity)
            found[i] = turned @ (at.p[body] - at.p[i]), *(turned @ at.R[body])
        i = int(robot.parent[i])
    return found


def fits(efforts: Array, expected: Array, bound: Array) -> bool:
    """Whether all efforts differ from the expected ones by at most the bound."""
    return bool((np.abs(efforts - expected) <= bound).all())


def _possible(robot: Robot, q: Array) -> bool:
    lower, upper = robot.position_limits.T
    return bool(((q >= lower) & (q <= upper)).all())


def _quoted(names: tuple[str, ...], which: Iterable[int]) -> str:
    return ', '.join(f"'{names[i]}'" for i in which)
