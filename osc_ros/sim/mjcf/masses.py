# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A robot description in which all masses differ by one factor."""

from __future__ import annotations

from xml.etree import ElementTree


def with_masses(text: str, factor: float) -> str:
    """
    Return URDF text in which every mass and inertia is multiplied by a factor.

    Parameters
    ----------
    text : str
        The URDF.
    factor : float
        More than 0; 1 returns the text as it is.

    """
    if factor == 1.0:
        return text
    root = ElementTree.fromstring(text)
    for path in ('link/inertial/mass', 'link/inertial/inertia'):
        for element in root.iterfind(path):
            for name, value in element.attrib.items():
                element.set(name, repr(factor * float(value)))
    return ElementTree.tostring(root, encoding='unicode')
