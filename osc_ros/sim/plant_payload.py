# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The payload of a simulated arm: one more link in its robot description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def with_payload(text: str, link: str, values: Mapping[str, Any]) -> str:
    """
    Return URDF text with one more link, the payload, fixed to `link`.

    Parameters
    ----------
    text : str
        The URDF.
    link : str
        One of its links.
    values : mapping of str to value
        Mass 'payload.mass' [kg]; 0: no payload, the text is returned as it is. Centre of mass
        'payload.center_of_mass' (3,) in the frame of `link` [m]. 'payload.inertia' (6,), xx xy xz
        yy yz zz about the centre of mass, in the axes of `link` [kg m²].

    """
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
