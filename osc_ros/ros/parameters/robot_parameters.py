# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Parameters that describe the robot and its load, and the `Robot` built from them."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.model_error.driver import COMPENSATES
from osc_ros.control.tasks.task import pose
from osc_ros.errors import InputError, ModelError, similar
from osc_ros.model.files import file_text
from osc_ros.model.robot import Robot
from osc_ros.model.urdf import near, pair, robot_element
from osc_ros.model.validation import require_compact
from osc_ros.ros.parameters.parameters import Entry
from osc_ros.sim.plant_payload import with_payload as with_payload_link

Array = NDArray[np.float64]

PAIR = 'dual_panda'  # two Pandas; the URDF is composed from that of one


def shipped_robots() -> list[str]:
    """Return the names of the robots in the folder osc_ros/robots."""
    return sorted(entry.name.removesuffix('.urdf')
                  for entry in files('osc_ros').joinpath('robots').iterdir()
                  if entry.name.endswith('.urdf'))


ENTRIES = (
    Entry('robot_description', '', 'URDF text; takes precedence over robot_description_file'),
    Entry('robot_description_file', '', 'Path of a URDF, or the name of a robot of this package: '
          + ', '.join([*shipped_robots(), PAIR]), fixed=True),
    Entry('base', '', 'Link that is fixed to the ground; its axes are those of the task'),
    Entry('tip', '', 'Link whose pose is controlled'),
    Entry('further_tips', (), 'Further links, such as the tip of a second arm; the robot is the '
          'tree of joints from the base to all tips', of=str),
    Entry('locked_joints', (), 'Joints that do not move', of=str),
    Entry('locked_positions', (), 'Positions of locked_joints [rad, m], one each; empty: all 0'),
    Entry('rotor_inertia', (), 'Reflected rotor inertia of every moving joint, base first '
          '[kg m²]; empty: 0', lower=0.0),
    Entry('joint_order', (), 'Order of the joints in the command; empty: from base to tip, '
          'branches in the order of the robot description', of=str),
    Entry('gravity', (0.0, 0.0, -9.81), 'Gravity in the base frame [m/s²]; for an arm on a '
          'ceiling: 0 0 9.81', lower=-1e3, upper=1e3, size=3),
    Entry('driver_compensates', 'none', 'What the driver itself adds to the commanded torques, '
          'computed for the robot as described', choices=COMPENSATES,
          when='the driver of your arm adds the torques of gravity, as that of a Franka does'),
)


def urdf_text(name: str) -> str:
    """Return the text of a URDF file, or of a shipped robot by its name; or raise InputError."""
    if name == PAIR:
        return pair(urdf_text('panda'))
    if name in shipped_robots():
        return files('osc_ros').joinpath('robots', f'{name}.urdf').read_text(encoding='utf-8')
    known = [*shipped_robots(), PAIR]
    near = similar(name.lower(), known, 1)
    accepted = f"the path of a URDF, or one of: {', '.join(known)}" + (
        f"; did you mean '{near[0]}'?" if near else '')
    try:
        return file_text(Path(name).expanduser(), 'a URDF', 'robot_description_file', accepted)
    except ModelError as error:
        raise InputError(str(error)) from None
    except RuntimeError as error:  # an unknown user
        raise InputError(f"robot_description_file '{name}' cannot be read ({error}): give "
                         f'{accepted}') from None


def folder(values: dict[str, Any]) -> Path | None:
    """Return the folder of the URDF file, to find its meshes; None if there is no file."""
    file = Path(values['robot_description_file']).expanduser()
    return file.parent if values['robot_description_file'] and file.is_file() else None


def description(values: dict[str, Any], received: str = '') -> str:
    """Return the URDF text from the parameters, or else from the topic; InputError without one."""
    if values['robot_description']:
        return str(values['robot_description'])
    if values['robot_description_file']:
        return urdf_text(values['robot_description_file'])
    if received:
        return received
    raise InputError("no robot: set parameter 'robot_description' or 'robot_description_file', or "
                     "publish a URDF on topic 'robot_description'")


def robot(values: dict[str, Any], text: str) -> Robot:
    """Return the robot between the base and the tips that the parameters name."""
    # InputError for an error in the parameters, ModelError for one in the URDF
    robot_element(text)  # raises if this is no URDF, such as a path that another node has sent
    for name in ('base', 'tip'):
        if not values[name]:
            raise InputError(f"parameter '{name}' is empty: give the name of a link")
    tips = [values['tip'], *values['further_tips']]
    return Robot.from_urdf(text, values['base'], tips,
                           rotor_inertia=values['rotor_inertia'] or None,
                           locked=locked_positions(values), gravity=values['gravity'])


LOAD_ENTRIES = (
    Entry('payload.mass', 0.0, 'Mass of the payload, in addition to the robot description [kg]; '
          'refused if holding it in the present pose takes more than 90 % of limits.effort',
          lower=0.0, upper=1e4, live=True, when='the arm carries something'),
    Entry('payload.center_of_mass', (0.0, 0.0, 0.0), 'Centre of mass of the payload in the '
          'frame of payload.link [m]', lower=-1e2, upper=1e2, size=3, live=True),
    Entry('payload.inertia', (0.0,) * 6, 'xx xy xz yy yz zz about its centre of mass, in the axes '
          'of payload.link [kg m²]', lower=-1e4, upper=1e4, size=6, live=True),
    Entry('payload.link', '', "Link that the payload is fixed to; empty: 'tip'", live=True),
    Entry('payload.known_to_driver', False, 'true: the driver has the payload too, and '
          'compensates it like the robot', live=True),
    Entry('tool.position', (0.0, 0.0, 0.0), "Controlled point, in the frame of 'tip' [m]",
          lower=-2.0, upper=2.0, size=3, live=True),
    Entry('tool.orientation', (0.0, 0.0, 0.0, 1.0), 'Axes of the controlled point in the frame of '
          "'tip', quaternion x y z w", size=4, live=True),
)


SIMULATED_PAYLOAD = (
    Entry('payload.mass', 0.0, 'Mass of the payload that the simulated arm carries, in addition '
          'to the robot description [kg]; its driver knows it, if driver_compensates is not none',
          lower=0.0, upper=1e4),
    *(replace(entry, live=False) for entry in LOAD_ENTRIES[1:4]),
)


def with_simulated_payload(values: dict[str, Any], text: str, bare: Robot) -> str:
    """Return the URDF text; if the simulated arm has a payload, a link is added for it."""
    link = _payload_link(values, bare)
    return with_payload_link(text, link or bare.tip, values)


def with_load(values: dict[str, Any], bare: Robot) -> tuple[Robot, Robot]:
    """Return the robot with payload, tool and gravity, and the robot that its driver assumes."""
    known = bare.with_gravity(values['gravity'])
    robot = with_payload(values, known)
    if values['payload.known_to_driver']:
        known = robot
    T = pose(values['tool.position'], values['tool.orientation'])
    return robot if np.array_equal(T, np.eye(4)) else robot.with_tool(T), known


def _payload_link(values: dict[str, Any], bare: Robot) -> str:
    """Return the parameter payload.link; raise InputError if the robot has no such link."""
    link = str(values['payload.link'])
    if link and link not in bare.frames:
        raise InputError(f"parameter 'payload.link': '{link}' is not a link of robot "
                         f"'{bare.name}'; {near(link, bare.frames)}")
    return link


def with_payload(values: dict[str, Any], bare: Robot) -> Robot:
    """Return the robot with its payload."""
    link = _payload_link(values, bare)
    xx, xy, xz, yy, yz, zz = values['payload.inertia']
    if not (values['payload.mass'] > 0.0 or any(values['payload.inertia'])):
        return bare
    mass, inertia = values['payload.mass'], np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    center = np.array(values['payload.center_of_mass'])
    require_compact(mass, center, inertia)
    return bare.with_payload(mass, center, inertia, link or None)


def command_order(values: dict[str, Any], robot: Robot) -> NDArray[np.intp]:
    """Return the joint index (n,) of each entry of a command; InputError for other joints."""
    joints = values['joint_order'] or robot.joint_names
    if sorted(joints) != sorted(robot.joint_names):
        raise InputError(f"parameter 'joint_order' is {list(joints)}: give the joints "
                         f"from '{robot.base}' to {', '.join(map(repr, robot.tips))} in any "
                         'order: ' + ', '.join(robot.joint_names))
    return np.array([robot.joint_names.index(name) for name in joints])


def command_shares(order: NDArray[np.intp], robot: Robot) -> list[NDArray[np.intp]]:
    """Return for each tip the part of `order` with the joints between the base and this tip."""
    # InputError if a joint leads to several tips
    chains: list[list[int]] = []
    for tip in robot.tips:
        chain, body = [], robot.frames[tip][0]
        while body >= 0:
            chain.append(body)
            body = int(robot.parent[body])
        for other, known in zip(robot.tips, chains):
            for body in set(chain) & set(known):
                raise InputError(f"joint '{robot.joints[body]}' leads to '{other}' and to '{tip}':"
                                 ' give commands by tip only to arms without a joint in common')
        chains.append(chain)
    return [order[np.isin(order, chain)] for chain in chains]


def per_joint(values: dict[str, Any], name: str, default: Any, robot: Robot) -> Array:
    """Return a parameter (n,), base first, or its default if empty; InputError if not n long."""
    if not values[name]:
        return np.array(default, dtype=np.float64)
    if len(values[name]) != robot.n:
        raise InputError(f"parameter '{name}' has {len(values[name])} entries: give one "
                         f"for each of {', '.join(robot.joint_names)}, or none")
    return np.array(values[name], dtype=np.float64)


def locked_positions(values: dict[str, Any]) -> dict[str, float]:
    """Return the positions of the locked joints by name [rad, m], 0 by default."""
    names, positions = values['locked_joints'], values['locked_positions']
    if positions and len(positions) != len(names):
        raise InputError(f"parameter 'locked_positions' has {len(positions)} entries and "
                         f"'locked_joints' {len(names)}: give one each, or none")
    return dict(zip(names, positions or (0.0,) * len(names)))
