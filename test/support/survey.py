# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The robots of example-robot-data and their chains, for comparisons with Pinocchio.

This module imports nothing from osc_ros: it parses the XML of the URDFs independently.
"""

from dataclasses import dataclass
from functools import cache
from importlib.metadata import files
from itertools import takewhile
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

LEAST = 3  # smallest number of joints of a chain, without mimic joints
MOVING = ('revolute', 'continuous', 'prismatic')


@dataclass(frozen=True)
class Chain:
    """
    The path from link `base` to link `tip`.

    Attributes
    ----------
    ranges : dict of str to (float, float)
        Lower and upper test position of each moving joint that is no mimic, base first [rad, m].
    held : dict of str to float
        Position at which each mimic joint is locked, within its limits [rad, m].

    """

    base: str
    tip: str
    ranges: dict[str, tuple[float, float]]
    held: dict[str, float]


@cache
def urdf_texts():
    """Return the text of every URDF of example-robot-data, by its path."""
    # The package has data only: its metadata gives the paths without an import.
    found = {str(file).partition('/example-robot-data/robots/')[2]: Path(file.locate())
             for file in files('example-robot-data') or () if str(file).endswith('.urdf')}
    return {name: found[name].read_text() for name in sorted(found)}


def chains(urdf_text):
    """
    Return the chains of 3 or more moving joints (mimic joints not counted), nearest root first.

    Chains start at the root and at every fork, a link with two or more branches that have joints.
    Along each branch, the longest path gives up to three chains: to its end, to its last link
    that has mass or carries mass, and to the next fork. So every arm, leg and finger is listed
    alone and with the links that carry it, and arms are listed with and without a hand. A chain
    with the same joints as an earlier one is omitted.

    """
    robot = ElementTree.fromstring(urdf_text)
    tree = {link.get('name'): [] for link in robot.findall('link')}
    mass = {link.get('name'): float(link.find('inertial/mass').get('value'))
            for link in robot.findall('link') if link.find('inertial/mass') is not None}
    for joint in robot.findall('joint'):
        tree[joint.find('parent').get('link')].append(joint)
    order = list(tree.keys() - {_child(joint) for joints in tree.values() for joint in joints})
    for link in order:
        order += map(_child, tree[link])
    longest, carried, ways = {}, {}, {}
    for link in reversed(order):
        paths = [(joint, *longest[_child(joint)]) for joint in tree[link]]
        ways[link] = [path for path in paths if _length(path) > (0, 0, len(path))]
        longest[link] = max(paths, key=_length, default=())  # of equal paths the first in the file
        carried[link] = mass.get(link, 0.0) + sum(carried[_child(joint)] for joint in tree[link])
    found = {}
    for link in order:
        if link != order[0] and len(ways[link]) < 2:
            continue
        for path in ways[link]:
            massive = tuple(takewhile(lambda joint: carried[_child(joint)] > 0, path))
            fork = next((i for i, joint in enumerate(path, 1) if len(ways[_child(joint)]) > 1), 0)
            for part in path, massive, path[:fork]:
                if _length(part)[0] >= LEAST:
                    chain = _chain(link, part)
                    found.setdefault((*chain.ranges, *chain.held), chain)
    return list(found.values())


def _child(joint):
    return joint.find('child').get('link')


def _length(path):
    """Return the numbers of moving joints without mimic, of moving joints, and of joints."""
    moving = [joint for joint in path if joint.get('type') in MOVING]
    return sum(joint.find('mimic') is None for joint in moving), len(moving), len(path)


def _chain(base, path):
    ranges, held = {}, {}
    for joint in path:
        if joint.get('type') in MOVING:
            lower, upper = _range(joint)
            if joint.find('mimic') is None:
                ranges[joint.get('name')] = lower, upper
            else:
                held[joint.get('name')] = round(0.3 * lower + 0.7 * upper, 3)
    return Chain(base, _child(path[-1]), ranges, held)


def _range(joint):
    limit = joint.find('limit')
    if joint.get('type') in ('revolute', 'prismatic') and limit is not None:
        lower, upper = (float(limit.get(end, 0)) for end in ('lower', 'upper'))
        if lower < upper:
            return lower, upper
    return (-0.5, 0.5) if joint.get('type') == 'prismatic' else (-np.pi, np.pi)
