# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Records of a controller, as named slots: all numbers on which its next torque depends."""

from __future__ import annotations

from osc_ros.compile.record import Record, Slot, Table

CHANGES = 64  # length of the ring of changes of the positions
FAULTS = 3  # largest number of faults of one state
FAULT_CODES = 9  # number of fault codes
WATCHDOGS = 16  # largest number of watchdogs
WAY = 512  # length of the ring of positions for 'retract'
SENT = 512  # length of the ring of sent torques, with their times
ANSWERED = 24  # length of the ring of states and the torques sent for them
PAIRS = 9  # length of the ring of sent and acting torques
LAGS = 4  # largest delay of the torques that is considered [periods]
ENERGIES = 128  # length of the ring of kinetic energies of an arm that is too fast
MOST = 48  # largest number of positions for an estimate of velocities
INTERVALS = 32  # length of the ring of intervals in which velocities and positions are compared
# columns of the slots `watchdogs` of the plan and `watches` of the state
TIMEOUT, REACTION, LATCHED = range(3)
FED, SEEN, IS_ACTIVE, SILENT, COUNT = range(5)

SAMPLE = Table(
    'sample',
    Slot('time', (1,), 's', 'stamp of the joint state'),
    Slot('now', (1,), 's', 'time of its arrival, on the clock of the loop'),
    Slot('q', ('n',), 'rad, m', 'positions'),
    Slot('qd', ('n',), 'rad/s, m/s', 'velocities'),
    Slot('effort', ('n',), 'N·m, N', 'measured torques; NaN where they are unknown'))

ROBOT = Table(
    'robot',
    Slot('joints', (1,), '', 'number of joints'),
    Slot('fastest', ('n',), 'rad/s, m/s', 'velocity limits'),
    Slot('lower', ('n',), 'rad, m', 'lower position limits'),
    Slot('upper', ('n',), 'rad, m', 'upper position limits'),
    Slot('turns', ('n',), '', '1 for continuous joints, whose positions are angles'))

GATE_PLAN = Table(
    'gate',
    Slot('period', (1,), 's', 'expected interval of the states'),
    Slot('blend_time', (1,), 's', 'time constant with which lower limits come into force'),
    Slot('limits', ('n',), 'rad/s, m/s', 'speeds above which a joint is too fast'))

CAUSES_PLAN = Table(
    'causes',
    Slot('settle_time', (1,), 's', 'time without a cause before its reaction ends'),
    Slot('bridges', (1,), '', '1 if the arm is braked by prediction when a state is missing'),
    Slot('count', (1,), '', 'number of watchdogs'),
    Slot('watchdogs', (WATCHDOGS, 3), 's, –, –', 'time-out, reaction, and whether it is latched'),
    Slot('of_fault', (FAULT_CODES,), '', 'watchdog of each fault of a sample; -1: none'),
    Slot('stale', (1,), '', 'watchdog of stale states; -1: none'),
    Slot('contact', (1,), '', 'watchdog of contacts; -1: none'),
    Slot('too_near', (1,), '', 'watchdog of pairs that are too near; -1: none'))

STOPPING_PLAN = Table(
    'stopping',
    Slot('rate', (1,), '1/s', 'rate of the exponential decay of the speed'),
    Slot('hardest', (1,), '1/s', 'highest rate before a position limit'),
    Slot('frequency', (1,), 'rad/s', 'natural frequency of the spring of comply'),
    Slot('retreat', (1,), 'rad, m', 'way of retract, of the joint that moves most'),
    Slot('retreat_speed', (1,), 'rad/s, m/s', 'speed of that joint'),
    Slot('idle', (1,), '', 'source of the torque after the final stop'),
    Slot('leaves', (1,), '', '1 if only this torque is wanted'),
    Slot('load', ('n',), 'N·m, N', 'torque that the joints need beside that of the model'))

OUTPUT_PLAN = Table(
    'output',
    Slot('fade_time', (1,), 's', 'duration of the fade from one source of torques to another'),
    Slot('limits', ('n',), 'N·m, N', 'limits of the torques'),
    Slot('rates', ('n',), 'N·m/s, N/s', 'limits of the rates of the torques'))

PLAN = Record('plan', ROBOT, GATE_PLAN, CAUSES_PLAN, STOPPING_PLAN, OUTPUT_PLAN)

GATE = Table(
    'gate',
    Slot('is_open', (1,), '', '1 after the first accepted state'),
    Slot('time', (1,), 's', 'time of the last accepted state: its stamp, while stamps advance'),
    Slot('came', (1,), 's', 'when the last accepted state arrived'),
    Slot('q', ('n',), 'rad, m', 'positions of the last accepted state'),
    Slot('qd', ('n',), 'rad/s, m/s', 'velocities of the last accepted state'),
    Slot('is_changed', (1,), '', '1 if the positions of the last accepted state had changed'),
    Slot('changed_time', (1,), 's', 'time of the last state whose positions had changed'),
    Slot('changed_came', (1,), 's', 'when that state arrived'),
    Slot('changed_q', ('n',), 'rad, m', 'positions of that state'),
    Slot('changed_qd', ('n',), 'rad/s, m/s', 'velocities of that state'),
    Slot('changes', (1,), '', 'number of changes of the positions so far'),
    Slot('change_times', (CHANGES,), 's', 'times of the last changes, in a ring'),
    Slot('change_q', (CHANGES, 'n'), 'rad, m', 'positions after these changes'),
    Slot('is_at_rest', (1,), '', '1 if repeated positions count as those of an arm at rest'),
    Slot('is_doubted', (1,), '', '1 after a state in doubt'),
    Slot('doubted_time', (1,), 's', 'time of the state in doubt'),
    Slot('doubted_q', ('n',), 'rad, m', 'positions of the state in doubt'),
    Slot('doubted_qd', ('n',), 'rad/s, m/s', 'velocities of the state in doubt'),
    Slot('agreed', (1,), '', 'states in a row that agree with the one doubted first'),
    Slot('interval', (1,), 's', 'mean interval of the states by their arrival'),
    Slot('spacing', (1,), 's', 'mean interval of the states by their stamps'),
    Slot('stamp', (1,), 's', 'stamp of the last state'),
    Slot('advanced', (1,), 's', 'when a stamp last advanced'),
    Slot('limits', ('n',), 'rad/s, m/s', 'speed limits in force'),
    Slot('slack', ('n',), 'rad/s, m/s', 'speeds above which a joint counts as too fast'),
    Slot('limits_time', (1,), 's', 'when the speeds were last compared with the limits'),
    Slot('was_fast', (1,), '', '1 if a joint was faster than its slack at the last comparison'))

CAUSES = Table(
    'causes',
    Slot('watches', (WATCHDOGS, 5), 's, s, –, s, –', 'of each cause: when its time-out began, '
         'when it was last present, whether it is active, how long there was no sign of life (0: '
         'it has another reason), how often it began'),
    Slot('cause', (1,), '', 'cause whose reaction has the highest priority; negative: see causes'),
    Slot('reaction', (1,), '', 'reaction to this cause; -1: none'),
    Slot('began', (1,), 's', 'when the reaction began'),
    Slot('rests', (1,), '', '1 if the arm has come to rest since the reaction began'),
    Slot('stops', (1,), '', '1 if a stop was requested'),
    Slot('is_blind', (1,), '', '1 if the last state is too old for control'),
    Slot('given_up', (3,), '–, –, rad/s', 'why the arm was given up: code (0: it was not), '
         'joint, speed'),
    Slot('times_given_up', (1,), '', 'how often the arm was given up'),
    Slot('stopped', (1,), '', 'what the law does first when a reaction has ended: 0 nothing, 1 '
         'its motions go on from where the arm is, 2 it holds the pose of the arm'))

STOPPING = Table(
    'stopping',
    Slot('anchor', ('n',), 'rad, m', 'position that hold, comply and retract converge to'),
    Slot('anchored', (1,), '', 'source of torques for which it was set'),
    Slot('positions', (1,), '', 'number of positions of the way that the arm came'),
    Slot('came', (WAY, 'n'), 'rad, m', 'the last of these positions, in a ring'),
    Slot('next', (1,), '', 'number of the position that the way back leads to next'),
    Slot('at', ('n',), 'rad, m', 'position on the way back'),
    Slot('left', (1,), 'rad, m', 'length of the rest of the way back'))

OUTPUT = Table(
    'output',
    Slot('has_sent', (1,), '', '1 after the first torque'),
    Slot('tau', ('n',), 'N·m, N', 'torque that was sent last'),
    Slot('before', ('n',), 'N·m, N', 'torque that was sent before it; NaN: none'),
    Slot('source', (1,), '', 'source of this torque, see stopping.SOURCES'),
    Slot('at', (1,), 's', 'when this torque was sent, on the clock of the loop'),
    Slot('time', (1,), 's', 'time of the state that was answered by this torque'),
    Slot('unasked', (1,), 's', 'time that was counted for torques without a new state since then'),
    Slot('was_blind', (1,), '', '1 if the state was too old when this torque was sent; -1: the '
         'model has changed since'),
    Slot('fade_duration', (1,), 's', 'duration of the fade from the last source; 0: none'),
    Slot('fade_age', (1,), 's', 'how long the fade has lasted'),
    Slot('fade_from', ('n',), 'N·m, N', 'difference of the torques at the beginning of the fade'),
    Slot('limits', ('n',), 'N·m, N', 'limits in force'),
    Slot('limits_wanted', ('n',), 'N·m, N', 'limits that come into force gradually'),
    Slot('limits_duration', (1,), 's', 'duration of this change of the limits; 0: none'),
    Slot('limits_age', (1,), 's', 'how long this change has lasted'),
    Slot('limits_away', ('n',), 'N·m, N', 'limits in force less wanted ones when it began'))

PREDICTION = Table(
    'prediction',
    Slot('sent', (1,), '', 'number of torques that were sent'),
    Slot('sent_times', (SENT,), 's', 'when the last torques were sent, in a ring'),
    Slot('sent_tau', (SENT, 'n'), 'N·m, N', 'the last torques that were sent, in a ring'),
    Slot('answered', (1,), '', 'number of states that were answered'),
    Slot('kept', (1,), '', 'how many of the last answered states are kept'),
    Slot('times', (ANSWERED,), 's', 'times of the answered states, in a ring'),
    Slot('q', (ANSWERED, 'n'), 'rad, m', 'positions of the answered states'),
    Slot('qd', (ANSWERED, 'n'), 'rad/s, m/s', 'velocities of the answered states'),
    Slot('tau', (ANSWERED, 'n'), 'N·m, N', 'the torques that were sent in response'),
    Slot('directed', (2, 'n'), 'N·m, N', 'torque that the model lacked while the joint moved '
         'forward, backward'),
    Slot('moved', (2, 'n'), 's', 'when the joint last moved forward, backward'),
    Slot('friction', ('n',), 'N·m, N', 'dry friction, by the difference of both; negative: '
         'unknown'),
    Slot('is_used', (1,), '', '1 while the arm is braked along the predicted state'),
    Slot('is_over', (1,), '', '1 if the prediction has ended'),
    Slot('began', (1,), 's', 'when the state arrived from which it began'),
    Slot('now', (1,), 's', 'time of the predicted state, on the clock of the loop'),
    Slot('at_q', ('n',), 'rad, m', 'predicted positions'),
    Slot('at_qd', ('n',), 'rad/s, m/s', 'predicted velocities'),
    Slot('unmodelled', ('n',), 'N·m, N', 'torque that the joints need beside that of the model'),
    Slot('dry_friction', ('n',), 'N·m, N', 'dry friction of the joints'),
    Slot('sides', ('n',), '', 'sides of the bounds of the friction, as integers'))

RESPONSE = Table(
    'response',
    Slot('last', (1,), 's', 'time of the last state that was compared'),
    Slot('pairs', (1,), '', 'number of pairs of torques that were compared in a row'),
    Slot('sent', (PAIRS, 'n'), 'N·m, N', 'torques that were sent, in a ring'),
    Slot('acting', (PAIRS, 'n'), 'N·m, N', 'torques that moved the arm then'),
    Slot('varied', (LAGS + 1, 'n'), 'N²·m², N²', 'sums of squared changes of torques that were '
         'sent, for each delay; older ones count less'),
    Slot('followed', (LAGS + 1, 'n'), 'N²·m², N²', 'sums of their products with those that acted'),
    Slot('moved', ('n',), 'N²·m², N²', 'sums of squared changes of those that acted'),
    Slot('disobeys', (1,), '', 'number of the joint that does not obey, from 1 on; 0: none'),
    Slot('hit', (1,), '', 'states for which external torques are not resisted'),
    Slot('energies', (1,), '', 'number of energies so far'),
    Slot('kept', (1,), '', 'how many of the last energies are kept'),
    Slot('energy', (ENERGIES, 2), 's, J', 'time and kinetic energy of a fast arm, in a ring'))

# Memory of an estimate of velocities.
ESTIMATE = (
    Slot('kept', (1,), '', 'number of positions that are kept'),
    Slot('newest', (1,), '', 'row of the newest of them'),
    Slot('times', (MOST,), 's', 'their stamps; the row after the last one is the first one'),
    Slot('positions', (MOST, 'n'), 'rad, m', 'the positions'),
    Slot('filter_time', (1,), 's', 'stamp of the last position of the longer fit'),
    Slot('filter_begin', (1,), 's', 'stamp of its first position'),
    Slot('filter', (3, 'n'), '', 'position, velocity and acceleration of the longer fit'),
    Slot('steps', ('n',), 'rad, m', 'resolution of the positions; 0: unknown'),
    Slot('estimate', ('n',), 'rad/s, m/s', 'the last estimate'),
    Slot('sums', (3, 'n'), '', 'room for the sums of a fit'))

VELOCITIES = Table(
    'velocities',
    *ESTIMATE,
    Slot('seen', (1,), '', 'number of states since the comparison last began anew'),
    Slot('stamps', (2,), 's', 'stamps of the last two states'),
    Slot('spacing', (1,), 's', 'mean time between two of them'),
    Slot('jumped', (1,), '', 'number of states in a row whose positions have jumped'),
    Slot('measured', (2, 'n'), 'rad/s, m/s', 'their velocities'),
    Slot('typical', ('n',), 'rad/s, m/s', 'velocities at the last state but one; medians of three '
         'for implausible ones'),
    Slot('travel', ('n',), 'rad, m', 'sum of the steps of the positions'),
    Slot('step', ('n',), 'rad, m', 'last one of these steps'),
    Slot('integral', ('n',), 'rad, m', 'integral of these velocities'),
    Slot('path', ('n',), 'rad, m', 'sum of the changes of the travel in the intervals'),
    Slot('rough', ('n',), 'rad, m', 'last difference of velocity · time and step'),
    Slot('noise', ('n',), 'rad², m²', 'sum of half the squares of its changes: the variance of '
         'the integral'),
    Slot('recent', (2, 'n'), 'rad, m', 'recent path lengths: of the velocities, of the positions'),
    Slot('rows', (1,), '', 'number of intervals so far'),
    Slot('row_times', (INTERVALS,), 's', 'ends of the last intervals, in a ring'),
    Slot('row_travel', (INTERVALS, 'n'), 'rad, m', 'travel at these times'),
    Slot('row_integral', (INTERVALS, 'n'), 'rad, m', 'integral at these times'),
    Slot('row_path', (INTERVALS, 'n'), 'rad, m', 'path at these times'),
    Slot('row_noise', (INTERVALS, 'n'), 'rad², m²', 'noise at these times'),
    Slot('kind', ('n',), '', 'why velocities of a joint are not used; FITS: they are used'),
    Slot('is_told', ('n',), '', '1 if this was reported'),
    Slot('figures', ('n', 3), 'see words', 'ratio, joint or delay [s] of the kind; integral and '
         'travel that did not fit'))

STATE = Record('state', GATE, CAUSES, STOPPING, OUTPUT, PREDICTION, RESPONSE, VELOCITIES)

GATE_RESULT = Table(
    'gate',
    Slot('has_jumped', (1,), '', '1 if the state was accepted although it is far from the last'),
    Slot('has_frozen', (1,), '', '1 if the rejection of frozen positions began: the last accepted '
         'state is now the last one whose positions had changed'),
    Slot('count', (1,), '', 'number of faults'),
    Slot('faults', (FAULTS, 5), 'see words', 'code, joint and three numbers of each fault'))

PLANS, WAITS = 1.0, 2.0
TORQUE = Table(
    'torque',
    Slot('tau', ('n',), 'N·m, N', 'torque to send'),
    Slot('has_changed', (1,), '', '1 if cause or reaction have changed with the state'),
    Slot('asks', (1,), '', 'what Python must do: PLANS, end a blend or plan a target, in its own '
         'time; WAITS, let the law go on after a reaction or a clock that goes back, or end the '
         'commands, before the next state'),
    Slot('touch', (1,), '', 'what touches something, see `contact`, if this was found before the '
         'torques'),
    Slot('pose', (4, 4), '–, m', "pose of the first task's link, base axes"),
    Slot('error', (6,), 'rad, m', 'error of the first task'),
    Slot('F', (6,), 'N·m, N', 'force of the first task'))

ROOM = Table(
    'room',
    Slot('matrix', ('n', 'n'), '', 'memory for an inertia matrix'),
    Slot('factor', ('n', 'n'), '', 'memory for its factor'),
    Slot('inverse', ('n', 'n'), '', 'memory for its inverse'),
    Slot('chosen', ('n',), '', 'memory for indices, as integers'),
    Slot('wanted', ('n',), 'N·m, N', 'torque of the source, before fade and limits'),
    Slot('unmodelled', ('n',), 'N·m, N', 'torque that stopping adds to that of the model'),
    Slot('driving', ('n',), 'N·m, N', 'torque that drives the model in the step of a prediction'),
    Slot('rows', (16, 'n'), '', 'memory for vectors'))

RESULT = Record('result', GATE_RESULT, TORQUE, ROOM)
