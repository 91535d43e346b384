# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Scales the masses of a robot description."""

from __future__ import annotations

from xml.etree import ElementTree


def with_masses(text: str, factor: float) -> str:
    """Return URDF text with every mass and inertia multiplied by a positive factor."""
    if factor == 1.0:
        return text
    root = ElementTree.fromstring(text)
    for path in ('link/inertial/mass', 'link/inertial/inertia'):
        for element in root.iterfind(path):
            for name, value in element.attrib.items():
                element.set(name, repr(factor * float(value)))
    return ElementTree.tostring(root, encoding='unicode')
