# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The parts of URDF links and joints, up to version 1.2, that this package reads."""

from __future__ import annotations

from xml.etree import ElementTree

from osc_ros.errors import ModelError

# For each element, the attributes and children that this package reads, or that do not change the
# dynamics. Names of another namespace, such as 'drake:…', are for other programs.
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
REPEATED = 'visual', 'collision'  # a link may have several
DECISIVE = 'origin', 'inertial', 'mass', 'inertia'  # unknown parts of these raise ModelError
UNUSED = 'acceleration', 'jerk'  # attributes of <limit> from URDF 1.2 on


def _unknown(element: ElementTree.Element) -> list[str]:
    """Return the names of the attributes and children that are not in UNDERSTOOD."""
    attributes, children = UNDERSTOOD[element.tag]
    found = [f"attribute '{name}'" for name in element.attrib
             if name not in attributes and not _is_foreign(name)]
    return found + [f'<{child.tag}>' for child in element if isinstance(child.tag, str)
                    and child.tag not in children and not _is_foreign(child.tag)]


def require_known(element: ElementTree.Element, where: str) -> None:
    """Raise ModelError if the element has a part that is not in UNDERSTOOD."""
    for unknown in _unknown(element):
        attributes, children = UNDERSTOOD[element.tag]
        accepted = ', '.join([*attributes, *(f'<{child}>' for child in children)])
        raise ModelError(f'{where}: {unknown} of <{element.tag}> is unknown: give one of '
                         f'{accepted}')


def unused_parts(robot: ElementTree.Element) -> list[str]:
    """Return a sentence for each part of URDF links and joints that this package does not use."""
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
    """Whether a name belongs to another namespace, and so to another program."""
    return ':' in name or '}' in name
