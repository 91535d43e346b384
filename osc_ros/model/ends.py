# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The links of a URDF that are candidates for base and tip of an arm."""

from __future__ import annotations

from osc_ros.model.urdf import description as urdf_description


def ends_of_chains(text: str) -> tuple[str, list[tuple[str, int]]]:
    """
    Return the root link, and each link that ends a chain with its number of moving joints.

    The longest chain comes first. Joints that mimic others, and joints that others mimic, such as
    those of a gripper, do not count, and no chain ends beyond them. Raises ModelError for a bad
    URDF.

    """
    found = urdf_description(text)
    coupled = {*found.mimics, *(mimic.source for mimic in found.mimics.values())}
    joints = {-1: 0}
    for i, parent in enumerate(found.parent.tolist()):  # every parent comes before its children
        if parent in joints and i not in coupled:
            joints[i] = joints[parent] + (found.kinds[i] != 'fixed')
    ends = sorted(joints.keys() - {-1} - {found.parent[i] for i in joints if i >= 0},
                  key=lambda i: -joints[i])
    return found.links[0], [(found.links[i], joints[i]) for i in ends]


def fork_at(text: str, tip: str) -> tuple[str, list[str]]:
    """
    Return the parent link of a tip's last moving joint, and other moving joints of that link.

    If the tip is a finger of a gripper, the returned joints are those of the other fingers. If no
    joint moves the tip, the root link and no joints are returned. Raises ModelError for a bad
    URDF.

    """
    found = urdf_description(text)
    i = found.links.index(tip)
    while i > 0 and found.kinds[i] == 'fixed':
        i = int(found.parent[i])
    last = int(found.parent[i])
    if last < 0:
        return found.links[0], []
    others = [joint for k, (joint, kind) in enumerate(zip(found.joints, found.kinds))
              if found.parent[k] == last and kind != 'fixed' and k != i]
    return found.links[last], others
