# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Pinocchio as the reference of the tests, and the robots of the tests.

This module imports nothing from osc_ros. It computes the mimic joints, the locked joints and the
pose of the base independently, from the XML and with Pinocchio.
"""

from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import files
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pinocchio as pin

from common import CHECKOUT

SHIPPED_PANDA = CHECKOUT / 'osc_ros' / 'robots' / 'panda.urdf'


@dataclass(frozen=True)
class Case:
    """A robot for tests: `Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=…)`."""

    urdf_text: str
    base: str
    tip: str
    locked: dict[str, float] = field(default_factory=dict)


def pinocchio_model(urdf_text, base, tip, joint_names, locked=None):
    """
    Return (model, data, frame_id): Pinocchio's model of the chain from `base` to `tip`.

    `joint_names` (in path order, like `Robot.joint_names`) move. All other joints are locked, and
    their bodies are lumped. A locked joint has the value in `locked` if it is there; otherwise a
    mimic joint has the value that its source gives, and any other joint 0. The world of the model
    is the frame of `base`, at rest, so that poses (`data.oMf`), LOCAL_WORLD_ALIGNED Jacobians and
    gravity (0, 0, -9.81) need no change of frame. Convert positions with
    `configuration(model, q)`; set rotor inertias in `model.armature`.
    """
    model = pin.buildModelFromXML(urdf_text)
    held = held_configuration(model, urdf_text, set(joint_names), dict(locked or {}))
    ids = [i for i in range(1, model.njoints) if model.names[i] not in joint_names]
    # Pinocchio would not find a joint that has the same name as a link.
    for frame in _links(model):
        frame.name = f'link {frame.name}'
    model = pin.buildReducedModel(model, ids, held)
    for frame in _links(model):
        frame.name = frame.name.removeprefix('link ')
    if list(model.names)[1:] != list(joint_names):
        raise ValueError(f'the chain is {list(model.names)[1:]}, not {list(joint_names)}')
    base_frame = model.frames[model.getFrameId(base, pin.FrameType.BODY)]
    if base_frame.parentJoint != 0:
        raise ValueError(f"base '{base}' is carried by {model.names[base_frame.parentJoint]}")
    T_base_world = base_frame.placement.inverse()
    model.jointPlacements[1] = T_base_world * model.jointPlacements[1]
    for frame in model.frames:
        if frame.parentJoint == 0:
            frame.placement = T_base_world * frame.placement
    model.gravity.linear = np.array([0.0, 0.0, -9.81])
    return model, model.createData(), model.getFrameId(tip, pin.FrameType.BODY)


def held_configuration(model, urdf_text, moving, locked):
    """Return Pinocchio's configuration in which joints not in `moving` are at locked positions."""
    held = pin.neutral(model)
    for joint, value in _held_values(urdf_text, moving, locked).items():
        if model.existJointName(joint):
            _put(held, model, model.getJointId(joint), value)
    return held


def configuration(model, q):
    """Return Pinocchio's configuration, (nq,), for joint angles and travels `q`, (n,)."""
    full = pin.neutral(model)
    for joint, value in zip(range(1, model.njoints), q, strict=True):
        _put(full, model, joint, value)
    return full


def _links(model):
    return [frame for frame in model.frames if frame.type == pin.FrameType.BODY]


def _put(full, model, joint, value):
    first, width = model.idx_qs[joint], model.nqs[joint]
    full[first:first + width] = [value] if width == 1 else [np.cos(value), np.sin(value)]


def _held_values(urdf_text, moving, locked):
    joints = {joint.get('name'): joint for joint in ElementTree.fromstring(urdf_text).iter('joint')
              if joint.get('type') in ('revolute', 'continuous', 'prismatic')}

    def value(name):
        if name in locked:
            return locked[name]
        mimic = joints[name].find('mimic') if name in joints else None
        if mimic is None or name in moving:
            return 0.0
        source = value(mimic.get('joint'))
        return float(mimic.get('multiplier', 1)) * source + float(mimic.get('offset', 0))

    return {name: value(name) for name in joints if name not in moving}


@cache
def robot_cases():
    """Return the robots for the tests, by name; cached."""
    panda = ('panda_link0', 'panda_hand_tcp', {'panda_finger_joint1': 0.03})
    cases = {
        'panda': Case(SHIPPED_PANDA.read_text(), *panda),
        'panda_of_erd': Case(_erd('panda_description/urdf/panda'), *panda),
        'ur5': Case(_erd('ur_description/urdf/ur5_robot'), 'base_link', 'tool0'),
        'ur10': Case(_erd('ur_description/urdf/ur10_robot'), 'world', 'ee_link'),
        'kinova': Case(_erd('kinova_description/robots/kinova'), 'base', 'j2s6s200_end_effector'),
        'iiwa_like': Case(iiwa_like(), 'link_0', 'tool'),
        'xarm7': Case(_erd('xarm_description/urdf/xarm7'), 'link_base', 'link_eef'),
        'talos_left_arm': Case(_erd('talos_data/robots/talos_left_arm'), 'arm_left_1_link',
                               'gripper_left_base_link', {'gripper_left_joint': -0.6}),
        'talos': Case(_erd('talos_data/robots/talos_full_v2'), 'torso_2_link',
                      'gripper_left_base_link',
                      {'gripper_left_joint': -0.6, 'torso_1_joint': 0.3, 'torso_2_joint': 0.5}),
        'baxter': Case(_erd('baxter_description/urdf/baxter'), 'torso', 'right_gripper',
                       {'r_gripper_l_finger_joint': 0.01, 'left_s1': 0.8}),
        'tiago': Case(_erd('tiago_description/robots/tiago'), 'base_footprint', 'hand_tool_link',
                      {'wheel_left_joint': 2.0, 'hand_index_joint': 0.9, 'head_1_joint': 0.2}),
        'jaco_on_anymal': Case(_erd('anymal_b_simple_description/robots/anymal-kinova'),
                               'j2s6s200_link_base', 'j2s6s200_end_effector', {'LF_KFE': 0.4}),
        'random': Case(random_urdf(0, 9), 'link_0', 'tool', {'branch_joint_4': 0.8}),
        'random_long': Case(random_urdf(1, 40), 'link_2', 'tool', {'branch_joint_8': -0.3}),
    }
    return cases


def _erd(name):
    # The package has data only: its metadata gives the paths without an import.
    robots = 'example-robot-data/robots/'
    for file in files('example-robot-data') or ():
        if str(file).endswith(f'{robots}{name}.urdf'):
            return Path(file.locate()).read_text()
    raise FileNotFoundError(f'example-robot-data has no {robots}{name}.urdf')


def random_urdf(seed, n):
    """
    Return a URDF with `n` moving joints from 'link_0' to 'tool', with random axes and origins.

    Joint k moves 'link_k'; one joint in four is prismatic, one in four continuous. Every moving
    link has a child 'branch_k', whose joint 'branch_joint_k' is fixed or revolute.
    """
    rng = np.random.default_rng(seed)

    def words(values):
        return ' '.join(repr(float(value)) for value in values)

    def origin(reach):
        return (f"<origin xyz='{words(rng.uniform(-reach, reach, 3))}' "
                f"rpy='{words(rng.uniform(-3, 3, 3))}'/>")

    def link(name):
        # Moments of a distribution of points, which satisfy the triangle inequality.
        spread = rng.uniform(0.01, 0.1, 3) ** 2
        mass = rng.uniform(0.5, 3)
        moments = mass * (spread.sum() - spread)
        R = pin.Quaternion(*(lambda v: v / np.linalg.norm(v))(rng.normal(size=4))).matrix()
        tensor = R @ np.diag(moments) @ R.T
        entries = ' '.join(
            f"i{'xyz'[a]}{'xyz'[b]}='{float(tensor[a, b])!r}'" for a in range(3)
            for b in range(a, 3))
        return (f"<link name='{name}'><inertial>{origin(0.1)}<mass value='{mass!r}'/>"
                f'<inertia {entries}/></inertial></link>')

    def joint(name, kind, parent, child, reach=0.3):
        axis = words(rng.normal(size=3) * rng.uniform(0.1, 10))
        return (f"<joint name='{name}' type='{kind}'><parent link='{parent}'/>"
                f"<child link='{child}'/>{origin(reach)}<axis xyz='{axis}'/>"
                "<limit lower='-2' upper='2' velocity='3' effort='50'/></joint>")

    kinds = ('revolute', 'prismatic', 'revolute', 'continuous')
    parts = [link('link_0')]
    for k in range(1, n + 1):
        parts += [joint(f'joint_{k}', kinds[k % 4], f'link_{k - 1}', f'link_{k}'),
                  link(f'link_{k}'), link(f'branch_{k}'),
                  joint(f'branch_joint_{k}', ('fixed', 'revolute')[k % 2 == 0], f'link_{k}',
                        f'branch_{k}', 0.1)]
    parts += ["<link name='tool'/>", joint('tool_joint', 'fixed', f'link_{n}', 'tool', 0.1)]
    return f"<robot name='random_{seed}_{n}'>{''.join(parts)}</robot>"


def iiwa_like():
    """Return a URDF with the joint layout of the KUKA LBR iiwa 14, and rods as links."""
    # per joint: offset from the previous joint [m], rpy, mass [kg] and length [m] of the rod
    rows = [
        (0.1575, '0 0 0', 4.0, 0.2), (0.2025, '1.5707963267948966 0 3.141592653589793', 4.0, 0.2),
        (0.2045, '1.5707963267948966 0 3.141592653589793', 3.0, 0.2),
        (0.2155, '1.5707963267948966 0 0', 2.7, 0.2),
        (0.1845, '-1.5707963267948966 3.141592653589793 0', 1.7, 0.19),
        (0.2155, '1.5707963267948966 0 0', 1.8, 0.12),
        (0.081, '-1.5707963267948966 3.141592653589793 0', 0.3, 0.05),
    ]
    parts = ["<link name='link_0'/>"]
    for k, (rise, rpy, mass, rod) in enumerate(rows, 1):
        # Offset along z of the previous link for joint 1 and even joints, else along its y.
        xyz = f'0 {rise} 0' if k % 2 and k > 1 else f'0 0 {rise}'
        across, along = mass * (rod**2 + 3 * 0.06**2) / 12, mass * 0.06**2 / 2
        parts.append(
            f"<joint name='joint_{k}' type='revolute'><parent link='link_{k - 1}'/>"
            f"<child link='link_{k}'/><origin xyz='{xyz}' rpy='{rpy}'/><axis xyz='0 0 1'/>"
            f"<limit lower='-2.9' upper='2.9' velocity='1.7' effort='300'/></joint>"
            f"<link name='link_{k}'><inertial><origin xyz='0 {rod / 4!r} {rod / 5!r}'/>"
            f"<mass value='{mass}'/><inertia ixx='{across!r}' ixy='0' ixz='0' iyy='{across!r}' "
            f"iyz='0' izz='{along!r}'/></inertial></link>")
    parts.append("<link name='tool'/><joint name='tool_joint' type='fixed'>"
                 "<parent link='link_7'/><child link='tool'/><origin xyz='0 0 0.045'/></joint>")
    return f"<robot name='iiwa_like'>{''.join(parts)}</robot>"


# Rotation matrices whose third columns (the z axes) are x and y.
Z_TO_X, Z_TO_Y = np.eye(3)[:, [1, 2, 0]], np.eye(3)[:, [2, 0, 1]]
# Per type of joint: Pinocchio's joint model, and the equivalent series of joints in osc_ros
# (revolute, prismatic or spherical), each with the rotation of its frame in the joint's frame.
JOINTS = {
    'revolute': (pin.JointModelRZ, [('revolute', np.eye(3))]),
    'prismatic': (pin.JointModelPZ, [('prismatic', np.eye(3))]),
    'spherical': (pin.JointModelSpherical, [('spherical', np.eye(3))]),
    'planar': (pin.JointModelPlanar, [
        ('prismatic', Z_TO_X), ('prismatic', Z_TO_Y), ('revolute', np.eye(3))]),
    'floating': (pin.JointModelFreeFlyer, [
        ('prismatic', Z_TO_X), ('prismatic', Z_TO_Y), ('prismatic', np.eye(3)),
        ('spherical', np.eye(3))]),
}


@dataclass(frozen=True, eq=False)
class TreeTerms:
    """
    Terms of the dynamics by Pinocchio, in osc_ros's coordinates and order, [angular; linear].

    J (6 m, n), J̇q̇ (6 m,) and the twist (6 m,) stack the m tips, in base axes; the poses are
    (m, 4, 4).

    """

    M: np.ndarray
    h: np.ndarray
    J: np.ndarray
    Jdot_qd: np.ndarray
    twist: np.ndarray
    poses: np.ndarray

    @property
    def M_inv(self):
        return np.linalg.inv(self.M)

    @property
    def Lambda_inv(self):
        return self.J @ np.linalg.solve(self.M, self.J.T)


@dataclass(frozen=True, eq=False)
class Tree:
    """
    A tree of bodies as plain arrays, and Pinocchio's model of the same tree.

    `Robot(**tree.description)` returns the robot. If `urdf` is not None (URDF has no spherical
    joint), `Robot.from_urdf(tree.urdf, 'base', tree.tips, free=True)` returns the same robot
    without rotors and with another order of joints; compare it with
    `tree.ordered(robot.joint_names)`. Arguments and results are in osc_ros's coordinates and in
    the order of `names`. Pinocchio's velocity is v_pin = E(q) qd: in planar and floating joints
    its linear part is in the axes of the moving body, in osc_ros in the axes of the parent.

    """

    description: dict
    model: pin.Model
    kinds: dict  # {joint: key of JOINTS}
    rotors: dict  # {joint: rotor inertia (k,)}
    urdf: str | None
    names: tuple

    def ordered(self, names):
        """Return this tree with its joints in the order of `names`."""
        return replace(self, names=tuple(names))

    @property
    def rotor_inertia(self):
        """Reflected rotor inertia (n,), in the order of `names`."""
        return np.concatenate([self.rotors[name] for name in self.names])

    @property
    def tips(self):
        return self.description['tips']

    def state(self, rng):
        """Return random position (nq,), with quaternions not normalized, and velocity (n,)."""
        parts = []
        for name in self.names:
            kind = self.kinds[name]
            if kind in ('planar', 'floating'):
                parts.append(rng.uniform(-1, 1, 3))
            if kind in ('spherical', 'floating'):
                parts.append(rng.normal(size=4))
            elif kind != 'planar':
                parts.append(rng.uniform(-2.5, 2.5, 1))
        return np.concatenate(parts), rng.normal(size=self.model.nv)

    def configuration(self, q):
        """Return Pinocchio's configuration for q (nq,)."""
        full, at = np.empty(self.model.nq), 0
        for name in self.names:
            kind, joint = self.kinds[name], self.model.getJointId(name)
            width = {'spherical': 4, 'planar': 3, 'floating': 7}.get(kind, 1)
            x = q[at:at + width]
            at += width
            if kind == 'planar':
                x = [x[0], x[1], np.cos(x[2]), np.sin(x[2])]
            elif kind in ('spherical', 'floating'):
                x = np.concatenate([x[:-4], x[-4:] / np.linalg.norm(x[-4:])])
            first = self.model.idx_qs[joint]
            full[first:first + len(x)] = x
        return full

    def velocity_map(self, q):
        """Return E (n, n): Pinocchio has the velocity E qd and the acceleration E q̈ + `drift`."""
        E, full, at = np.zeros((self.model.nv, self.model.nv)), self.configuration(q), 0
        for name in self.names:
            kind, joint = self.kinds[name], self.model.getJointId(name)
            first, v = self.model.idx_qs[joint], self.model.idx_vs[joint]
            k = self.model.nvs[joint]
            part = np.eye(k)
            if kind == 'planar':
                c, s = full[first + 2:first + 4]
                part[:2, :2] = [[c, s], [-s, c]]
            elif kind == 'floating':
                part[:3, :3] = pin.Quaternion(full[first + 3:first + 7]).matrix().T
            E[v:v + k, at:at + k] = part
            at += k
        return E

    def drift(self, q, qd):
        """Return Ė qd (n,), with E of `velocity_map`: Pinocchio's acceleration at q̈ = 0."""
        v_pin = self.velocity_map(q) @ qd
        drift = np.zeros(self.model.nv)
        for name, kind in self.kinds.items():
            v = self.model.idx_vs[self.model.getJointId(name)]
            if kind == 'planar':
                drift[v:v + 2] = v_pin[v + 2] * np.array([v_pin[v + 1], -v_pin[v]])
            elif kind == 'floating':
                drift[v:v + 3] = np.cross(v_pin[v:v + 3], v_pin[v + 3:v + 6])
        return drift

    def terms(self, q, qd):
        """Return the TreeTerms at a state."""
        model, data = self.model, self.model.createData()
        full, E, drift = self.configuration(q), self.velocity_map(q), self.drift(q, qd)
        M = np.triu(pin.crba(model, data, full).reshape(model.nv, model.nv))
        M = E.T @ (M + np.triu(M, 1).T) @ E + np.diag(self.rotor_inertia)
        h = E.T @ pin.rnea(model, data, full, E @ qd, drift)
        world, angular_first = pin.LOCAL_WORLD_ALIGNED, [3, 4, 5, 0, 1, 2]
        frames = [model.getFrameId(tip) for tip in self.tips]
        J = [pin.computeFrameJacobian(model, data, full, frame, world)
             .reshape(6, model.nv)[angular_first] @ E for frame in frames]
        pin.forwardKinematics(model, data, full, E @ qd, drift)
        pin.updateFramePlacements(model, data)
        Jdot_qd = [pin.getFrameClassicalAcceleration(model, data, frame, world).vector
                   for frame in frames]
        twist = [pin.getFrameVelocity(model, data, frame, world).vector for frame in frames]
        return TreeTerms(M, h, np.vstack(J), np.hstack([x[angular_first] for x in Jdot_qd]),
                         np.hstack([x[angular_first] for x in twist]),
                         np.array([data.oMf[frame].homogeneous for frame in frames]))

    def forward_dynamics(self, q, qd, tau, F=None):
        """Return q̈ (n,) under torques and forces on the tips (6 m,), base axes."""
        terms = self.terms(q, qd)
        force = 0.0 if F is None else terms.J.T @ F
        return np.linalg.solve(terms.M, tau - terms.h + force)

    def energy(self, q, qd):
        """Return kinetic and potential energy, rotors included [J]."""
        model, data = self.model, self.model.createData()
        potential = pin.computePotentialEnergy(model, data, self.configuration(q))
        return 0.5 * qd @ self.terms(q, qd).M @ qd + potential

    def rate(self, q, qd):
        """Return dq/dt (nq,)."""
        parts, at, v = [], 0, 0
        for name in self.names:
            kind, k = self.kinds[name], self.model.nvs[self.model.getJointId(name)]
            if kind in ('spherical', 'floating'):
                turning = pin.Quaternion(q[at + k - 3:at + k + 1])
                parts += [qd[v:v + k - 3],
                          0.5 * (turning * pin.Quaternion(0, *qd[v + k - 3:v + k])).coeffs()]
            else:
                parts.append(qd[v:v + k])
            at, v = at + k + (kind in ('spherical', 'floating')), v + k
        return np.concatenate(parts)

    def joint_forces(self, q, qd, qdd, F=None):
        """
        Return {joint: wrench (6,) that its parent exerts through it}, by Pinocchio's RNEA.

        A wrench is [moment; force], about the origin and in the axes of the joint's last body.
        F (6 m,) are the forces on the m tips, in base axes.

        """
        model, data = self.model, self.model.createData()
        full, E = self.configuration(q), self.velocity_map(q)
        pin.framesForwardKinematics(model, data, full)
        on_joint = [pin.Force.Zero() for _ in range(model.njoints)]
        for k, tip in enumerate(self.tips if F is not None else ()):
            frame = model.getFrameId(tip)
            joint = model.frames[frame].parentJoint
            at_tip = pin.SE3(np.eye(3), data.oMf[frame].translation)
            wrench = at_tip.act(pin.Force(F[6 * k + 3:6 * k + 6], F[6 * k:6 * k + 3]))
            on_joint[joint] += data.oMi[joint].actInv(wrench)
        external = pin.StdVec_Force()
        external.extend(on_joint)
        pin.rnea(model, data, full, E @ qd, E @ qdd + self.drift(q, qd), external)
        return {model.names[i]: np.concatenate([data.f[i].angular, data.f[i].linear])
                for i in range(1, model.njoints)}


def random_tree(seed, kinds, branches=(), tips=1, rotors=False, decades=0, straight=False):
    """
    Return a random Tree whose first tip is at the end of a path with the given joints.

    Parameters
    ----------
    seed : int
    kinds : sequence of str
        Types of the joints from the base to the first tip, keys of JOINTS. The prefix 'bare '
        ('bare revolute') gives the joint's last body no mass, 'point ' makes it a point mass.
    branches : sequence of (int, sequence of str)
        For each branch, the joint of the path that it is attached to (-1: the base), and the types
        of its joints. The bodies of path and branches are in random order, parents first.
    tips : int
        Number of tips; the second and later ones are at the ends of the first branches.
    rotors : bool
        Give every joint but the first, the fourth, … a rotor inertia.
    decades : float
        Masses are multiplied by a random power of ten, with an exponent within ± `decades`.
    straight : bool
        Place all bodies along x at q = 0, with quarter turns about x between the joints: the arm
        is then fully stretched.

    """
    rng = np.random.default_rng(seed)
    joints = [[f'joint_{k}', kind, f'joint_{k - 1}' if k else None]
              for k, kind in enumerate(kinds)]
    for b, (host, branch) in enumerate(branches):
        for k, kind in enumerate(branch):
            parent = f'branch_{b}_{k - 1}' if k else f'joint_{host}' if host >= 0 else None
            first = 1 + max((i for i, (name, *_) in enumerate(joints) if name == parent),
                            default=-1)
            joints.insert(int(rng.integers(first, len(joints) + 1)),
                          [f'branch_{b}_{k}', kind, parent])
    ends = [f'joint_{len(kinds) - 1}', *(f'branch_{b}_{len(branch) - 1}'
                                         for b, (_, branch) in enumerate(branches))][:tips]
    model, last = pin.Model(), {None: -1}
    bodies = {'joints': [], 'parent': [], 'prismatic': [], 'spherical': [], 'T_parent_body': [],
              'inertia': []}
    parts = ["<link name='base'/>"]
    pose = _straight_pose if straight else _random_pose
    poses = {name: pose(rng, 0.4) for name, *_ in joints}
    inertias = {name: _random_inertia(rng, kind, decades) for name, kind, _ in joints}
    # Pinocchio's algorithms need the joints of every branch to be consecutive
    for name, kind, parent in _depth_first(joints):
        joint = model.addJoint(model.getJointId(parent) if parent else 0,
                               JOINTS[kind.split()[-1]][0](), pin.SE3(poses[name]), name)
        model.appendBodyToJoint(joint, inertias[name], pin.SE3.Identity())
    for name, kind, parent in joints:
        T, kind = poses[name], kind.split()[-1]
        host, R_last = last[parent], np.eye(3)
        for step, R in JOINTS[kind][1]:
            bodies['joints'].append(name)
            bodies['parent'].append(host)
            bodies['prismatic'].append(step == 'prismatic')
            bodies['spherical'].append(step == 'spherical')
            T_step = np.eye(4)
            T_step[:3, :3] = R_last.T @ R
            bodies['T_parent_body'].append(T @ T_step)
            bodies['inertia'].append(np.zeros((6, 6)))
            host, T, R_last = len(bodies['parent']) - 1, np.eye(4), R
        last[name] = host
        order = [3, 4, 5, 0, 1, 2]
        bodies['inertia'][-1] = inertias[name].matrix()[np.ix_(order, order)]
        parts += _urdf_joint(name, kind, parent, pin.SE3(poses[name]), inertias[name])
    frames = {'base': (-1, np.eye(4)), **{f'{name}_link': (last[name], np.eye(4))
                                          for name, _, _ in joints}}
    for k, end in enumerate(ends):
        T = pose(rng, 0.2)
        model.addFrame(pin.Frame(f'tip_{k}', model.getJointId(end), pin.SE3(T),
                                 pin.FrameType.OP_FRAME))
        frames[f'tip_{k}'] = last[end], T
        parts += [f"<link name='tip_{k}'/><joint name='tip_{k}_joint' type='fixed'>"
                  f"<parent link='{end}_link'/><child link='tip_{k}'/>{_origin(pin.SE3(T))}"
                  '</joint>']
    gravity = np.array([0.0, 0.0, -9.81])
    model.gravity.linear = gravity
    n, found = model.nv, {name: kind.split()[-1] for name, kind, _ in joints}
    driven = {name: rng.uniform(0.05, 0.8, model.nvs[model.getJointId(name)])
              * (rotors and k % 3 > 0) for k, name in enumerate(found)}
    description = bodies | {
        'name': f'tree_{seed}', 'base': 'base', 'tips': tuple(f'tip_{k}' for k in range(tips)),
        'rotor_inertia': np.concatenate(list(driven.values())),
        'position_limits': np.tile([-np.inf, np.inf], (n, 1)),
        'velocity_limits': np.full(n, np.inf), 'effort_limits': np.full(n, np.inf),
        'gravity': gravity, 'frames': frames}
    urdf = f"<robot name='tree_{seed}'>{''.join(parts)}</robot>"
    return Tree(description, model, found, driven,
                None if 'spherical' in found.values() else urdf, tuple(found))


def _depth_first(joints, parent=None):
    for joint in joints:
        if joint[2] == parent:
            yield joint
            yield from _depth_first(joints, joint[0])


def _random_pose(rng, reach):
    T = np.eye(4)
    T[:3, :3] = pin.Quaternion(*(lambda v: v / np.linalg.norm(v))(rng.normal(size=4))).matrix()
    T[:3, 3] = rng.uniform(-reach, reach, 3)
    return T


def _straight_pose(rng, reach):
    T = np.eye(4)
    T[:3, :3] = pin.utils.rotate('x', np.pi / 2 * rng.integers(4)).round()
    T[0, 3] = rng.uniform(0.2 * reach, reach)
    return T


def _random_inertia(rng, kind, decades):
    if 'bare' in kind:
        return pin.Inertia.Zero()
    spread = rng.uniform(0.02, 0.15, 3) ** 2 * ('point' not in kind)
    kilograms = rng.uniform(0.5, 3) * 10 ** rng.uniform(-decades, decades)
    R = _random_pose(rng, 0.0)[:3, :3]
    return pin.Inertia(kilograms, rng.uniform(-0.2, 0.2, 3),
                       R @ np.diag(kilograms * (spread.sum() - spread)) @ R.T)


def _origin(placement):
    rpy = pin.rpy.matrixToRpy(placement.rotation)
    return (f"<origin xyz='{' '.join(repr(float(x)) for x in placement.translation)}' "
            f"rpy='{' '.join(repr(float(x)) for x in rpy)}'/>")


def _urdf_joint(name, kind, parent, placement, inertia):
    own, kind = '', 'continuous' if kind == 'revolute' else kind
    if inertia.mass > 0:
        entries = ' '.join(f"i{'xyz'[a]}{'xyz'[b]}='{float(inertia.inertia[a, b])!r}'"
                           for a in range(3) for b in range(a, 3))
        own = (f'<inertial>{_origin(pin.SE3(np.eye(3), inertia.lever))}'
               f"<mass value='{inertia.mass!r}'/><inertia {entries}/></inertial>")
    return [f"<link name='{name}_link'>{own}</link><joint name='{name}' type='{kind}'>"
            f"<parent link='{f'{parent}_link' if parent else 'base'}'/>"
            f"<child link='{name}_link'/>{_origin(placement)}<axis xyz='0 0 1'/>"
            "<limit lower='-9' upper='9' velocity='9' effort='9'/></joint>"]
