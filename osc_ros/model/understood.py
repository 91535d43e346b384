# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""What this package understands of the links and joints of a URDF, up to version 1.2."""

from __future__ import annotations

from xml.etree import ElementTree

from osc_ros.errors import ModelError

# Attributes and children of elements that this module reads, or that do not change the dynamics.
# Names of another namespace, such as 'drake:…', are for other programs.
UNDERSTOOD: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    'link': (('name', 'type'), ('inertial', 'visual', 'collision')),
    'joint': (('name', 'type'), ('origin', 'parent', 'child', 'axis', 'limit', 'dynamics', 'mimic',
                                 'calibration', 'safety_controller')),
    'origin': (('xyz', 'rpy', 'quat_xyzw'), ()),
    'inertial': ((), ('origin', 'mass', 'inertia')),
    'mass': (('value',), ()),
    'inertia': (('ixx', 'ixy', 'ixz', 'iyy', 'iyz', 'izz'), ()),
    'axis': (('xyz',), ()),
    'limit': (('lower', 'upper', 'velocity', 'effort', 'deceleration'), ()),
    'dynamics': (('damping', 'friction'), ()),
    'mimic': (('joint', 'multiplier', 'offset'), ())}
DECISIVE = 'origin', 'inertial', 'mass', 'inertia'  # what is unknown in them is refused
UNUSED = 'acceleration', 'jerk'  # attributes of <limit> from URDF 1.2 on


def _unknown(element: ElementTree.Element) -> list[str]:
    """Return the names of attributes and children that are not understood."""
    attributes, children = UNDERSTOOD[element.tag]
    found = [f"attribute '{name}'" for name in element.attrib
             if name not in attributes and not _is_foreign(name)]
    return found + [f'<{child.tag}>' for child in element if isinstance(child.tag, str)
                    and child.tag not in children and not _is_foreign(child.tag)]


def require_known(element: ElementTree.Element, where: str) -> None:
    """Raise if something that is not understood may change the dynamics."""
    for unknown in _unknown(element):
        attributes, children = UNDERSTOOD[element.tag]
        accepted = ', '.join([*attributes, *(f'<{child}>' for child in children)])
        raise ModelError(f'{where}: {unknown} of <{element.tag}> is unknown, accepted are '
                         f'{accepted}')


def unused_parts(robot: ElementTree.Element) -> list[str]:
    """Return what a URDF tells about links and joints and is not used, a sentence each."""
    found = []
    for element in robot:
        if element.tag not in ('link', 'joint'):
            continue
        where = f"{element.tag} '{element.get('name')}'"
        for part in (element, *element):
            if part.tag not in UNDERSTOOD or part.tag in DECISIVE:
                continue
            unknown = _unknown(part)
            names = [name for name in unknown if name[11:-1] in UNUSED]
            if names:
                found.append(f'{where}: its limits of {" and ".join(UNUSED)} are not used; '
                             'the parameters target.… limit the motion of the tip')
            inside = '' if part is element else f' of <{part.tag}>'
            found += [f'{where}: {name}{inside} is unknown and has no effect'
                      for name in unknown if name not in names]
    return found


def _is_foreign(name: str) -> bool:
    """Whether a name is of another namespace, and so for another program."""
    return ':' in name or '}' in name
