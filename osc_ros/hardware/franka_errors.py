# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Explanations of libfranka's errors, with remedies, for messages."""

from __future__ import annotations

import re

# Errors that end a motion, by libfranka's name: event, probable cause and remedy.
REFLEXES = {
    'communication_constraints_violation':
        'the arm received no torque in time for 20 cycles (20 ms): this computer or the network '
        'was too slow. Connect the arm by a cable of its own, use a real-time kernel with '
        "hardware.realtime 'enforce', set the CPU governor 'performance', end other programs",
    'controller_torque_discontinuity':
        'a commanded torque changed by more than 1000 N·m/s, which osc_ros should have '
        'prevented. Set a lower limits.effort_rate, and report this',
    'joint_reflex':
        'the external torque of a joint, as the arm estimates it, exceeded hardware.collision.'
        'torque: the arm touched something, hardware.load is wrong, or the motion was abrupt. '
        'Make room, correct the load, or raise the thresholds',
    'cartesian_reflex':
        'the external force at the end effector, as the arm estimates it, exceeded hardware.'
        'collision.force: the arm touched something, hardware.load is wrong, or the motion was '
        'abrupt. Make room, correct the load, or raise the thresholds',
    'self_collision_avoidance_violation':
        'two links of the arm came too close to each other. Change the path or the posture; if '
        'the arm stops again after the recovery, move it apart in Desk',
    'joint_velocity_violation':
        'a joint was too fast. The limit becomes lower near the ends of the range of a joint. '
        'Set lower limits.velocity, or slower targets',
    'cartesian_velocity_violation':
        'the end effector was too fast. Set a slower target, or lower limits.velocity',
    'joint_position_limits_violation':
        'a joint reached the end of its range. Recover; if this error comes again, move the joint '
        'back by hand in Desk. Set narrower limits.position',
    'cartesian_position_limits_violation':
        'the arm reached a virtual wall that is configured in Desk. Recover, and keep away from '
        'the wall, or change it',
    'tau_j_range_violation':
        'a commanded or measured torque was outside the range of the joint. Check the load and '
        'the forces on the arm; set lower limits.effort',
    'power_limit_violation':
        'the motion takes more power than the arm permits. Set slower targets, lower '
        'accelerations or a smaller load',
    'force_control_safety_violation':
        'the arm exceeded a limit of its force control. Set slower targets',
    'instability_detected':
        'the arm detected an oscillation. Lower the natural frequencies, and check the load',
    'joint_move_in_wrong_direction':
        'a joint outside its range moved further outwards. Move it back by hand in Desk',
    'base_acceleration_initialization_timeout':
        'the arm could not determine its orientation to gravity. Keep the base at rest, and '
        'restart the arm',
    'base_acceleration_invalid_reading':
        'the acceleration of the base is not measured. Keep the base at rest, and restart the arm',
}

# Texts of libfranka, as regular expressions: event and remedy. The first match is used.
TEXTS = (
    ('FCI refused',
     'it refuses connections: FCI is not active there, or the address is that of another '
     'computer. Unlock the joints and choose "Activate FCI" in Desk; check hardware.address, '
     'which is that of the LAN port of the control unit, not that of the arm'),
    ('Connection timeout|Host is unreachable|Network is unreachable|No route|Connection error',
     'nothing answers: the address is wrong, the arm is off, or the cable or the network of this '
     'computer is not set up. Check hardware.address, and `ping` it'),
    ('realtime (scheduling|capabilities)|thread priority',
     "this computer has no real time, which hardware.realtime 'enforce' requires: a PREEMPT_RT "
     'kernel (/sys/kernel/realtime contains 1) and the permission for SCHED_FIFO (rtprio 99 in '
     "/etc/security/limits.conf). Set hardware.realtime to 'ignore' to run without; the arm then "
     'stops more often because torques are late'),
    ('incompatible library version',
     'the version of the arm does not fit the installed pylibfranka, which needs system version '
     '5.9 or later. Update the arm, or use the driver of its version'),
    ('UDP receive: Timeout',
     'the arm sent no state for 1 s: it was switched off, or the connection is interrupted. '
     'Check cable and arm, then recover: this connects again'),
    ('User Stop pressed|UserStopped|User stopped',
     'the user stop (external activation device or emergency stop) is pressed. Release it, then '
     'recover'),
    ('still moving',
     'the control ended while the arm moved, and the arm stopped by itself. Recover'),
    ('activated safety function',
     'a safety function of the arm is active. Deactivate it in Watchman or Desk, then recover'),
    ('manual error recovery',
     'the arm does not recover from this error by itself. Open Desk, and follow its instructions'),
    ('singular pose',
     'the arm is too close to a singularity for this start. Move it in Desk'),
    ('invalid argument',
     'the arm refuses a value of hardware.load, hardware.collision or hardware.end_effector. '
     'Correct these parameters'),
    (r'current mode \("Reflex"\)',
     'the arm is stopped because of an earlier error. Recover first'),
    (r'current mode \("Guiding"\)',
     'somebody guides the arm by hand. Release the guiding button, then start'),
    ('open the brakes|current mode',
     'the arm is in another mode. Unlock the joints in Desk, select Execution, then start'),
    ('preempted',
     'another program or Desk ended the control. Recover, and start again'),
    ('multiple motions|invalid control',
     'the last control has not ended. Recover, and start again'),
    ('server closed|interrupted|TCP|UDP|Net Exception|I/O',
     'the connection to the arm was lost: it was switched off, FCI was deactivated, or another '
     'program connected. Check the arm, then recover: this connects again'),
    ('position_based_velocity_limits|URDF',
     'the arm sent a description that the installed pylibfranka cannot read. Update both'),
)


def explanation(text: str) -> str:
    """Return explanation and remedy for an error text of libfranka, with the text in brackets."""
    reflexes = [REFLEXES.get(name, f'the arm reports {name}. Recover, and start again')
                for name in re.findall(r'"([a-z_]+)"', text)]
    if not reflexes:
        reflexes = [words for pattern, words in TEXTS if re.search(pattern, text, re.IGNORECASE)]
        reflexes = reflexes[:1] or ['libfranka reports an error']
    return '; '.join(reflexes) + f' [{" ".join(text.split())}]'
