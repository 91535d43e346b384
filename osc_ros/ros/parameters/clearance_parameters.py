# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Parameters with which the arm keeps clear of itself, of obstacles and of a fence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from osc_ros.collision.link_shapes import shape_model, shipped_shapes
from osc_ros.control.limits.clearance import Clearance, fence_box, LARGEST_MARGIN
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot
from osc_ros.model.urdf import SIDES
from osc_ros.ros.parameters.parameters import Entry
from osc_ros.ros.parameters.robot_parameters import PAIR, shipped_robots

FAR = 1e3  # bound of a fence that is not given [m]

CLEARANCE = (
    Entry('clearance.margin', 0.0, 'Links come no nearer than this to each other, to obstacles '
          'and to the fence [m]; 0: the arm does not keep clear', lower=0.0,
          upper=LARGEST_MARGIN, live=True),
    Entry('clearance.shapes', '', 'YAML file with capsules of the links; empty: those that come '
          'with the robots of this package', fixed=True),
    Entry('clearance.srdf', '', 'SRDF whose disable_collisions are pairs of links that are not '
          'compared, beside those of the shapes', fixed=True),
    Entry('clearance.fence.lower', (), 'Lower bounds of all links along x y z of the base [m]; '
          'empty: none', size=3, live=True),
    Entry('clearance.fence.upper', (), 'Upper bounds of all links along x y z of the base [m]; '
          'empty: none', size=3, live=True),
    Entry('clearance.fence.planes', (), 'Further planes of the fence, four numbers each: links '
          'stay where x · n ≥ d; n, then d [m]', live=True),
    Entry('obstacles.touch', (), 'Obstacles that the tips may touch: names NAMESPACE/ID of '
          'markers on ~/obstacles, or namespaces', of=str, live=True),
    Entry('obstacles.timeout', 0.0, 'Obstacles are stale after this time without a message on '
          '~/obstacles, while there are any [s]; 0: never', lower=0.0, upper=3600.0, live=True),
)


def clearance_of(values: Mapping[str, Any], robot: Robot) -> Clearance | None:
    """Return the clearance of these parameters; None without. InputError if they do not fit."""
    fence = _fence(values)
    if not values['clearance.margin']:
        if len(fence):
            raise InputError("parameter 'clearance.margin' is 0, so the fence has no effect: "
                             'with a fence it must be more than 0 m')
        return None
    name = values['robot_description_file']
    if name == PAIR and not (values['clearance.shapes'] or values['clearance.srdf']):
        model = shipped_shapes('panda').repeated(*SIDES)
    else:
        model = shape_model(name if name in shipped_robots() else robot.name,
                            values['clearance.shapes'], values['clearance.srdf'])
    return Clearance.of(model, values['clearance.margin'], fence)


def _fence(values: Mapping[str, Any]) -> Any:
    """Return the planes (k, 4) of the fence."""
    lower, upper = values['clearance.fence.lower'], values['clearance.fence.upper']
    planes = values['clearance.fence.planes']
    if len(planes) % 4:
        raise InputError(f"parameter 'clearance.fence.planes' has {len(planes)} numbers: give "
                         'four for each plane')
    found = [np.reshape(planes, (-1, 4))] if planes else []
    if lower or upper:
        box = fence_box(lower or [-FAR] * 3, upper or [FAR] * 3)
        found.append(box[0 if lower else 3:6 if upper else 3])
    return np.vstack([np.zeros((0, 4)), *found])
