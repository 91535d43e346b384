# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Parallel gripper of a simulated arm: two fingers that grasp by contact and friction."""

from __future__ import annotations

from dataclasses import dataclass
import math
from typing import Any
from xml.etree import ElementTree

import mujoco
import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from osc_ros.errors import InputError, ModelError
from osc_ros.model.gripper_state import GripperState, HandGoal
from osc_ros.model.origin import origin_pose
from osc_ros.sim.mjcf.parts import STOP_IMPEDANCE
from osc_ros.sim.plant import Plant

Array = NDArray[np.float64]

FINGERS = {'panda': ('panda_finger_joint1', 'panda_finger_joint2'),
           'fr3': ('fr3_finger_joint1', 'fr3_finger_joint2')}  # of robots in this package
STIFFNESS = 1e4  # of the position servo [N/m]
INERTIA = 0.25  # reflected drive inertia at each finger, without weight [kg]
DAMPING = 2.0 * math.sqrt(STIFFNESS * INERTIA / 2.0)  # critical damping of the servo [N s/m]
GRIP = 0.8  # friction coefficient of the fingers
FRICTION_RATIO = 10.0  # MuJoCo's impratio: stiffness of friction relative to the normal
ACTUATOR = 'hand'  # name of tendon and actuator


@dataclass(frozen=True, eq=False)
class Finger:
    """One finger of a URDF."""

    joint: str
    link: str
    origin: Array  # (3,) position of the closed finger in its parent link [m]
    axis: Array  # (3,) direction of opening there
    stroke: float  # [m]
    # contact boxes in the link: position (3,) [m], quaternion w x y z, half sizes (3,) [m]
    boxes: list[tuple[Array, Array, Array]]


class Hand:
    """
    Two fingers with one drive, which controls the width between them.

    The drive is a position servo with a speed and a force limit. The fingers start open. Their
    contact shapes are the boxes of the links in the URDF.

    >>> hand = Hand(urdf, FINGERS['panda'])                        # doctest: +SKIP
    >>> plant = Plant(urdf, …, furnish=hand.add)
    >>> hand.move(HandGoal(0.0, force=40.0))
    >>> hand.advance(plant, 0.002)                                 # before every step
    >>> plant.step(tau, 2)

    Attributes
    ----------
    widest : float [m]
    goal : HandGoal

    Parameters
    ----------
    urdf_text : str
    joints : two str
        Prismatic joints with a common parent, which open in opposite directions from 0.

    Raises
    ------
    InputError, ModelError
        The URDF has no such joints.

    """

    def __init__(self, urdf_text: str, joints: tuple[str, str]) -> None:
        root = ElementTree.fromstring(urdf_text)
        self._fingers = [_finger(root, joint) for joint in joints]
        left, right = self._fingers
        if left.axis @ right.axis > -0.999 or left.link == right.link:
            raise ModelError(f"hand: joints '{left.joint}' and '{right.joint}' do not open in "
                             'opposite directions')
        self.widest = left.stroke + right.stroke
        self._seen: mujoco.MjData | None = None  # state to which `_arrays` belongs
        self._begin()

    def _begin(self) -> None:
        self.goal = HandGoal(self.widest)
        self._set_point, self._time = self.widest, 0.0

    def add(self, spec: mujoco.MjSpec) -> None:
        """Add joints, contacts and drive to a specification (parameter `furnish` of `Plant`)."""
        spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC  # with pyramids a held body creeps
        spec.option.impratio = FRICTION_RATIO
        stiff = (2.0 * spec.option.timestep, 1.0)
        tendon = spec.add_tendon(name=ACTUATOR)
        for finger in self._fingers:
            body = spec.body(finger.link)
            body.pos = finger.origin + finger.stroke * finger.axis  # position at `ref`
            body.add_joint(name=finger.joint, type=mujoco.mjtJoint.mjJNT_SLIDE,
                           axis=finger.axis, range=[0.0, finger.stroke], limited=True,
                           ref=finger.stroke, armature=INERTIA, solref_limit=stiff,
                           solimp_limit=STOP_IMPEDANCE)
            for position, quaternion, half in finger.boxes:
                body.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, pos=position, quat=quaternion,
                              size=half, mass=0.0, condim=4, friction=[GRIP, 0.005, 1e-4],
                              priority=2, solref=stiff, solimp=STOP_IMPEDANCE)
            tendon.wrap_joint(finger.joint, 1.0)
        left, right = self._fingers
        coupling = spec.add_equality(name=ACTUATOR, type=mujoco.mjtEq.mjEQ_JOINT,
                                     name1=right.joint, name2=left.joint, solref=stiff,
                                     objtype=mujoco.mjtObj.mjOBJ_JOINT)
        # polynomial of the distances from `ref`; its length depends on the MuJoCo version
        coupling.data = [0.0, right.stroke / left.stroke, *[0.0] * (len(coupling.data) - 2)]
        spec.add_actuator(name=ACTUATOR, target=ACTUATOR,
                          trntype=mujoco.mjtTrn.mjTRN_TENDON,
                          gaintype=mujoco.mjtGain.mjGAIN_FIXED,
                          biastype=mujoco.mjtBias.mjBIAS_AFFINE,
                          gainprm=[STIFFNESS, *[0.0] * 9],
                          biasprm=[0.0, -STIFFNESS, -DAMPING, *[0.0] * 7])

    def move(self, goal: HandGoal) -> None:
        """
        Set a goal; at an object, the fingers stop and press with the force of the goal.

        Raises
        ------
        InputError
            The goal is out of range; the old goal stays.

        """
        goal.require_within(self.widest)
        self.goal = goal

    def advance(self, plant: Plant, period: float) -> None:
        """Move the set-point of the drive by one period [s]; call it before each step."""
        if plant.time < self._time:  # after a reset
            self._begin()
        self._time = plant.time
        width, goal = self._width(plant), self.goal
        # with a closed goal, the drive presses the fingers together with its force
        end = goal.width if goal.width > 0.0 else -goal.force / STIFFNESS
        step, reach = goal.speed * period, goal.force / STIFFNESS
        moved = min(max(end, self._set_point - step), self._set_point + step)
        self._set_point = min(max(moved, width - reach), width + reach)
        self._views(plant)[2][0][0] = self._set_point

    def _views(self, plant: Plant) -> tuple[list[Array], list[Array], Any]:
        """Return views of the fingers' positions and velocities, and of the drive."""
        data = plant.data
        if self._seen is not data:  # a look-up by name takes longer than a physics step
            joints = [data.joint(finger.joint) for finger in self._fingers]
            drive = data.actuator(ACTUATOR)
            self._seen, self._arrays = data, (
                [joint.qpos for joint in joints], [joint.qvel for joint in joints],
                (drive.ctrl, drive.force))
        return self._arrays

    def _width(self, plant: Plant) -> float:
        left, right = self._views(plant)[0]
        return float(left[0] + right[0])

    def state(self, plant: Plant) -> GripperState:
        """Return the state of the hand in a plant."""
        _, (left, right), (_, force) = self._views(plant)
        return GripperState(self._width(plant), float(left[0] + right[0]), -float(force[0]),
                            self.goal.width, self.goal.force)


def hand_of(urdf_text: str, joints: tuple[str, ...]) -> Hand | None:
    """Return the hand with two finger joints; None if `joints` is empty."""
    # InputError if the number of joints is wrong, and the errors of `Hand`
    if not joints:
        return None
    if len(joints) != 2:
        raise InputError(f"a hand has two finger joints: given are {', '.join(joints)}")
    return Hand(urdf_text, (joints[0], joints[1]))


def _finger(root: ElementTree.Element, name: str) -> Finger:
    joint = root.find(f"joint[@name='{name}']")
    if joint is None or joint.get('type') != 'prismatic':
        raise InputError(f"hand: '{name}' is not a prismatic joint of the robot description")
    link = _of(joint, 'child', 'link')
    position, R = _placed(joint)
    lower, upper = (float(_of(joint, 'limit', end, '0')) for end in ('lower', 'upper'))
    if not (lower == 0.0 < upper):
        raise ModelError(f"hand: joint '{name}' has limits {lower} to {upper}; must be from 0 m, "
                         'closed, to its stroke')
    axis = R.apply(_numbers(_of(joint, 'axis', 'xyz', '1 0 0')))
    body = root.find(f"link[@name='{link}']")
    shapes: list[Any] = [] if body is None else body.findall('collision') or body.findall('visual')
    boxes = []
    for shape in shapes:
        box = shape.find('geometry/box')
        if box is not None:
            at, turn = _placed(shape)
            boxes.append((at, turn.as_quat()[[3, 0, 1, 2]],
                          0.5 * _numbers(box.get('size', ''))))
    if not boxes:
        raise ModelError(f"hand: link '{link}' has no box, by which it could grasp, among its "
                         'shapes')
    return Finger(name, link, position, axis / np.linalg.norm(axis), upper, boxes)


def _placed(element: ElementTree.Element) -> tuple[Array, Rotation]:
    """Return position and rotation of <origin>."""
    T = origin_pose(element)
    return T[:3, 3], Rotation.from_matrix(T[:3, :3])


def _of(element: ElementTree.Element, tag: str, attribute: str, absent: str = '') -> str:
    child = element.find(tag)
    return absent if child is None else child.get(attribute, absent)


def _numbers(text: str) -> Array:
    return np.array(text.split(), dtype=np.float64)
