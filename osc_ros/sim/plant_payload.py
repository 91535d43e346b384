# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Adds a payload to the robot description of a simulated arm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def with_payload(text: str, link: str, values: Mapping[str, Any]) -> str:
    """Return URDF text with a payload link fixed to `link`; unchanged if the mass is 0."""
    # `values`: 'payload.mass' [kg], 'payload.center_of_mass' (3,) in the frame of `link` [m], and
    # 'payload.inertia' (6,), xx xy xz yy yz zz, about the centre of mass in the axes of
    # `link` [kg m²]
    if not values['payload.mass']:
        return text
    x, y, z = values['payload.center_of_mass']
    xx, xy, xz, yy, yz, zz = values['payload.inertia']
    head, end, tail = text.rpartition('</robot>')
    return f"""{head}
  <link name="osc_simulator_payload"><inertial>
    <origin xyz="{x} {y} {z}"/><mass value="{values['payload.mass']}"/>
    <inertia ixx="{xx}" ixy="{xy}" ixz="{xz}" iyy="{yy}" iyz="{yz}" izz="{zz}"/>
  </inertial></link>
  <joint name="osc_simulator_payload" type="fixed">
    <parent link="{link}"/>
    <child link="osc_simulator_payload"/>
  </joint>
{end}{tail}"""
