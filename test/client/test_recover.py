# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A client gets an arm back that the controller has given up."""

import numpy as np
import pytest

import osc_ros
from osc_ros.errors import ArmError
from ros_arm import RosArm


def test_arm_that_was_given_up_is_activated_again_by_recover(ros):
    nodes = RosArm(ros)
    try:
        with osc_ros.Arm.ros(timeout=120.0) as arm:
            arm.move_to(arm.pose(shift=(0.0, 0.0, 0.02)))
            guard = nodes.nodes[1]._loop.engine.guard
            # as after a joint that only sped up
            guard.d.given_up, guard.d.given_up_joint, guard.d.given_up_speed = 1, 2, 9.0
            with pytest.raises(ArmError, match='runaway'):
                arm.sleep(60.0)
            assert guard.runaway
            assert 'activated' in arm.recover()
            goal = arm.pose(shift=(0.0, 0.0, 0.02))
            assert np.linalg.norm((arm.move_to(goal).pose - goal)[:3, 3]) < 4e-3
    finally:
        nodes.close()
