# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The interface of a kind of task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Kind:
    """
    One kind of task, with its own parameters as fields.

    Each field has a default and `metadata={'description': …}`. The controller node makes a ROS
    parameter `NAME.FIELD` of each field, for a task with the name NAME.

    A kind defines up to six coordinates of its link: three in rad, then three in m (`axes` says
    which of them are controlled). Their velocity is S v, where v is the twist of the link, and
    their acceleration S a + Ṡ v; S is 6 × 6 and depends on the pose of the link and on the
    set-point. `feedback.guided_by_link` says where its target is. The compiled part of the kind, a
    function of its module that `feedback.put_kind` calls, writes for one tick:

        put_NAME(m, d, i) -> share

    m, d : records
        LAW_M and LAW_D of `osc_ros.control.data`. The function reads row i of `kind_numbers`,
        `target_…`, `task_pose` and `task_twist`, and writes row i of `task_error`, of `task_lag`,
        and of `task_axes` if the kind determines them. It also writes, in the task's axes, with 0
        for axes that are not controlled, row i of `level_spring`, the error; `level_velocity`, the
        velocity of the coordinates that the set-point demands; `level_rate`, this minus the actual
        velocity; `level_root`, the acceleration of the coordinates that the set-point demands,
        minus Ṡ v. If S is not the identity: `is_mapped` = 1 and `level_map`, S in base axes.
    share : float
        Factor on the activation, 0 to 1, continuous. It must be 0 where S or its rate of change is
        not bounded.

    All written values must be finite and continuous for finite pose, twist and set-point.

    Attributes
    ----------
    name : str
        Value of the parameter `NAME.kind`.
    controls : str
        Controlled quantity: a part of the description of the parameter `NAME.kind`.
    axes : tuple of 6 str, optional
        'motion' or 'free', if the kind determines them; None if each task chooses its axes.
    goals : tuple of str
        Commands that a task of this kind accepts: 'pose', 'twist', 'trajectory', 'chunk', 'point'.

    """

    name: ClassVar[str]
    controls: ClassVar[str]
    axes: ClassVar[tuple[str, ...] | None] = None
    goals: ClassVar[tuple[str, ...]] = ('pose', 'twist', 'trajectory', 'chunk')

    def numbers(self) -> Array:
        """Parameters (9,) for the compiled part, which reads them as `m.kind_numbers[i]`."""
        return np.zeros(9)

    def set_point(self, pose: Array) -> Array:
        """Set-point (4, 4) for which a link at `pose` (4, 4) has no error."""
        raise NotImplementedError

    def set_point_twist(self, pose: Array, twist: Array) -> Array:
        """Twist (6,) of `set_point` if the link at `pose` (4, 4) has this twist (6,)."""
        raise NotImplementedError

    def error(self, pose: Array, goal: Array) -> Array:
        """Error (6,) from a link at `pose` (4, 4) to `goal` (4, 4), base axes."""
        raise NotImplementedError

    def set_point_with_link(self, set_point: Array, T: Array) -> Array:
        """Set-point (4, 4) after the link's frame is moved by T (4, 4) on its body."""
        raise NotImplementedError
