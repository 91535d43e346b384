# Copyright 2026 The osc_ros maintainers
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.

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
