"""
Pinocchio as the judge of osc_ros, and the robots that they are judged on.

Nothing of osc_ros is imported here: what a mimic joint does, which joints are held and where the
base is are worked out a second time, from the XML and by Pinocchio.
"""

from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import files
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pinocchio as pin

SHIPPED_PANDA = Path(__file__).parents[1] / 'osc_ros' / 'robots' / 'panda.urdf'


@dataclass(frozen=True)
class Case:
    """A robot to be judged on: `Robot.from_urdf(case.urdf_text, case.base, case.tip, …)`."""

    urdf_text: str
    base: str
    tip: str
    locked: dict[str, float] = field(default_factory=dict)


def pinocchio_model(urdf_text, base, tip, joint_names, locked=None):
    """
    Return (model, data, frame_id): Pinocchio's view of the chain from `base` to `tip`.

    All joints but `joint_names` (in path order, as in `Robot.joint_names`) are locked, at their
    values in `locked`, a mimic joint where its source puts it, else at 0, and their bodies lumped.
    The world of the model is the frame of `base`, with everything above it at rest, so that poses
    (`data.oMf`), LOCAL_WORLD_ALIGNED Jacobians and gravity (0, 0, -9.81) compare without a change
    of frame. Positions go in by `configuration(model, q)`; set `model.armature` for rotor inertia.
    """
    model = pin.buildModelFromXML(urdf_text)
    held = pin.neutral(model)
    values = _held_values(urdf_text, set(joint_names), dict(locked or {}))
    for joint, value in values.items():
        if model.existJointName(joint):
            _put(held, model, model.getJointId(joint), value)
    ids = [i for i in range(1, model.njoints) if model.names[i] not in joint_names]
    # A link of the same name as a joint would keep the joint from being found.
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
    """Return the robots to judge on, by name; read once."""
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
    # The package is data: where its files lie is known without importing it.
    robots = 'example-robot-data/robots/'
    for file in files('example-robot-data') or ():
        if str(file).endswith(f'{robots}{name}.urdf'):
            return Path(file.locate()).read_text()
    raise FileNotFoundError(f'example-robot-data has no {robots}{name}.urdf')


def random_urdf(seed, n):
    """
    Return a tree of `n` moving joints from 'link_0' to 'tool', any axis, every origin with rpy.

    Joint k moves 'link_k'; one in four is prismatic, one in four continuous. A fixed or a
    revolute branch, 'branch_joint_k', hangs from every link.
    """
    rng = np.random.default_rng(seed)

    def words(values):
        return ' '.join(repr(float(value)) for value in values)

    def origin(reach):
        return (f"<origin xyz='{words(rng.uniform(-reach, reach, 3))}' "
                f"rpy='{words(rng.uniform(-3, 3, 3))}'/>")

    def link(name):
        # Moments of a cloud of points: the triangle inequality holds.
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
    """Return an arm of seven joints laid out as the KUKA LBR iiwa 14, with rods for bodies."""
    # height of the joint above the last one [m], its rpy, mass [kg] and length of its rod [m]
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
        # The even joints' origins lie along the last link's z, the odd ones' along its y.
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
