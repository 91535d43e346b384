# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The links of a URDF that are candidates for base and tip of an arm."""

from __future__ import annotations

from osc_ros.model.urdf import description as urdf_description


def ends_of_chains(text: str) -> tuple[str, list[tuple[str, int]]]:
    """Return the root link, and each link that ends a chain with its number of moving joints."""
    # The longest chain comes first. A chain ends before a hand. A hand begins at a joint that
    # mimics another, or that another mimics, and where the chain forks into parts none of which
    # has more joints than the chain up to the fork. ModelError for a bad URDF.
    found = urdf_description(text)
    coupled = {*found.mimics, *(mimic.source for mimic in found.mimics.values())}
    joints, parents = {-1: 0}, found.parent.tolist()
    for i, parent in enumerate(parents):  # every parent comes before its children
        if parent in joints and i not in coupled:
            joints[i] = joints[parent] + (found.kinds[i] != 'fixed')
    deepest = joints.copy()  # most joints of a chain through this link
    forks: dict[int, int] = {}  # number of moving parts that are attached to a link
    for i in sorted(joints.keys() - {-1}, reverse=True):
        deepest[parents[i]] = max(deepest[parents[i]], deepest[i])
        forks[parents[i]] = forks.get(parents[i], 0) + (deepest[i] > joints[parents[i]])
    ended: set[int] = set()  # links beyond a hand
    for i in sorted(joints.keys() - {-1}):
        at = parents[i]
        is_finger = forks.get(at, 0) > 1 and deepest[i] > joints[at] >= deepest[at] - joints[at]
        if at in ended or is_finger:
            ended.add(i)
    kept = joints.keys() - {-1} - ended
    ends = sorted(kept - {parents[i] for i in kept}, key=lambda i: -joints[i])
    return found.links[0], [(found.links[i], joints[i]) for i in ends]
