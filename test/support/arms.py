# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""List of the arms in example-robot-data with five joints or more; reasons to omit the others."""

LEAST = 5  # smallest number of joints

# (URDF, base, tip); the tip is the last link of the arm, without fingers. All variants of a robot
# are listed.
ARMS = (
    *((f'alex_description/urdf/alex_{hands}_hands.urdf', 'Torso', tip)
      for hands, tips in (('nub', ('leftNub', 'rightNub')),
                          ('sake', ('LeftSakePalmLink', 'RightSakePalmLink'))) for tip in tips),
    ('anymal_b_simple_description/robots/anymal-kinova.urdf', 'base', 'j2s6s200_end_effector'),
    ('b1_description/urdf/b1-z1.urdf', 'trunk', 'gripperStator'),
    ('baxter_description/urdf/baxter.urdf', 'torso', 'left_gripper_base_link'),
    ('baxter_description/urdf/baxter.urdf', 'torso', 'right_gripper_base_link'),
    ('centauro_description/urdf/centauro.urdf', 'torso_2', 'ball1_tip'),
    ('centauro_description/urdf/centauro.urdf', 'torso_2', 'ball2_tip'),
    ('g1_description/urdf/g1_29dof_rev_1_0.urdf', 'torso_link', 'left_rubber_hand'),
    ('g1_description/urdf/g1_29dof_rev_1_0.urdf', 'torso_link', 'right_rubber_hand'),
    ('g1_description/urdf/g1_29dof_with_hand_rev_1_0.urdf', 'torso_link', 'left_hand_palm_link'),
    ('g1_description/urdf/g1_29dof_with_hand_rev_1_0.urdf', 'torso_link', 'right_hand_palm_link'),
    ('hextilt_description/urdf/hextilt_flying_arm_5.urdf', 'hextilt__base_link',
     'flying_arm_5__gripper'),
    ('human_description/robots/human.urdf', 'middle_thorax', 'left_hand'),
    ('human_description/robots/human.urdf', 'middle_thorax', 'right_hand'),
    *((f'icub_description/robots/{name}.urdf', 'chest', tip) for name in ('icub', 'icub_reduced')
      for tip in ('l_gripper', 'r_gripper')),
    ('kinova_description/robots/kinova.urdf', 'base', 'j2s6s200_end_effector'),
    ('kinova_description/robots/kinova.urdf', 'base', 'j2s6s200_link_finger_tip_1'),
    ('panda_description/urdf/panda.urdf', 'panda_link0', 'panda_hand_tcp'),
    ('panda_description/urdf/panda_collision.urdf', 'panda_link0', 'panda_hand_tcp'),
    ('pr2_description/urdf/pr2.urdf', 'torso_lift_link', 'l_gripper_palm_link'),
    ('pr2_description/urdf/pr2.urdf', 'torso_lift_link', 'r_gripper_palm_link'),
    ('romeo_description/urdf/romeo.urdf', 'torso', 'l_wrist'),
    ('romeo_description/urdf/romeo.urdf', 'torso', 'r_wrist'),
    ('romeo_description/urdf/romeo_laas_small.urdf', 'torso', 'l_wrist'),
    ('romeo_description/urdf/romeo_laas_small.urdf', 'torso', 'r_wrist'),
    ('romeo_description/urdf/romeo_small.urdf', 'torso', 'l_gripper'),
    ('romeo_description/urdf/romeo_small.urdf', 'torso', 'r_gripper'),
    *((f'simple_humanoid_description/urdf/{name}.urdf', 'torso', tip)
      for name in ('simple_humanoid', 'simple_humanoid_classical')
      for tip in ('l_wrist', 'r_wrist')),
    ('so_arm_description/urdf/so100.urdf', 'base', 'gripper'),
    ('so_arm_description/urdf/so101.urdf', 'base_link', 'gripper_frame_link'),
    ('talos_data/robots/talos_left_arm.urdf', 'arm_left_1_link', 'gripper_left_base_link'),
    *((f'talos_data/robots/talos_{name}.urdf', 'torso_2_link', f'gripper_{side}_base_link')
      for name in ('full_v2', 'full_v2_box', 'reduced', 'reduced_box', 'reduced_corrected')
      for side in ('left', 'right')),
    ('tiago_description/robots/tiago.urdf', 'torso_lift_link', 'hand_palm_link'),
    ('tiago_description/robots/tiago.urdf', 'base_footprint', 'hand_tool_link'),
    ('tiago_description/robots/tiago_dual.urdf', 'torso_lift_link', 'hand_left_palm_link'),
    ('tiago_description/robots/tiago_dual.urdf', 'torso_lift_link', 'hand_right_palm_link'),
    ('tiago_description/robots/tiago_no_hand.urdf', 'torso_lift_link', 'wrist_ft_tool_link'),
    ('tiago_pro_description/robots/tiago_pro.urdf', 'torso_lift_link', 'gripper_left_base_link'),
    ('tiago_pro_description/robots/tiago_pro.urdf', 'torso_lift_link', 'gripper_right_base_link'),
    *((f'ur_description/urdf/{name}.urdf', 'base_link', 'tool0')
      for name in ('ur3_robot', 'ur3_joint_limited_robot', 'ur3_gripper', 'ur5_robot',
                   'ur5_joint_limited_robot', 'ur5_gripper', 'ur10_robot',
                   'ur10_joint_limited_robot')),
    ('xarm_description/urdf/xarm7.urdf', 'link_base', 'link_eef'),
    ('z1_description/urdf/z1.urdf', 'link00', 'gripperStator'),
)

LEGS = 'legs only'
SHORT = 'no chain of five joints or more'
# Every other URDF of example-robot-data, with the reason why it is not in ARMS.
LEFT_OUT = {
    'a1_description/urdf/a1.urdf': SHORT,
    'alex_description/urdf/alex_psyonic_hands.urdf': "wrong URDF: joint 'Left_index_q2' mimics "
    "'index_q1', which does not exist",
    'alexander_description/urdf/alexander_v1.lowerBodyOnly.urdf': LEGS,
    'allegro_hand_description/urdf/allegro_left_hand.urdf': SHORT,
    'allegro_hand_description/urdf/allegro_right_hand.urdf': SHORT,
    'anymal_b_simple_description/robots/anymal.urdf': SHORT,
    'anymal_c_simple_description/urdf/anymal.urdf': SHORT,
    'asr_twodof_description/urdf/TwoDofs.urdf': SHORT,
    'b1_description/urdf/b1.urdf': SHORT,
    'bolt_description/robots/bolt.urdf': SHORT,
    'borinot_description/urdf/borinot_flying_arm_2.urdf': SHORT,
    'double_pendulum_description/urdf/double_pendulum.urdf': SHORT,
    'double_pendulum_description/urdf/double_pendulum_continuous.urdf': SHORT,
    'double_pendulum_description/urdf/double_pendulum_simple.urdf': SHORT,
    'finger_edu_description/robots/finger_edu.urdf': SHORT,
    'go1_description/urdf/go1.urdf': SHORT,
    'go2_description/urdf/go2.urdf': SHORT,
    'hector_description/robots/quadrotor_base.urdf': SHORT,
    'hyq_description/robots/hyq_no_sensors.urdf': SHORT,
    'iris_description/robots/iris.urdf': SHORT,
    'iris_description/robots/iris_simple.urdf': SHORT,
    'laikago_description/urdf/laikago.urdf': SHORT,
    'quadruped_description/urdf/quadruped.urdf': SHORT,
    'solo_description/robots/solo.urdf': SHORT,
    'solo_description/robots/solo12.urdf': SHORT,
    'ur_description/urdf/ur3.urdf': 'holds no robot',
}
