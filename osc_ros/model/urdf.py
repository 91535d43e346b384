# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Reads the text of a URDF into arrays.

This module refuses descriptions that are wrong for every choice of base and tip, and names the
joint or link. `osc_ros.model.assembly` and `osc_ros.model.robot` check the moving bodies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
import os
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from osc_ros.errors import ModelError, similar
from osc_ros.model.files import urdf_text
from osc_ros.model.joint_types import JOINT_TYPES, OF_ONE_FREEDOM
from osc_ros.model.origin import numbers, origin, poses
from osc_ros.model.understood import REPEATED, require_known, UNDERSTOOD, unused_parts

Array = NDArray[np.float64]

APART = 0.6  # distance of the two arms of `pair` [m]
SIDES = 'left_', 'right_'  # prefixes of the names in the two arms of `pair`
FULL_TURN = 6.3  # rounded up [rad]
XACRO = 'this is xacro, not URDF; expand it: xacro FILE > arm.urdf'


@dataclass(frozen=True)
class Mimic:
    """Law of a mimic joint: position = multiplier * position of source + offset [rad, m]."""

    source: int
    multiplier: float
    offset: float


@dataclass(frozen=True, eq=False)
class Description:
    """The tree of links in a URDF, root first and every parent before its children."""

    # Entry i of every sequence belongs to link i and to the joint that carries it. No joint
    # carries the root; its joint name is '' and its kind 'fixed'.

    name: str
    links: tuple[str, ...]
    joints: tuple[str, ...]
    kinds: tuple[str, ...]
    parent: NDArray[np.intp]  # (m,) index of the joint's parent link; -1 for the root
    T_parent_link: Array  # (m, 4, 4) pose of the link in its parent's frame, joint at zero [m]
    axis: Array  # (m, 3) unit joint axis in the link's frame
    # (m, 6, 6) spatial inertia [angular; linear] about the link's origin, in its frame; zero
    # without <inertial> [kg m², kg m, kg]
    inertia: Array
    moments: Array  # (m, 3) principal moments of the <inertia> tensor, ascending [kg m²]
    position_limits: Array  # (m, 2) [rad, m]; infinite if missing, as are all limits
    velocity_limits: Array  # (m,) [rad/s, m/s]
    effort_limits: Array  # (m,) [N·m, N]
    deceleration_limits: Array  # (m,) [rad/s², m/s²]
    coulomb_friction: Array  # (m,) friction of <dynamics> [N·m, N]; zero if missing
    viscous_friction: Array  # (m,) damping of <dynamics> [N·m·s/rad, N·s/m]; zero if missing
    mimics: Mapping[int, Mimic]  # by the index of the link that the mimic joint carries
    # sentences on parts of links and joints that this package does not use
    unused: tuple[str, ...]
    turned: tuple[str, ...]  # sentences on angles of origins that are probably in degrees
    shaped: NDArray[np.bool_]  # (m,) whether the link has a visual or collision shape
    soft_limits: Array  # (m, 2) of <safety_controller> [rad, m]; infinite if missing


def description(text: str) -> Description:
    """Return the tree of links in a URDF."""
    # ModelError: the text is not a URDF with one tree of links, or a number is not valid
    robot = robot_element(text)
    links = _named(robot, 'link')
    joints = _named(robot, 'joint')
    if not links:
        raise ModelError('the URDF has no <link>')
    order, carrier = _tree(links, joints)
    carriers = [carrier.get(link) for link in order]
    index = {link: i for i, link in enumerate(order)}
    joint_index = {joint: i for i, joint in enumerate(carriers) if joint is not None}
    elements = [None if joint is None else joints[joint] for joint in carriers]
    kinds = tuple('fixed' if e is None else e.attrib['type'] for e in elements)
    parent = [-1 if e is None else index[_link_of(e, 'parent')] for e in elements]
    limits = np.array([_limits(e) for e in elements])
    friction = np.array([_friction(e) for e in elements])
    inertia, moments = _inertias(order, [links[link] for link in order])
    return Description(
        name=robot.get('name', ''),
        links=tuple(order),
        joints=tuple(joint or '' for joint in carriers),
        kinds=kinds,
        parent=np.array(parent, dtype=np.intp),
        T_parent_link=poses([(0.0,) * 6 if e is None else origin(e, _label(e))
                              for e in elements]),
        axis=np.array([_axis(e) for e in elements]),
        inertia=inertia,
        moments=moments,
        position_limits=limits[:, :2],
        velocity_limits=limits[:, 2],
        effort_limits=limits[:, 3],
        deceleration_limits=limits[:, 4],
        coulomb_friction=friction[:, 0],
        viscous_friction=friction[:, 1],
        mimics=_mimics(elements, joint_index),
        unused=tuple(unused_parts(robot)),
        turned=tuple(_turned(robot)),
        shaped=np.array([links[link].find('visual') is not None
                         or links[link].find('collision') is not None for link in order]),
        soft_limits=np.array([_soft_limits(e) for e in elements]),
    )


def pair(urdf: str | os.PathLike[str]) -> str:
    """Return a URDF with two copies of an arm side by side, prefixes 'left_' and 'right_'."""
    # Both are mounted on the link 'pedestal', whose origin is midway between them, with y to the
    # left. `urdf` is a text or a path; ModelError if it is not a URDF with one tree of links.
    text = urdf_text(urdf)
    both = ElementTree.Element('robot', name=f"dual_{robot_element(text).get('name', '')}")
    both.extend(robot_element(text).findall('material'))
    pedestal = ElementTree.SubElement(both, 'link', name='pedestal')
    for side, y in zip(SIDES, (APART / 2, -APART / 2)):
        arm = robot_element(text)
        links, joints = _named(arm, 'link'), _named(arm, 'joint')
        root = _tree(links, joints)[0][0]
        for named in (*links.values(), *joints.values()):
            both.append(named)
            for element, key in ((named, 'name'), (named.find('parent'), 'link'),
                                 (named.find('child'), 'link'), (named.find('mimic'), 'joint')):
                if element is not None:
                    element.set(key, f'{side}{element.get(key)}')
        mount = ElementTree.SubElement(both, 'joint', name=f'{side}mount', type='fixed')
        ElementTree.SubElement(mount, 'parent', link='pedestal')
        ElementTree.SubElement(mount, 'child', link=f'{side}{root}')
        ElementTree.SubElement(mount, 'origin', xyz=f'0 {y} 0')
    visual = ElementTree.SubElement(pedestal, 'visual')
    ElementTree.SubElement(visual, 'origin', xyz=f'0 0 {-APART / 2}')
    ElementTree.SubElement(ElementTree.SubElement(visual, 'geometry'), 'box',
                           size=f'{APART / 2} {1.5 * APART} {APART}')
    return ElementTree.tostring(both, encoding='unicode')


def near(name: str, known: Iterable[str], limit: int = 20) -> str:
    """Return a hint for an error message: names similar to `name`, or else known names."""
    known = list(known)
    if close := similar(name, known):
        return 'did you mean ' + ' or '.join(f"'{match}'" for match in close) + '?'
    more = f' and {len(known) - limit} more' if len(known) > limit else ''
    return f'known: {quoted(known[:limit])}{more}'


def quoted(names: Iterable[str]) -> str:
    """Return the names in quotation marks, separated by commas."""
    return ', '.join(f"'{name}'" for name in names) or 'none'


def robot_element(text: str) -> ElementTree.Element:
    """Return the root element of a URDF; ModelError if the text is not the XML of a URDF."""
    if not isinstance(text, str):
        raise ModelError(f'the URDF must be a str of XML, not {type(text).__name__}')
    body = text.lstrip('\ufeff \t\r\n')  # expat accepts nothing before the XML declaration
    if not body:
        raise ModelError('the URDF text is empty')
    if '<!ENTITY' in body:  # a few lines of them can expand to gigabytes
        raise ModelError('the URDF declares XML entities (<!ENTITY …>): give a URDF '
                         f'without them; {XACRO}')
    try:
        robot = ElementTree.fromstring(body)
    except ElementTree.ParseError as error:
        line, column = error.position
        line += text[:len(text) - len(body)].count('\n')
        reason = str(error).split(':')[0]
        raise ModelError(
            f'the URDF does not parse as XML: {reason} (line {line}, column {column + 1})'
            + _parse_hint(body)) from None
    for element in robot.iter():
        if isinstance(element.tag, str) and element.tag.startswith('{') and 'xacro' in element.tag:
            raise ModelError(
                f"the URDF holds <xacro:{element.tag.rpartition('}')[2]}>: {XACRO}")
    if robot.tag != 'robot':
        raise ModelError(f"the root element is <{robot.tag}>, a URDF's is <robot>")
    for part in (part for part in robot if part.tag in ('link', 'joint')):
        for element in part.iter():
            tags = [child.tag for child in element if child.tag not in REPEATED]
            for tag in dict.fromkeys(tags):
                if tags.count(tag) > 1 and element.tag in (*UNDERSTOOD, *REPEATED):
                    raise ModelError(f'{_label(part)} has {tags.count(tag)} <{tag}>'
                                     + (f' in its <{element.tag}>' if element is not part else '')
                                     + ': give one')
            for name, value in element.items():
                if '${' in value or '$(' in value:
                    raise ModelError(f"{_label(part)}: <{element.tag} {name}='{value}'>: {XACRO}")
    return robot


def named_in(text: str) -> set[str]:
    """Return the names of all elements of a URDF, such as links; an empty set for other text."""
    try:
        return {element.get('name', '') for element in robot_element(text)}
    except ModelError:
        return set()


def _parse_hint(body: str) -> str:
    if not body.startswith('<'):
        return f'; it begins {body[:40]!r}' + (
            '' if '\n' in body else
            ': give the text of a URDF, or the path of its file with the ending, such as '
            "'arm.urdf'; for a robot of osc_ros, shipped_urdf('panda')")
    if '<xacro:' in body:
        return f'; it holds xacro elements: {XACRO}'
    return ''


def _label(element: ElementTree.Element) -> str:
    return f"{element.tag} '{element.get('name')}'"


def _named(robot: ElementTree.Element, tag: str) -> dict[str, ElementTree.Element]:
    found: dict[str, ElementTree.Element] = {}
    for number, element in enumerate(robot.findall(tag), 1):
        name = element.get('name')
        if not name:
            raise ModelError(f'<{tag}> number {number} has no name')
        if name in found:
            raise ModelError(f"two {tag}s have the name '{name}': names must be unique")
        found[name] = element
    return found


def _link_of(joint: ElementTree.Element, role: str) -> str:
    element = joint.find(role)
    link = None if element is None else element.get('link')
    if link is None:
        raise ModelError(f"{_label(joint)} has no <{role} link='…'>")
    return link


def _tree(
    links: Mapping[str, ElementTree.Element], joints: Mapping[str, ElementTree.Element],
) -> tuple[list[str], dict[str, str]]:
    """Return the links in tree order, and the joint that carries each link but the root."""
    carrier: dict[str, str] = {}
    children: dict[str, list[str]] = {link: [] for link in links}
    for name, joint in joints.items():
        if joint.get('type') not in JOINT_TYPES:
            raise ModelError(f"joint '{name}': type '{joint.get('type')}' is unknown "
                             f"({', '.join(JOINT_TYPES)})")
        parent, child = _link_of(joint, 'parent'), _link_of(joint, 'child')
        for role, link in (('parent', parent), ('child', child)):
            if link not in links:
                raise ModelError(
                    f"joint '{name}': its {role} link '{link}' is not in the URDF; "
                    + near(link, links))
        if child in carrier:
            raise ModelError(
                f"link '{child}' is the child of two joints, '{carrier[child]}' and '{name}': "
                'a link has one parent at most (closed loops are not supported)')
        carrier[child] = name
        children[parent].append(child)
    roots = [link for link in links if link not in carrier]
    if len(roots) > 1:
        raise ModelError(
            f'the URDF has {len(roots)} root links, {quoted(roots[:20])}'
            f"{' …' if len(roots) > 20 else ''}: a joint must carry each of them but one")
    order: list[str] = []
    waiting = roots
    while waiting:
        link = waiting.pop()
        order.append(link)
        waiting.extend(reversed(children[link]))
    if len(order) < len(links):
        reached = set(order)
        lost = next(link for link in links if link not in reached)
        raise ModelError(f'the joints {quoted(_cycle(lost, carrier, joints))} form a cycle: '
                         'the links must form a tree')
    return order, carrier


def _cycle(
    link: str, carrier: Mapping[str, str], joints: Mapping[str, ElementTree.Element],
) -> list[str]:
    """Return the joints of the cycle among the ancestors of `link`, parent first."""
    above: dict[str, None] = {}
    while carrier[link] not in above:
        above[carrier[link]] = None
        link = _link_of(joints[carrier[link]], 'parent')
    way = list(above)
    return way[way.index(carrier[link]):][::-1]


def _child(element: ElementTree.Element, tag: str, where: str) -> ElementTree.Element:
    child = element.find(tag)
    if child is None:
        raise ModelError(f'{where} has no <{tag}>')
    return child


def _axis(joint: ElementTree.Element | None) -> Array:
    element = None if joint is None else joint.find('axis')
    if joint is None or element is None or not JOINT_TYPES[joint.attrib['type']].has_axis:
        return np.array([1.0, 0.0, 0.0])
    axis = np.array(numbers(element, 'xyz', _label(joint), '1 0 0', 3))
    largest = np.abs(axis).max()
    if largest == 0:
        raise ModelError(f"{_label(joint)}: its axis '{element.get('xyz')}' has length zero")
    axis /= largest
    unit: Array = axis / np.linalg.norm(axis)
    return unit


def _limits(joint: ElementTree.Element | None) -> tuple[float, ...]:
    """Return the limits: lower, upper, velocity, effort, deceleration; infinite if missing."""
    limit = None if joint is None else joint.find('limit')
    if joint is None or limit is None or joint.get('type') not in OF_ONE_FREEDOM:
        return -np.inf, np.inf, np.inf, np.inf, np.inf
    where = _label(joint)
    lower, upper = -np.inf, np.inf
    has_range = JOINT_TYPES[joint.attrib['type']].has_range
    if has_range and ('lower' in limit.attrib or 'upper' in limit.attrib):
        (lower,) = numbers(limit, 'lower', where, '0')
        (upper,) = numbers(limit, 'upper', where, '0')
        if lower > upper:
            raise ModelError(f'{where}: its lower limit {lower:g} is above its upper {upper:g}')
    (velocity,) = numbers(limit, 'velocity', where, '0')
    (effort,) = numbers(limit, 'effort', where, '0')
    (deceleration,) = numbers(limit, 'deceleration', where, '0')
    if velocity < 0 or effort < 0 or deceleration < 0:
        raise ModelError(f'{where}: its limits of velocity {velocity:g}, effort {effort:g} and '
                         f'deceleration {deceleration:g} must not be negative (0: unlimited)')
    return lower, upper, velocity or np.inf, effort or np.inf, deceleration or np.inf


def _soft_limits(joint: ElementTree.Element | None) -> tuple[float, float]:
    """Return the soft limits of <safety_controller>; infinite if missing."""
    soft = None if joint is None else joint.find('safety_controller')
    if joint is None or soft is None or not (
            'soft_lower_limit' in soft.attrib or 'soft_upper_limit' in soft.attrib):
        return -np.inf, np.inf
    (low,), (high,) = (numbers(soft, f'soft_{end}_limit', _label(joint), '0')
                       for end in ('lower', 'upper'))
    return low, high


def _turned(robot: ElementTree.Element) -> list[str]:
    """Return a sentence for each <origin> of a link or joint with an angle above a full turn."""
    found = []
    for part in (part for part in robot if part.tag in ('link', 'joint')):
        for at in part.iter('origin'):
            angles = numbers(at, 'rpy', _label(part), '0 0 0', 3)
            if max(map(abs, angles)) > FULL_TURN:
                found.append(f"{_label(part)}: <origin rpy='{at.get('rpy')}'>: degrees? A URDF "
                             'has radians')
    return found


def _friction(joint: ElementTree.Element | None) -> tuple[float, float]:
    """Return friction and damping of <dynamics>; zero if missing."""
    dynamics = None if joint is None else joint.find('dynamics')
    if joint is None or dynamics is None or joint.get('type') not in OF_ONE_FREEDOM:
        return 0.0, 0.0
    where = _label(joint)
    (coulomb,) = numbers(dynamics, 'friction', where, '0')
    (viscous,) = numbers(dynamics, 'damping', where, '0')
    if coulomb < 0 or viscous < 0:
        raise ModelError(f'{where}: its friction {coulomb:g} and damping {viscous:g} must not be '
                         'negative')
    return coulomb, viscous


def _mimics(
    elements: list[ElementTree.Element | None], joint_index: Mapping[str, int],
) -> dict[int, Mimic]:
    mimics: dict[int, Mimic] = {}
    for i, joint in enumerate(elements):
        mimic = None if joint is None else joint.find('mimic')
        if joint is None or mimic is None or joint.get('type') not in OF_ONE_FREEDOM:
            continue
        source = mimic.get('joint', '')
        if source not in joint_index:
            raise ModelError(f"{_label(joint)} mimics '{source}', which is not a joint of the "
                             + 'URDF; ' + near(source, joint_index))
        (multiplier,) = numbers(mimic, 'multiplier', _label(joint), '1')
        (offset,) = numbers(mimic, 'offset', _label(joint), '0')
        mimics[i] = Mimic(joint_index[source], multiplier, offset)
    return mimics


def _inertias(names: list[str], links: list[ElementTree.Element]) -> tuple[Array, Array]:
    """Return the spatial inertia, (m, 6, 6), and principal moments, (m, 3), of every link."""
    mass, tensor = np.zeros(len(links)), np.zeros((len(links), 3, 3))
    origins: list[tuple[float, ...]] = [(0.0,) * 6] * len(links)
    for i, link in enumerate(links):
        inertial = link.find('inertial')
        if inertial is None:
            continue
        where = f"link '{names[i]}', <inertial>"
        (mass[i],) = numbers(_child(inertial, 'mass', where), 'value', where, None)
        if mass[i] < 0:
            raise ModelError(f"link '{names[i]}': its mass of {mass[i]:g} kg is negative")
        element = _child(inertial, 'inertia', where)
        for part in (inertial, _child(inertial, 'mass', where), element):
            require_known(part, where)
        xx, xy, xz, yy, yz, zz = (
            numbers(element, entry, where, default)[0] for entry, default in
            (('ixx', None), ('ixy', '0'), ('ixz', '0'),
             ('iyy', None), ('iyz', '0'), ('izz', None)))
        tensor[i] = [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]
        origins[i] = origin(inertial, where)
    T = poses(origins)
    R, c = T[:, :3, :3], cross_matrices(T[:, :3, 3])
    inertia = np.zeros((len(links), 6, 6))
    m = mass[:, None, None]
    inertia[:, :3, :3] = R @ tensor @ R.transpose(0, 2, 1) - m * (c @ c)
    inertia[:, :3, 3:] = m * c
    inertia[:, 3:, :3] = -m * c
    inertia[:, 3:, 3:] = m * np.eye(3)
    return inertia, np.asarray(np.linalg.eigvalsh(tensor))


def cross_matrices(v: Array) -> Array:
    """Return the matrices [v×] (m, 3, 3) of the cross products with the rows of v (m, 3)."""
    x, y, z = v.T
    zero = np.zeros_like(x)
    return np.array([[zero, -z, y], [z, zero, -x], [-y, x, zero]]).transpose(2, 0, 1)
