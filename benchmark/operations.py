# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Floating-point operations of EFPA, RJKA and SFA on the humanoid of Wensing et al. (003, section V).

`python benchmark/operations.py` prints the section of doc/measurements/benchmarks.md. To count,
the kernels of osc_ros.dynamics.trees run as plain Python, with numba disabled, on number objects
that count their operations. This needs a separate process: see `counted`.

"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
import inspect
import json
from operator import add, sub
import os
from pathlib import Path
import subprocess
import sys
from time import perf_counter_ns
from types import CodeType, FrameType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import osc_ros
from osc_ros import Robot
from osc_ros.compile.compiled import plain, unlocked
from osc_ros.dynamics.algebra.spatial import add as plus
from osc_ros.dynamics.algebra.spatial import (
    cross_rows,
    full,
    matrix_at,
    mobility_at,
    rotate,
    transpose,
    vector_at,
)
from osc_ros.dynamics.algebra.spatial import sub as minus
from osc_ros.dynamics.trees.articulated import put_articulated_inertias
from osc_ros.dynamics.trees.factor import factorize, square_factor
from osc_ros.dynamics.trees.propagation import propagate_forces, propagate_mobilities
from osc_ros.dynamics.trees.tree_bodies import jacobian, locate
from osc_ros.dynamics.trees.tree_layout import (
    ARTICULATED,
    Constants,
    constants_in,
    D_INV,
    EXTENDED,
    IN_BASE,
    packed_robot,
    WORK_WIDTH,
)

Array = NDArray[np.float64]

ALGORITHMS = EFPA, RJKA, SFA = 'EFPA', 'RJKA', 'SFA'
# Parts of the work, as in the paper's figure 5.
INERTIAS, INWARD, OUTWARD = 'articulated inertias', 'propagators, inward', 'mobilities, outward'
CROSS, ENDS, ROOT = 'cross terms', 'to the tips', 'mobility of the base'
COMPOSITE, FACTORS, JACOBIAN = 'joint-space inertia', 'its factor L', 'Jacobian'
SOLVED, SQUARED = 'Y = J L⁻¹', 'Y Yᵀ'
# For each kernel, the parts in its source: each key is a text in the first line of a part; ''
# stands for the first line of the kernel.
PARTS: dict[Callable[..., Any], dict[str, str]] = {
    put_articulated_inertias: {'': INERTIAS},
    propagate_forces: {'': INWARD, 'zero = ZERO + ZERO + ZERO': OUTWARD,
                       'if common[j, k] == at': CROSS, 'Y = motions_at_tip(': ENDS},
    propagate_mobilities: {'': OUTWARD, 'A, B, C = mobility_unrotated(': ENDS,
                           'for j in range(k):': CROSS},
    factorize: {'': COMPOSITE, 'np.sqrt(': FACTORS},
    jacobian: {'': JACOBIAN},
    square_factor: {'': SOLVED, 'total = 0.0': SQUARED},
}
CHECKED = 1e-10  # accepted relative difference of Λ⁻¹ between plain Python and compiled kernels


@dataclass(frozen=True)
class Humanoid:
    """
    The humanoid of the paper, with 35 bodies, and the parameters of its variants.

    The upper body carries the head, the arms, and, by one joint, the hip with the legs; the last
    body of an arm carries its fingers. A hand has two fingers of one joint each. With this
    arrangement of the bodies, J and M have the zeros that the paper counts.

    Attributes
    ----------
    tips : tuple of str
        'hands', 'feet', 'head', 'fingers' (the first two of each hand).
    base : str
        Joint of the base. 'floating': three prismatic joints with massless bodies, then a ball
        joint; 'ball': a ball joint alone; 'foot': the first foot is fixed to the ground, no tip.
    alone : bool
        Only the upper body, with all tips on it.

    """

    tips: tuple[str, ...] = ('hands', 'feet')
    arms: int = 2
    legs: int = 2
    arm: int = 7
    leg: int = 6
    fingers: int = 2
    finger: int = 1
    base: str = 'floating'
    alone: bool = False

    def robot(self) -> Robot:
        """Return the robot with random placements and inertias, the same in every call."""
        parent: list[int] = []
        tips: dict[str, list[int]] = {name: [] for name in ('hands', 'feet', 'head', 'fingers')}

        def chain(start: int, length: int) -> int:
            for k in range(length):
                parent.append(len(parent) - 1 if k else start)
            return len(parent) - 1

        if self.base == 'foot':
            hip = chain(-1, self.leg)
            trunk = chain(hip, 1)
        else:
            trunk = chain(-1, 4 if self.base == 'floating' else 1)
            hip = chain(trunk, 1)
        tips['feet'] = [chain(hip, self.leg) for _ in range(self.legs - (self.base == 'foot'))]
        tips['head'] = [chain(trunk, 3)]
        for _ in range(self.arms):
            tips['hands'].append(chain(trunk, self.arm))
            fingers = [chain(tips['hands'][-1], self.finger) for _ in range(self.fingers)]
            tips['fingers'] += fingers[:2]
        carriers = [body for name in self.tips for body in tips[name]]
        if self.alone:
            parent, carriers = parent[:trunk + 1], [trunk] * len(carriers)
        return _robot(parent, carriers, {'floating': 3, 'ball': 0, 'foot': -1}[self.base])


def _robot(parent: Sequence[int], carriers: Sequence[int], ball: int) -> Robot:
    """
    Return a Robot of revolute joints; joint `ball`, if not negative, is a ball joint.

    The joints before the ball joint are prismatic, and their bodies have no mass.

    """
    b, first, rng = len(parent), max(ball, 0), np.random.default_rng(3)
    T, inertia, T_tip = np.tile(np.eye(4), (b, 1, 1)), np.zeros((b, 6, 6)), np.eye(4)
    T_tip[:3, 3] = rng.uniform(-0.1, 0.1, 3)
    for body in range(first, b):
        turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
        mass, shift, c = rng.uniform(1.0, 4.0), *rng.uniform(-0.3, 0.3, (2, 3))
        cx = np.array([[0, -c[2], c[1]], [c[2], 0, -c[0]], [-c[1], c[0], 0]])
        inertia[body] = mass * np.block([[0.02 * np.eye(3) - cx @ cx, cx], [-cx, np.eye(3)]])
        if body != ball:
            T[body, :3, :3], T[body, :3, 3] = turn * np.linalg.det(turn), shift
    T[:first, :3, :3] = [[0, 0, 1], [1, 0, 0], [0, 1, 0]]  # prismatic axes: x, then y, then z
    i, n, m = np.arange(b), b + 2 * (ball >= 0), len(carriers)
    names = tuple(f'tip_{k}' for k in range(m))
    return Robot(
        name='humanoid', base='ground', tips=names, joints=tuple(f'joint_{k}' for k in range(b)),
        parent=np.array(parent), prismatic=i < ball, spherical=i == ball, T_parent_body=T,
        inertia=inertia, rotor_inertia=np.zeros(n),
        position_limits=np.tile([-np.inf, np.inf], (n, 1)), velocity_limits=np.full(n, np.inf),
        effort_limits=np.full(n, np.inf), gravity=np.zeros(3),
        frames={name: (body, T_tip) for name, body in zip(names, carriers)})


def position(robot: Robot) -> Array:
    """Return the q (nq,) for all counts and times; the limbs are the same on every base."""
    return np.random.default_rng(4).uniform(-1.0, 1.0, robot.nq)[::-1].copy()


class Number:
    """
    A number that counts its operations, in `tally`, under the part of the work that is running.

    `known` is true if the value is computed from literals in the source alone. Operations that
    such a zero or one makes unnecessary (x · 0, x · 1, x + 0) are counted separately. A number
    that is stored in an array is no longer known.

    """

    __slots__ = ('known', 'value')
    tally: ClassVar[Counter[tuple[str, str, bool]]] = Counter()
    part: ClassVar[str] = ''

    def __init__(self, value: float, known: bool = False) -> None:
        self.value, self.known = value, known

    def __float__(self) -> float:
        return self.value

    def __neg__(self) -> Number:
        return Number(-self.value, self.known)

    def sqrt(self) -> Number:
        """Return the square root; np.sqrt calls this method."""
        self.tally[self.part, 'root', False] += 1
        return Number(self.value ** 0.5)

    def _is(self, *values: float) -> bool:
        return self.known and self.value in values

    def __add__(self, other: Number | float) -> Number:
        return self._sum(other, 1.0)

    __radd__ = __add__

    def __sub__(self, other: Number | float) -> Number:
        return self._sum(other, -1.0)

    def __rsub__(self, other: float) -> Number:
        return _number(other)._sum(self, -1.0)

    def _sum(self, other: Number | float, sign: float) -> Number:
        other = _number(other)
        known = self.known and other.known
        self.tally[self.part, 'sum', known or self._is(0.0) or other._is(0.0)] += 1
        return Number(self.value + sign * other.value, known)

    def __mul__(self, other: Number | float) -> Number:
        other = _number(other)
        known = (self.known and other.known) or self._is(0.0) or other._is(0.0)
        self.tally[self.part, 'product', known or self._is(1.0, -1.0) or other._is(1.0, -1.0)] += 1
        return Number(self.value * other.value, known)

    __rmul__ = __mul__

    def __truediv__(self, other: Number | float) -> Number:
        other = _number(other)
        self.tally[self.part, 'quotient', False] += 1
        return Number(self.value / other.value)

    def __rtruediv__(self, other: float) -> Number:
        return _number(other) / self


def _number(x: Number | float) -> Number:
    return x if isinstance(x, Number) else Number(x, known=True)


class Numbers(np.ndarray):
    """An array that converts every value written to it into a Number that counts."""

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, Number(float(value)))


def numbers(x: Array) -> Numbers:
    """Return an array of the same values as Numbers that count."""
    found = np.empty(x.shape, dtype=object)
    for key, value in np.ndenumerate(x):
        found[key] = Number(float(value))
    return found.view(Numbers)


@contextmanager
def counting() -> Iterator[Counter[tuple[str, str, bool]]]:
    """Count by (part, operation, whether a literal makes it unnecessary); for parts see PARTS."""
    Number.tally = tally = Counter()
    starts: dict[CodeType, list[tuple[int, str]]] = {}
    for function, parts in PARTS.items():
        lines, first = inspect.getsourcelines(function)
        starts[function.__code__] = found = []
        for piece, part in parts.items():
            at = [k for k, line in enumerate(lines) if piece in line] if piece else [0]
            if len(at) != 1:
                raise LookupError(f"'{piece}' is in {len(at)} lines of {function.__name__}, not "
                                  'in one')
            found.append((first + at[0], part))

    def enter(frame: FrameType, event: str, argument: Any) -> Callable | None:
        return follow if frame.f_code in starts else None

    def follow(frame: FrameType, event: str, argument: Any) -> Callable:
        Number.part = max(start for start in starts[frame.f_code] if start[0] <= frame.f_lineno)[1]
        return follow

    outer = sys.gettrace()
    sys.settrace(enter)
    try:
        yield tally
    finally:
        sys.settrace(outer)


@dataclass(frozen=True)
class Ways:
    """
    The steps of the three algorithms for Λ⁻¹, with arrays for one robot; its poses are computed.

    Attributes
    ----------
    steps : dict of str to list of callable
        Functions that write Λ⁻¹ to Lambda_inv[name], (6 m, 6 m), if called one after another.
    work : dict of str to array
        One row per body, as in osc_ros.dynamics.trees.tree_layout.
    ends : (m, 12)
        Rotation and position of each tip in the body that carries it.
    X : (Σ d, 36)
        Propagators of EFPA, four blocks each.
    first : (m,) int
        Rows of X that hold the propagators from the base.

    """

    steps: dict[str, list[Callable[[], None]]]
    Lambda_inv: dict[str, Any]
    work: dict[str, Any]
    ends: Any
    X: Any
    first: NDArray[np.int64]


def constants(robot: Robot) -> Constants:
    """Return the constants of the robot that the kernels unpack."""
    return plain(constants_in)(*packed_robot(robot, EXTENDED))


def ways(robot: Robot, array: Callable[[Array], Any]) -> Ways:
    """Return the algorithms, on arrays that `array` makes from arrays of floats."""
    own, n, m = constants(robot), robot.n, 6 * len(robot.tips)
    located = np.zeros((len(own.tree), WORK_WIDTH))
    locate(own, position(robot), np.zeros(n), located)
    own = own._replace(bodies=array(own.bodies), ends=array(own.ends), rotors=array(own.rotors))
    X, M, Y = (array(np.zeros(shape)) for shape in ((len(own.paths), 36), (n, n), (m, n)))
    work = {name: array(located) for name in ALGORITHMS}
    Lambda_inv = {name: array(np.zeros((m, m))) for name in ALGORITHMS}

    articulated = {name: partial(put_articulated_inertias, own, work[name])
                   for name in (EFPA, RJKA)}
    return Ways({
        EFPA: [articulated[EFPA],
               partial(propagate_forces, own, X, work[EFPA], Lambda_inv[EFPA])],
        RJKA: [articulated[RJKA],
               partial(propagate_mobilities, own, work[RJKA], Lambda_inv[RJKA])],
        SFA: [partial(factorize, own, work[SFA], M), partial(jacobian, own, work[SFA], Y),
              partial(square_factor, own, M, Y, Lambda_inv[SFA])],
    }, Lambda_inv, work, own.ends, X, own.starts[:-1])


# Number of operations, by algorithm and part.
Parts = dict[str, dict[str, int]]


@dataclass(frozen=True)
class Count:
    """
    The operations of the algorithms on one robot.

    Attributes
    ----------
    written : of each algorithm and part, int
        Operations of the kernels as they run.
    idle : of each algorithm and part, int
        Operations in `written` that a zero or a one in the source makes unnecessary.
    one_joint : of each algorithm and part, int
        Operations if the floating base has one joint of six freedoms, in place of several joints.
    Lambda_inv : dict of str to (6 m, 6 m) list
        Λ⁻¹ by each algorithm.
    off : float
        Relative difference between Λ⁻¹ with one joint of six freedoms and Λ⁻¹ by EFPA.

    """

    written: Parts
    idle: Parts
    one_joint: Parts
    Lambda_inv: dict[str, list[list[float]]]
    off: float


def count(humanoid: Humanoid) -> Count:
    """Return the counts; call this in a process in which numba is disabled."""
    written, idle, found = _count(humanoid)
    Lambda_inv = {name: x.astype(float) for name, x in found.Lambda_inv.items()}
    one_joint, off = written, 0.0
    if humanoid.base == 'floating':
        one_joint, expected = _one_joint(humanoid, written)
        off = float(np.abs(expected - Lambda_inv[EFPA]).max() / np.abs(expected).max())
    return Count(written, idle, one_joint,
                 {name: x.tolist() for name, x in Lambda_inv.items()}, off)


def _count(humanoid: Humanoid) -> tuple[Parts, Parts, Ways]:
    found = ways(humanoid.robot(), numbers)
    written: Parts = {}
    idle: Parts = {}
    for name, steps in found.steps.items():
        with counting() as tally:
            for step in steps:
                step()
        written[name], idle[name] = Counter(), Counter()
        for (part, _, is_idle), times in tally.items():
            written[name][part] += times
            idle[name][part] += times * is_idle
    return written, idle, found


def _one_joint(humanoid: Humanoid, written: Parts) -> tuple[Parts, Array]:
    """
    Return the counts with one joint of six freedoms, and Λ⁻¹ by this joint.

    Beyond the base, all operations are those of a base with a ball joint alone. The operations of
    the ball joint are counted on the base alone and subtracted; those of a joint of six freedoms
    are added.

    """
    ball = replace(humanoid, base='ball')
    whole, _, found = _count(ball)
    alone, _, _ = _count(replace(ball, alone=True))
    base, X = found.work[EFPA][0], [_dense(*x.reshape(4, 3, 3)) for x in found.X[found.first]]
    A, B, C = mobility_at(base, ARTICULATED)
    blocks = [np.array(full(A)), np.array(B), np.array(transpose(B)),
              np.array(full(C))]
    with counting() as of_inverse:
        K = inverse_by_factors(_dense(*(block.reshape(3, 3) for block in blocks)))
    with counting() as of_mobilities:
        Y = [product(K, x.T) for x in X]
    with counting() as of_columns:
        for x in found.ends:
            R, p = matrix_at(base, IN_BASE), vector_at(x, 9)
            cross_rows(R, minus(plus(p, rotate(R, p)), p))
    counts = {name: Counter(parts) for name, parts in whole.items()}
    for name in (EFPA, RJKA):
        for part in (INERTIAS, OUTWARD):
            counts[name][part] -= alone[name][part]
        counts[name][ROOT] = sum(of_inverse.values())
    counts[EFPA][ROOT] += sum(of_mobilities.values())
    # The counts of all other parts of SFA depend on the number of freedoms, not on that of joints.
    counts[SFA] = Counter(written[SFA])
    for part in (COMPOSITE, JACOBIAN):
        counts[SFA][part] = whole[SFA][part] - alone[SFA][part]
    counts[SFA][JACOBIAN] += sum(of_columns.values())
    # Λ⁻¹ with a fixed base; then the contribution of the base's motion is added.
    base[D_INV:D_INV + 6] = 0.0
    found.steps[EFPA][-1]()
    moved = np.block([[product(x, y) for y in Y] for x in X])
    return counts, (found.Lambda_inv[EFPA] + moved).astype(float)


def _dense(a: Any, b: Any, c: Any, d: Any) -> Any:
    return np.block([[a, b], [c, d]])


def product(A: Any, B: Any) -> Any:
    """Return A B; an entry takes as many products as A has columns, and one addition less."""
    return np.array([[reduce(add, row * column) for column in B.T] for row in A])


def inverse_by_factors(A: Any) -> Any:
    """Return A⁻¹ (n, n) of a symmetric A = L D Lᵀ, as NᵀD⁻¹N with N = L⁻¹."""
    n = len(A)
    A, D_inv = A.copy(), np.empty(n, object)
    L, N, DN, inverse = (np.empty((n, n), object) for _ in range(4))
    for k in range(n):
        D_inv[k] = 1.0 / A[k, k]
        for i in range(k + 1, n):
            L[i, k] = A[i, k] * D_inv[k]
            for j in range(k + 1, i + 1):
                A[i, j] = A[i, j] - L[i, k] * A[j, k]
    for i in range(n):
        DN[i, i] = D_inv[i]
        for j in range(i):
            N[i, j] = reduce(sub, (L[i, k] * N[k, j] for k in range(j + 1, i)), -L[i, j])
            DN[i, j] = D_inv[i] * N[i, j]
    for i in range(n):
        for j in range(i + 1):
            inverse[i, j] = inverse[j, i] = reduce(
                add, (N[k, i] * DN[k, j] for k in range(i + 1, n)), DN[i, j])
    return inverse


BASE, LONG, LONGER = 'hands and feet', '3 more DOF per limb', 'arms and legs twice as long'
LONGEST, HANDS = 'arms and legs four times as long', 'hands of four fingers, 12 DOF each'
LIMBS, FOOT = '2 more arms, 2 more legs', 'on one foot'
PUBLISHED = 0.78  # SFA / EFPA in the paper, hands and feet
CASES = {
    BASE: Humanoid(),
    'hands, feet, head': Humanoid(('hands', 'feet', 'head')),
    'forefingers, thumbs, feet': Humanoid(('fingers', 'feet')),
    LONG: Humanoid(arm=10, leg=9),
    LONGER: Humanoid(arm=14, leg=12),
    LONGEST: Humanoid(arm=28, leg=24),
    HANDS: Humanoid(fingers=4, finger=3),
    LIMBS: Humanoid(arms=4, legs=4),
    FOOT: Humanoid(base='foot'),
}


def counted(names: Sequence[str] = tuple(CASES)) -> dict[str, Count]:
    """
    Return the counts of some CASES, from a process in which numba is disabled.

    Raises
    ------
    RuntimeError
        The counted run computed another Λ⁻¹ than the compiled kernels.

    """
    source = str(Path(osc_ros.__file__).parent.parent)
    # the process imports the same osc_ros as this one
    path = os.pathsep.join(filter(None, (source, os.environ.get('PYTHONPATH', ''))))
    found = subprocess.run(
        [sys.executable, __file__, '--count', *names], check=True, text=True, encoding='utf-8',
        stdout=subprocess.PIPE, env=os.environ | {'NUMBA_DISABLE_JIT': '1', 'PYTHONPATH': path})
    counts = {name: Count(**fields) for name, fields in json.loads(found.stdout).items()}
    for name, one in counts.items():
        compiled = _compiled(name)
        for algorithm in ALGORITHMS:
            expected = compiled.Lambda_inv[algorithm]
            off = np.abs(one.Lambda_inv[algorithm] - expected).max() / np.abs(expected).max()
            if not max(off, one.off) < CHECKED:
                raise RuntimeError(f"{algorithm}, '{name}': the Λ⁻¹ that was counted is off by "
                                   f'{off:.0e}, with one joint {one.off:.0e}')
    return counts


def _compiled(name: str) -> Ways:
    """Return the compiled algorithms after one run."""
    with unlocked():  # a law in this process may have locked kernels that are called here alone
        found = ways(CASES[name].robot(), np.copy)
        for steps in found.steps.values():
            for step in steps:
                step()
    return found


def times(name: str, seconds: float) -> dict[str, float]:
    """Return the median time of each compiled algorithm [µs]; the algorithms take turns."""
    steps, turns = _compiled(name).steps, dict[str, list[float]]()
    end = perf_counter_ns() + seconds * 1e9
    while perf_counter_ns() < end:
        for algorithm in ALGORITHMS:
            started = perf_counter_ns()
            for _ in range(10):
                for step in steps[algorithm]:
                    step()
            turns.setdefault(algorithm, []).append((perf_counter_ns() - started) / 1e4)
    return {algorithm: float(np.median(found)) for algorithm, found in turns.items()}


def zeros(humanoid: Humanoid) -> tuple[float, float]:
    """Return the shares of J and of M that are zero because the tree branches."""
    robot = humanoid.robot()
    *_, paths, starts, _, _, before = constants(robot)
    freedoms = np.where(robot.spherical, 3, 1)
    J = 6 * sum(int(freedoms[paths[start:end]].sum()) for start, end in zip(starts, starts[1:]))
    depth = np.zeros(robot.n, int)  # number of ancestors of each freedom
    for k in range(robot.n):
        depth[k] = 0 if before[k] < 0 else depth[before[k]] + 1
    return (1 - J / (6 * len(robot.tips) * robot.n),
            1 - float(robot.n + 2 * depth.sum()) / robot.n ** 2)


def total(parts: Parts, algorithm: str) -> int:
    """Return all operations of an algorithm."""
    return sum(parts[algorithm].values())


def ratio(parts: Parts, algorithm: str, other: str = EFPA) -> float:
    """Return the operations of an algorithm, divided by those of another."""
    return total(parts, algorithm) / total(parts, other)


def section(seconds: float = 0.5) -> list[str]:
    """Return the lines of the report; every case is timed for `seconds`."""
    counts, taken = counted(), {name: times(name, seconds) for name in CASES}
    return [
        '## Operations on a tree: EFPA, RJKA, SFA', '',
        'Λ⁻¹ of the humanoid of Wensing, Featherstone and Orin (section V), with 35 bodies, '
        '34 revolute joints and a floating base, and of its variants. The paper shows the '
        'degrees of freedom of the variants in figures that were not available; the numbers '
        'here are ours. Sums, products, quotients and roots count as one operation each. '
        'They are counted by running the kernels of `osc_ros.dynamics.trees` as plain '
        'Python on number objects that count. Changes of sign are not counted, nor is the '
        "computation of the bodies' poses, which all three algorithms need. The Λ⁻¹ of this "
        'run is compared with that of the compiled kernels. Times are those of the compiled '
        'kernels, called from Python in turns, without the computation of the poses.', '',
        'osc_ros models the floating base as three sliding bodies without mass and a ball '
        'joint, so its kernels process three more joints. The columns "one joint" count as '
        "the paper does: with the ball joint alone as the base's joint, minus the operations "
        'of the ball joint, plus those of a joint with six degrees of freedom (the inverse '
        "of the base's articulated inertia, and in EFPA one dense product per tip). The "
        'result Λ⁻¹ of that computation was checked too.', '',
        *_table(['', 'n', 'tips', 'EFPA, one joint', 'RJKA / EFPA', 'SFA / EFPA',
                 'EFPA as it runs', 'RJKA / EFPA', 'SFA / EFPA', 'EFPA µs', 'RJKA / EFPA',
                 'SFA / EFPA'],
                (_case(name, counts[name], taken[name]) for name in CASES)), '',
        _idle(counts[BASE]), '',
        'Operations for hands and feet, "one joint", by parts as in figure 5 of the paper:', '',
        *_table(['', *ALGORITHMS], _parts(counts[BASE].one_joint)), '',
        'Claims of the paper, whose base case is hands and feet, and the results with "one '
        'joint":', '',
        *_table(['claim', 'found', ''], claims(counts), '---'), '',
        _shared(counts[FOOT].one_joint), '',
        _prices(counts[BASE].one_joint), '',
    ]


def _idle(base: Count) -> str:
    spared = {name: total(base.written, name) - total(base.idle, name) for name in ALGORITHMS}
    each = ', '.join(f'{total(base.idle, name)} of {name}' for name in ALGORITHMS)
    return (f'In the kernels as they run, with hands and feet, {each} have as an operand a zero '
            'or a one from the source, or a value that such an operand made zero. These '
            'operations are counted, because a compiler that must respect non-finite numbers has '
            f'to keep most of them. Without them SFA takes {spared[SFA] / spared[EFPA]:.2f} and '
            f'RJKA {spared[RJKA] / spared[EFPA]:.2f} of EFPA.')


def _shared(foot: Parts) -> str:
    # `shared` is the number of joints between the tips of the three pairs. Joints that both pairs
    # with the foot share are counted once: 6 from the foot to the hip, 1 to the upper body, 7 to
    # each hand. Between the hands there are 14 joints, as many as between the tips of each pair.
    # The transforms to the tips of a pair take 504 operations.
    pairs, shared = 3, 6 + 1 + 2 * 7 + 14
    less = (foot[RJKA][CROSS] - 504 * pairs) * (1 - shared / (14 * pairs))
    return ('RJKA here propagates each pair of tips separately across all joints between them. '
            'Joints that several pairs share could be processed once; the paper does not say '
            'whether it does. On one foot that would be 35 instead of 42 joints, and RJKA would '
            f'take {(total(foot, RJKA) - less) / total(foot, EFPA):.2f} of EFPA.')


def _prices(base: Parts) -> str:
    joints = 34
    efpa, sfa, here = total(base, EFPA), total(base, SFA), base[EFPA][INERTIAS] / joints
    needed = here - (efpa - sfa / PUBLISHED) / joints
    cheap = sfa / (efpa - joints * (here - 62))
    return (f'Reason for the difference from {PUBLISHED}: the paper does not give the cost of a '
            'joint, but refers to its reference 16. Of the costs that it does give, a dense '
            'product (396) and the transforms of a cross term to its two tips (504) are the same '
            f"here, and the inverse of the base's inertia takes {base[RJKA][ROOT]} instead of "
            "231. But in the paper's frames a joint is two screw transforms; here it is a "
            'general rotation with nine numbers. And in the paper one child of each body is '
            'reached by a rotation about one axis, which transforms an articulated inertia with '
            f'62 operations. Here every joint needs {here:.0f}, and that alone changes the '
            f'ratio: with {needed:.0f} it would be {PUBLISHED}, with 62 {cheap:.2f}.')


def claims(counts: Mapping[str, Count]) -> list[list[str]]:
    """Return the claims of section V, the results with one joint, and whether they agree."""
    one = {name: found.one_joint for name, found in counts.items()}
    base, limbs = one[BASE], one[LIMBS]
    sfa = {name: ratio(parts, SFA) for name, parts in one.items()}
    rjka = {name: ratio(parts, RJKA) for name, parts in one.items()}
    longer = (LONG, LONGER, LONGEST, HANDS)
    floating = [name for name in CASES if name != FOOT]
    J, M = zeros(CASES[BASE])
    M_limbs = zeros(CASES[LIMBS])[1]
    spread = {name: sum(base[name][part] for part in base[name]
                        if part in (INWARD, OUTWARD, CROSS)) for name in (EFPA, RJKA)}
    growth = [ratio(there, RJKA, SFA) / ratio(here, RJKA, SFA) - 1 for here, there in (
        (base, limbs), (counts[BASE].written, counts[LIMBS].written))]
    share = base[RJKA][CROSS] / total(base, RJKA)
    rows = [
        ('67 % of J and 56 % of M are zero', f'{100 * J:.1f} %, {100 * M:.1f} %',
         abs(J - 0.67) < 0.01 and abs(M - 0.56) < 0.01),
        ('with 2 more arms and legs, 73 % of M', f'{100 * M_limbs:.1f} %',
         abs(M_limbs - 0.73) < 0.01),
        (f'SFA takes {PUBLISHED} of EFPA', f'{sfa[BASE]:.2f}', abs(sfa[BASE] - PUBLISHED) < 0.01),
        ('cross terms are by far the most expensive step of RJKA', f'{100 * share:.0f} % of it',
         share > 0.5),
        ("EFPA's propagators cost more in the inward pass and save more in the cross terms",
         f'{base[EFPA][INWARD]} more, {base[RJKA][CROSS] - base[EFPA][CROSS]} less; '
         f'with the outward pass {spread[EFPA]} against {spread[RJKA]}',
         spread[EFPA] < spread[RJKA]),
        ('RJKA takes more than EFPA for every variant of the floating robot',
         f'{min(rjka[name] for name in floating):.2f} to '
         f'{max(rjka[name] for name in floating):.2f} of EFPA',
         min(rjka[name] for name in floating) > 1),
        ("more degrees of freedom in arms, legs or hands: SFA's advantage over EFPA decreases",
         ', '.join(f'{sfa[name]:.2f}' for name in longer) + f' against {sfa[BASE]:.2f}',
         min(sfa[name] for name in longer) > sfa[BASE]),
        ('on some trees EFPA takes less than SFA', f'SFA up to {max(sfa.values()):.2f} of EFPA',
         max(sfa.values()) > 1),
        ('2 more arms and legs: SFA takes less than EFPA, by nearly the same ratio as before',
         f'{sfa[LIMBS]:.2f} against {sfa[BASE]:.2f}',
         sfa[LIMBS] < 1 and abs(sfa[LIMBS] / sfa[BASE] - 1) < 0.1),
        ('2 more arms and legs: RJKA / SFA rises by more than 50 %',
         f'{100 * growth[0]:.1f} % (as they run {100 * growth[1]:.1f} %)',
         growth[0] > 0.5),
        ('on one foot RJKA has an advantage, because it processes the common leg once',
         f'{rjka[FOOT]:.2f} of EFPA, against {rjka[BASE]:.2f} with hands and feet',
         rjka[FOOT] < 1),
    ]
    return [[claim, found, 'agrees' if agrees else '**does not agree**']
            for claim, found, agrees in rows]


def _case(name: str, found: Count, taken: Mapping[str, float]) -> list[str]:
    robot = CASES[name].robot()
    cells = [name, str(robot.n), str(len(robot.tips))]
    for parts in (found.one_joint, found.written):
        cells += [str(total(parts, EFPA)),
                  *(f'{ratio(parts, algorithm):.2f}' for algorithm in (RJKA, SFA))]
    return [*cells, f'{taken[EFPA]:.1f}',
            *(f'{taken[algorithm] / taken[EFPA]:.2f}' for algorithm in (RJKA, SFA))]


def _parts(parts: Parts) -> Iterator[list[str]]:
    for part in dict.fromkeys(part for name in ALGORITHMS for part in parts[name]):
        yield [part, *(str(parts[name].get(part, '')) for name in ALGORITHMS)]
    yield ['all', *(str(total(parts, name)) for name in ALGORITHMS)]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], rule: str = '---:') -> list[str]:
    ruled = ['---', *(rule for _ in head[1:])]
    return ['| ' + ' | '.join(cells) + ' |' for cells in (head, ruled, *rows)]


if __name__ == '__main__':
    if sys.argv[1:2] == ['--count']:
        print(json.dumps({name: vars(count(CASES[name])) for name in sys.argv[2:]}))
    else:
        print('\n'.join(section()))
