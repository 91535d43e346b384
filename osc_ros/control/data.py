# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The records of a controller. Python writes M, from settings and robot. Each tick changes D.

Stages take both, or the record LAW that has them. M and D are those of the supervisor, LAW_M and
LAW_D those of a law for one choice of settings, RUN is that of the law for all of them. Motions,
observer, compensation, contacts and clearance have records of their own; `Engine.state_arrays` has
all that a checkpoint copies.
"""

from __future__ import annotations

from osc_ros.compile.record_type import FLOATS, INTEGERS, Slot, Table
from osc_ros.dynamics.priority.priority import LEVELS_D, LEVELS_M, LEVELS_ROOM

CHANGES = 64  # length of the ring buffer of changes of the positions
FAULTS = 3  # largest number of faults of one state
FAULT_CODES = 9  # number of fault codes
WATCHDOGS = 16  # largest number of watchdogs
WAY = 512  # length of the ring buffer of positions for 'retract'
SENT = 512  # length of the ring buffer of sent torques, with their times
ANSWERED = 24  # length of the ring buffer of states and the torques sent for them
PAIRS = 9  # length of the ring buffer of sent and acting torques
LAGS = 4  # largest delay of the torques that is considered [periods]
ENERGIES = 128  # length of the ring buffer of kinetic energies of an arm that is too fast
MOST = 48  # largest number of positions for an estimate of velocities
INTERVALS = 32  # length of the ring buffer of intervals for comparing velocities and positions
PLANS, WAITS = 1, 2  # values of `asks`
LIMITS = 8  # number of rows of `Limits.table`
MOST_NEAR = 16  # largest number of rows of near pairs
RATIOS = 100  # number of damping ratios in `carried`
FRICTION = 'N·m, N; N·m·s/rad, N·s/m'  # units of dry and viscous friction
# A robot, and the torques that its driver adds to commands, see `model_error.command_model`.
MODEL = Table(
    'Model',
    Slot('driver_adds', (), '', 'what the driver adds: index in `driver.COMPENSATES`', int),
    Slot('robot_integers', (), '', 'of the robot, see `trees.tree_layout`', INTEGERS),
    Slot('robot_numbers', (), '', 'of the robot', FLOATS),
    Slot('robot_room', (), '', 'memory of the robot', FLOATS),
    Slot('gravity', (), 'm/s²', 'gravity (3,), a part of `robot_numbers`', FLOATS),
    Slot('driver_integers', (), '', "of the driver's model of the robot", INTEGERS),
    Slot('driver_numbers', (), '', "of the driver's model", FLOATS),
    Slot('driver_room', (), '', "memory of the driver's model", FLOATS),
    Slot('driver_gravity', (), 'm/s²', 'gravity (3,), a part of `driver_numbers`', FLOATS))
BOUNDS = f'3n + {MOST_NEAR}'  # most bounds: of accelerations, torques, loads, distances

M = Table(
    'M',
    # the robot
    Slot('fastest', ('n',), 'rad/s, m/s', 'velocity limits'),
    Slot('lower', ('n',), 'rad, m', 'lower position limits'),
    Slot('upper', ('n',), 'rad, m', 'upper position limits'),
    Slot('turns', ('n',), '', 'whether each joint is continuous, so that its position is an '
         'angle', bool),
    # check of a state
    Slot('period', (), 's', 'expected interval of the states'),
    Slot('blend_time', (), 's', 'time constant with which lower speed limits come '
         'into force; duration of a change of effort limits or of the model'),
    Slot('speed_limits', ('n',), 'rad/s, m/s', 'speeds above which a joint is too fast'),
    # watchdogs
    Slot('settle_time', (), 's', 'time without a cause before its reaction ends'),
    Slot('bridges', (), '', 'whether a missing state is bridged by prediction', bool),
    Slot('watchdog_count', (), '', 'number of watchdogs', int),
    Slot('fault_watchdog', (FAULT_CODES,), '', 'watchdog of each fault of a state; -1: none', int),
    Slot('stale_watchdog', (), '', 'watchdog of stale states; -1: none', int),
    Slot('contact_watchdog', (), '', 'watchdog of contacts; -1: none', int),
    Slot('reacts_to_contact', (), '', "whether the watchdog 'contact' has a reaction, whose "
         'torque is sent in place of that of the law', bool),
    Slot('too_near_watchdog', (), '', 'watchdog of pairs that are too near; -1: none', int),
    Slot('payload_watchdog', (), '', 'watchdog of a payload that is not carried; -1: none', int),
    Slot('timeout', (WATCHDOGS,), 's', 'time-out of each watchdog'),
    Slot('watch_reaction', (WATCHDOGS,), '', 'reaction of each watchdog, as an index in '
         'REACTIONS', int),
    Slot('is_latched', (WATCHDOGS,), '', 'whether each watchdog is latched', bool),
    # stopping
    Slot('stop_rate', (), '1/s', 'rate at which the speed decays exponentially while braking'),
    Slot('hardest_rate', (), '1/s', 'highest braking rate before a position limit'),
    Slot('comply_frequency', (), 'rad/s', 'natural frequency of the spring of comply'),
    Slot('retreat', (), 'rad, m', 'distance of retract, of the joint that moves most'),
    Slot('retreat_speed', (), 'rad/s, m/s', 'speed during retract, of the joint that moves most'),
    Slot('idle_source', (), '', 'source that computes the torque when the arm has come '
         'to its final stop', int),
    # torques that are sent
    Slot('fade_time', (), 's', 'duration of the fade from one source of torques to another'),
    Slot('effort_limits', ('n',), 'N·m, N', 'limits of the torques'),
    Slot('effort_rates', ('n',), 'N·m/s, N/s', 'limits of the rates of the torques'))

# Memory of an estimate of velocities, see `osc_ros.control.safety.velocity_check`.
ESTIMATE = (
    Slot('fit_count', (), '', 'number of positions in the fit of the velocities', int),
    Slot('fit_newest', (), '', 'row of `fit_q` with the newest position', int),
    Slot('fit_times', (MOST,), 's', 'stamps of the positions in `fit_q`, in a ring buffer'),
    Slot('fit_q', (MOST, 'n'), 'rad, m', 'the last positions, in a ring buffer'),
    Slot('fit_qd', (MOST, 'n'), 'rad/s, m/s', 'measured velocities there; 0: unknown'),
    Slot('filter_time', (), 's', 'stamp of the last position of the longer fit'),
    Slot('filter_begin', (), 's', 'stamp of the first position of the longer fit'),
    Slot('filter', (4, 'n'), '', 'position, velocity, acceleration and error of the longer fit'),
    Slot('fit_memory', ('n',), 's', 'time constant of the longer fit, unless a force acts'),
    Slot('model_change', ('n',), 'rad/s², m/s²', 'change of the acceleration of the model since '
         'the last state; 0: unknown'),
    Slot('steps', ('n',), 'rad, m', 'resolution of the positions; 0: unknown'),
    Slot('divisor', ('n',), 'rad, m', 'common divisor of the last steps of the positions'),
    Slot('divided', ('n',), '', 'number of these steps', int),
    Slot('is_varied', ('n',), '', 'whether they are different multiples of the divisor', bool),
    Slot('is_learned', ('n',), '', 'whether `steps` was learned from enough steps', bool),
    Slot('noise_steps', ('n',), 'rad, m', 'height of steps whose rounding has the variance of the '
         'noise of the positions'),
    Slot('noise_sums', ('n',), 'rad², m²', 'sums of the squares of differences of the positions'),
    Slot('noise_count', (), '', 'number of these differences so far', int),
    Slot('velocity_memory', (), 's', 'longest time constant of the last velocities if they are '
         'estimates from coarse positions; otherwise 0'),
    Slot('velocity_error', ('n',), 'rad/s, m/s', 'error of these velocities; otherwise 0'),
    Slot('estimate', ('n',), 'rad/s, m/s', 'the last estimate of the velocities'),
    Slot('fit_sums', (3, 'n'), '', 'room for the sums of a fit'))

D = Table(
    'D',
    # the newest joint state
    Slot('sample_time', (), 's', 'stamp of the newest joint state'),
    Slot('now', (), 's', 'when the newest joint state arrived, on the clock of the loop'),
    Slot('sample_q', ('n',), 'rad, m', 'positions of the newest joint state'),
    Slot('sample_qd', ('n',), 'rad/s, m/s', 'velocities of the newest joint state'),
    Slot('sample_effort', ('n',), 'N·m, N', 'measured torques of the newest joint state; NaN '
         'where they are unknown'),
    # check of a state
    Slot('is_open', (), '', 'whether a state has been accepted', bool),
    Slot('time', (), 's', 'time of the last accepted state: its stamp, while stamps advance'),
    Slot('came', (), 's', 'when the last accepted state arrived, on the clock of the loop'),
    Slot('q', ('n',), 'rad, m', 'positions of the last accepted state'),
    Slot('qd', ('n',), 'rad/s, m/s', 'velocities of the last accepted state'),
    Slot('is_changed', (), '', 'whether the last accepted state had changed positions', bool),
    Slot('changed_time', (), 's', 'time of the last state with changed positions'),
    Slot('changed_came', (), 's', 'when the last state with changed positions arrived'),
    Slot('changed_q', ('n',), 'rad, m', 'positions of the last state with changed positions'),
    Slot('changed_qd', ('n',), 'rad/s, m/s', 'velocities of the last state with changed '
         'positions'),
    Slot('changes', (), '', 'number of changes of the positions so far', int),
    Slot('change_times', (CHANGES,), 's', 'times of the last changes, in a ring buffer'),
    Slot('change_q', (CHANGES, 'n'), 'rad, m', 'positions after the last changes, in a ring '
         'buffer like `change_times`'),
    Slot('is_at_rest', (), '', 'whether repeated positions mean an arm at rest', bool),
    Slot('is_doubted', (), '', 'whether the last state was in doubt', bool),
    Slot('doubted_time', (), 's', 'time of the state in doubt'),
    Slot('doubted_q', ('n',), 'rad, m', 'positions of the state in doubt'),
    Slot('doubted_qd', ('n',), 'rad/s, m/s', 'velocities of the state in doubt'),
    Slot('agreed', (), '', 'number of successive states that agree with the state in doubt '
         'before them', int),
    Slot('interval', (), 's', 'mean interval of the states by their arrival'),
    Slot('spacing', (), 's', 'mean interval of the states by their stamps'),
    Slot('stamp', (), 's', 'stamp of the last state'),
    Slot('advanced', (), 's', 'when a stamp last advanced'),
    Slot('speed_limits', ('n',), 'rad/s, m/s', 'speed limits in force'),
    Slot('speed_slack', ('n',), 'rad/s, m/s', 'speeds above which a joint counts as too fast'),
    Slot('speed_time', (), 's', 'when the speeds were last compared with the limits'),
    Slot('was_fast', (), '', 'whether a joint exceeded `speed_slack` at `speed_time`', bool),
    # faults of the newest state
    Slot('has_jumped', (), '', 'whether the state was accepted although it is far from the last',
         bool),
    Slot('has_frozen', (), '', 'whether the positions have begun to be frozen: the last accepted '
         'state is now the last one with changed positions', bool),
    Slot('fault_count', (), '', 'number of faults of the newest state', int),
    Slot('faults', (FAULTS, 5), 'mixed', 'of each fault of the newest state: code, joint and '
         'three numbers, see `sample`'),
    # comparison of velocities and positions
    *ESTIMATE,
    Slot('states_seen', (), '', 'number of states since the comparison began', int),
    Slot('stamps', (2,), 's', 'stamps of the last two states'),
    Slot('stamp_spacing', (), 's', 'mean time between two stamps'),
    Slot('jumped', (), '', 'number of states in a row whose positions have jumped', int),
    Slot('measured', (2, 'n'), 'rad/s, m/s', 'measured velocities of the last two states'),
    Slot('typical', ('n',), 'rad/s, m/s', 'velocities at the last state but one; medians of three '
         'for implausible ones'),
    Slot('travel', ('n',), 'rad, m', 'sum of the steps of the positions'),
    Slot('travel_step', ('n',), 'rad, m', 'last step of the positions'),
    Slot('integral', ('n',), 'rad, m', 'integral of the velocities `typical`'),
    Slot('path', ('n',), 'rad, m', 'sum of the sizes of the changes of `travel`, from interval '
         'to interval'),
    Slot('exceeded', ('n',), '', 'how much a velocity exceeded its bounds recently, see '
         '`velocity_check`'),
    Slot('fit_way', ('n',), 'rad, m', 'way from the last position of a fit back to the first'),
    Slot('fit_said', ('n',), 'rad, m', 'integral of the velocities in this time'),
    Slot('fit_slope', ('n',), 'rad/s, m/s', 'slope of the positions in its first interval'),
    Slot('fit_rough', ('n',), 'rad/s, m/s', 'largest change of this slope'),
    Slot('fit_first', ('n',), 'rad/s, m/s', 'mean error of the velocities in the last interval'),
    Slot('fit_step', ('n',), 'rad, m', 'largest step of the positions in this time'),
    Slot('fit_error', ('n',), 'rad/s, m/s', 'error of the slope of the positions'),
    Slot('fit_left', ('n',), 'rad/s, m/s', 'mean error of the velocities that noise does not '
         'explain'),
    Slot('watched_until', (), 's', 'stamp until which the model helps to estimate velocities'),
    Slot('model_qdd', ('n',), 'rad/s², m/s²', 'last acceleration that the model gave'),
    Slot('model_time', (), 's', 'stamp of the state to which it belongs'),
    Slot('rough', ('n',), 'rad, m', 'last difference of velocity · time and step'),
    Slot('noise', ('n',), 'rad², m²', 'sum of half the squares of the changes of `rough`: the '
         'variance of `integral`'),
    Slot('has_leapt', (), '', 'whether a velocity of the last state jumped and no position', bool),
    Slot('speed_jumps', (), '', 'number of jumps of velocities without the positions', int),
    Slot('rows', (), '', 'number of intervals so far', int),
    Slot('row_times', (INTERVALS,), 's', 'times at which the last intervals ended, in a ring '
         'buffer'),
    Slot('row_travel', (INTERVALS, 'n'), 'rad, m', '`travel` at the end of each interval'),
    Slot('row_integral', (INTERVALS, 'n'), 'rad, m', '`integral` at the end of each interval'),
    Slot('row_path', (INTERVALS, 'n'), 'rad, m', '`path` at the end of each interval'),
    Slot('row_noise', (INTERVALS, 'n'), 'rad², m²', '`noise` at the end of each interval'),
    Slot('velocity_kind', ('n',), '', 'why velocities of a joint are not used; FITS: they are '
         'used', int),
    Slot('replaced_at', (), 's', 'when velocities of a joint were last found not to fit'),
    Slot('is_told', ('n',), '', 'whether unused velocities of a joint were reported', bool),
    Slot('kind_figures', ('n', 3), 'mixed', 'of a joint whose velocities are not used: ratio, '
         'joint or delay [s], see `velocity_check`; integral and travel that did not fit'),
    # causes and reactions
    Slot('cause', (), '', 'cause whose reaction has the highest priority; < 0: see causes', int),
    Slot('reaction', (), '', 'reaction to `cause`; -1: none', int),
    Slot('reaction_began', (), 's', 'when the reaction began'),
    Slot('rests', (), '', 'whether the arm has come to rest since the reaction began', bool),
    Slot('stops', (), '', 'whether a stop was requested', bool),
    Slot('is_blind', (), '', 'whether the last state is too old for control', bool),
    Slot('times_given_up', (), '', 'how often the arm was given up', int),
    Slot('stopped', (), '', 'what the law does first when a reaction has ended: 0 nothing, 1 its '
         'motions go on from where the arm is, 2 it holds the pose of the arm', int),
    Slot('fed', (WATCHDOGS,), 's', 'when the time-out of each cause began'),
    Slot('seen', (WATCHDOGS,), 's', 'when each cause was last present'),
    Slot('is_active', (WATCHDOGS,), '', 'whether the cause of each watchdog is active', bool),
    Slot('silent', (WATCHDOGS,), 's', 'how long each cause had no sign of life; 0: it has '
         'another reason'),
    Slot('begun', (WATCHDOGS,), '', 'how often each cause has become active', int),
    Slot('given_up', (), '', 'why the arm was given up, see causes; 0: it was not', int),
    Slot('given_up_joint', (), '', 'joint because of which the arm was given up', int),
    Slot('given_up_speed', (), 'rad/s, m/s', 'speed of `given_up_joint` then'),
    # prediction without states
    Slot('log_count', (), '', 'number of torques that were sent', int),
    Slot('log_times', (SENT,), 's', 'when the last torques were sent, in a ring buffer'),
    Slot('log_tau', (SENT, 'n'), 'N·m, N', 'the torques that were sent at `log_times`'),
    Slot('answers', (), '', 'number of states that were answered', int),
    Slot('answers_kept', (), '', 'how many of the last answered states are kept', int),
    Slot('answer_times', (ANSWERED,), 's', 'times of the answered states, in a ring buffer'),
    Slot('answer_q', (ANSWERED, 'n'), 'rad, m', 'positions of the answered states'),
    Slot('answer_qd', (ANSWERED, 'n'), 'rad/s, m/s', 'velocities of the answered states'),
    Slot('answer_tau', (ANSWERED, 'n'), 'N·m, N', 'the torques that were sent for the answered '
         'states'),
    Slot('directed', (2, 'n'), 'N·m, N', 'torque that the model lacked while the joint moved '
         'forward, backward'),
    Slot('moved_time', (2, 'n'), 's', 'when the joint last moved forward, backward'),
    Slot('known_friction', ('n',), 'N·m, N', 'dry friction, by the difference of both rows of '
         '`directed`; negative: unknown'),
    Slot('predicts', (), '', 'whether the arm is braked along the predicted state', bool),
    Slot('is_over', (), '', 'whether the prediction has ended', bool),
    Slot('predicted_from', (), 's', 'when the state arrived from which the prediction began'),
    Slot('predicted_now', (), 's', 'time of the predicted state, on the clock of the loop'),
    Slot('predicted_q', ('n',), 'rad, m', 'predicted positions'),
    Slot('predicted_qd', ('n',), 'rad/s, m/s', 'predicted velocities'),
    Slot('predicted_load', ('n',), 'N·m, N', 'torque that the joints need beside that of the '
         'model, during a prediction'),
    Slot('dry_friction', ('n',), 'N·m, N', 'dry friction of the joints'),
    Slot('friction_sides', ('n',), '', 'sides of the bounds of the friction, as integers', int),
    # response of the joints to the torques
    Slot('compared_time', (), 's', 'time of the last state that was compared'),
    Slot('pairs', (), '', 'number of pairs of torques that were compared in a row', int),
    Slot('pair_sent', (PAIRS, 'n'), 'N·m, N', 'torques that were sent, in a ring buffer'),
    Slot('pair_acting', (PAIRS, 'n'), 'N·m, N', 'torques that moved the arm when `pair_sent` '
         'were sent'),
    Slot('varied', (LAGS + 1, 'n'), 'N²·m², N²', 'sums of squared changes of torques that were '
         'sent, for each delay; older ones count less'),
    Slot('followed', (LAGS + 1, 'n'), 'N²·m², N²', 'sums of the products of the changes of sent '
         'torques and acting torques, for each delay'),
    Slot('acting_varied', ('n',), 'N²·m², N²', 'sums of squared changes of the acting torques'),
    Slot('disobeys', (), '', 'number of the joint that does not obey, from 1 on; 0: none', int),
    Slot('hit', (), '', 'states for which external torques are not resisted', int),
    Slot('energies', (), '', 'number of kinetic energies so far', int),
    Slot('energies_kept', (), '', 'how many of the last kinetic energies are kept', int),
    Slot('energy_times', (ENERGIES,), 's', 'when the values of `kinetic` were computed'),
    Slot('kinetic', (ENERGIES,), 'J', 'kinetic energies of an arm that is too fast, in a ring '
         'buffer'),
    # stopping
    Slot('leaves', (), '', 'whether only the torque after the final stop is wanted', bool),
    Slot('load', ('n',), 'N·m, N', 'torque that the joints need beside that of the model, by the '
         'compensation of model errors'),
    Slot('anchor', ('n',), 'rad, m', 'position that hold, comply and retract converge to'),
    Slot('anchor_source', (), '', 'source of torques for which `anchor` was set', int),
    Slot('way_count', (), '', 'number of positions of the way that the arm came', int),
    Slot('way', (WAY, 'n'), 'rad, m', 'the last positions of the way that the arm came, in a '
         'ring'),
    Slot('way_next', (), '', 'number of the position that the way back leads to next', int),
    Slot('way_at', ('n',), 'rad, m', 'position on the way back'),
    Slot('way_left', (), 'rad, m', 'length of the rest of the way back'),
    # torques that are sent
    Slot('has_sent', (), '', 'whether a torque was sent', bool),
    Slot('sent', ('n',), 'N·m, N', 'torque that was sent last'),
    Slot('sent_before', ('n',), 'N·m, N', 'torque that was sent before `sent`; NaN: none'),
    Slot('source', (), '', 'source of `sent`, see stopping.SOURCES', int),
    Slot('sent_at', (), 's', 'when `sent` was sent, on the clock of the loop'),
    Slot('sent_time', (), 's', 'time of the state for which `sent` was computed'),
    Slot('unasked', (), 's', 'time counted for torques without a new state since `sent_time`'),
    Slot('was_blind', (), '', '1 if the state was too old when `sent` was sent; -1: the model '
         'has changed since; -2: another load explains the motion', int),
    Slot('fade_duration', (), 's', 'duration of the fade from the last source; 0: none'),
    Slot('fade_age', (), 's', 'how long the fade has lasted'),
    Slot('fade_from', ('n',), 'N·m, N', 'difference of the torques at the beginning of the fade'),
    Slot('effort_limits', ('n',), 'N·m, N', 'torque limits in force'),
    Slot('effort_wanted', ('n',), 'N·m, N', 'torque limits that come into force gradually'),
    Slot('effort_age', (), 's', 'how long the torque limits have been changing'),
    Slot('elapsed', (), 's', 'time from the torque before to the one that is sent now'),
    Slot('model', (), '', 'model of the torques of reactions, of the law in force', MODEL),
    # results for the caller
    Slot('tau', ('n',), 'N·m, N', 'torque to send'),
    Slot('has_changed', (), '', 'whether cause or reaction have changed with the state', bool),
    Slot('asks', (), '', 'what Python must do: PLANS, end a blend or plan a target, in its own '
         'time; WAITS, let the law go on after a reaction or a clock that goes back, or '
         'end the commands, before the next state', int),
    Slot('touch', (), '', 'what touches something, see `contact`, if this was found before the '
         'torques', int),
    Slot('tip_pose', (4, 4), '–, m', "pose of the first task's link, base axes"),
    Slot('tip_error', (6,), 'rad, m', 'error of the first task'),
    Slot('tip_F', (6,), 'N·m, N', 'force of the first task'),
    room=(
        Slot('room_matrix', ('n', 'n'), '', 'memory for an inertia matrix'),
        Slot('room_factor', ('n', 'n'), '', 'memory for a factor of `room_matrix`'),
        Slot('room_inverse', ('n', 'n'), '', 'memory for the inverse of `room_matrix`'),
        Slot('room_chosen', ('n',), '', 'memory for indices', int),
        Slot('wanted', ('n',), 'N·m, N', 'torque of the source, before fade and limits'),
        Slot('stop_load', ('n',), 'N·m, N', 'torque that stopping adds to that of the model'),
        Slot('driving', ('n',), 'N·m, N', 'torque that drives the model in one step'),
        Slot('room_rows', (16, 'n'), '', 'memory for vectors')))

# Blend of the torques of two laws, while one replaces the other; its end sets it to zero.
OF_BLEND = (
    Slot('blend_weight', (), '', 'share of the replaced law, 1 to 0; 0: there is none'),
    Slot('blend_time', (), 's', 'stamp of the last tick of the blend'),
    Slot('blend_age', (), 's', 'time since the blend began'),
    Slot('blend_duration', (), 's', 'length of the blend'),
    Slot('blends_load', (), '', 'whether the laws have different robots', bool),
    Slot('tau_carried', ('n',), 'N·m, N', 'compensation of model errors that only the replaced '
         'law needs, because the new model includes it'))

# Of a law, whatever its settings; both laws of a blend use it.
RUN = Table(
    'Run',
    # the last ticks
    Slot('tick_time', (), 's', 'stamp of the last tick; `Law.hold` does not change it'),
    Slot('noted_time', (), 's', 'stamp of the last state that counts in `mean_period`'),
    Slot('mean_period', (), 's', 'mean period of the states; 0 before the first interval'),
    Slot('delay', (), '', 'periods from the stamp of a state to the torque computed from it'),
    Slot('wanted_delay', (), '', 'the value that `delay` approaches'),
    Slot('ticks', (), '', 'number of the remembered ticks, 0 to 2', int),
    Slot('tick_times', (2,), 's', 'stamps of the last tick and of the one before'),
    Slot('tick_q', (2, 'n'), 'rad, m', 'positions at these ticks; after `Law.hold`, the first '
         'row has the positions of the arm'),
    Slot('tick_qd', (2, 'n'), 'rad/s, m/s', 'velocities at these ticks'),
    Slot('tick_tau', (2, 'n'), 'N·m, N', 'torques of these ticks'),
    Slot('gravity', (3,), 'm/s²', 'gravity in the base frame, less the acceleration of the base'),
    Slot('wanted_gravity', (3,), 'm/s²', 'the value that `gravity` approaches'),
    # which load explains the motion: that of the law, or the other one, see `step.react`
    Slot('residuals', (2, 'n'), 'N·m, N', 'mean torques that the model of either load lacks'),
    Slot('scatter', ('n',), 'N²·m², N²', 'mean square of the deviations from the first of them'),
    Slot('has_other_load', (), '', 'whether the other load explains the motion better', bool),
    Slot('in_contact', (), '', 'whether a contact is known: the compensation then does '
         'not grow', bool),
    Slot('speed_override', (), '', 'factor on the speed of all motions, 0 to 1'),
    *OF_BLEND)

# Of each law that is compiled for one choice of settings.
LAW_M = Table(
    'LawM',
    # limits of the law
    Slot('limits', (LIMITS, 'n'), 'see limits', 'the limits after a change: `Limits.table`'),
    Slot('blend_time', (), 's', 'duration of changes of limits, activations and wrenches'),
    # bodies of the robot, see `limits.bodies`
    Slot('body_parent', ('n',), '', 'index of the body that each body is joined to; -1: the base',
         int),
    Slot('body_joint', ('n',), '', 'index of the joint of each body in q', int),
    Slot('body_slides', ('n',), '', 'whether the joint is prismatic', bool),
    Slot('body_turn', ('n', 9), '', 'rotation of each body to its parent at q = 0'),
    Slot('body_place', ('n', 3), 'm', 'origin of each body in its parent at q = 0'),
    Slot('body_mass', ('n',), 'kg', 'mass of each body'),
    Slot('body_moment', ('n', 3), 'kg·m', 'first moment of each body about its origin'),
    Slot('payload_ratio', (), '', 'see `limits.payload_ratio`'),
    Slot('longest_period', (), 's', 'longest period of the states at which all gains are stable '
         'as set'),
    Slot('period_stretch', (), '', 'factor on the period in the bounds of the gains, see '
         '`bandwidth.stretch`'),
    Slot('observes', (), '', 'whether external torques are estimated', bool),
    Slot('compensates', (), '', 'whether model errors are compensated', bool),
    Slot('compensates_friction', (), '', 'whether friction is compensated', bool),
    Slot('friction', (2, 'n'), FRICTION, 'dry and viscous friction that is compensated'),
    Slot('sliding', (), 'rad/s, m/s', 'width of the transition between the directions'),
    # tasks
    *LEVELS_M,
    Slot('task_kind', ('k',), '', 'kind of each task, as an index in `KINDS`', int),
    Slot('kind_numbers', ('k', 9), '', 'numbers of the kind'),
    Slot('turns_with', ('k',), '', 'index of the link that the axes rotate with, -1 for none',
         int),
    # axes that rotate with a link without a task, see `kinematics.put_link_axes`
    Slot('frame_count', ('k',), '', 'number of rotations; 0: the axes are not those of a link',
         int),
    Slot('frame_rotations', ('k', 'n + 1', 9), '', 'rotations from link to link'),
    Slot('frame_turns', ('k', 'n + 1'), '', 'whether a joint turns after each rotation', bool),
    Slot('frame_places', ('k', 'n + 1'), '', 'index of its position', int),
    Slot('is_spring', ('k',), '', 'whether each task is a spring', bool),
    Slot('moves', ('k', 6), '', '1 where motion is controlled'),
    Slot('forces', ('k', 6), '', '1 for axes of force'),
    Slot('has_force', (), '', 'whether a task has axes of force', bool),
    Slot('feedback_bounds', ('k', 4), 'rad/s, m/s, rad/s², m/s²; N·m, N, N·m, N', 'bounds of the '
         'feedback'),
    Slot('wanted_activation', ('k', 6), '', 'activation of each axis after its change'),
    Slot('closes_force', ('k',), '', 'whether measured wrenches are used', bool),
    Slot('force_gain', ('k',), '', 'gain of the filtered force error'),
    Slot('force_correction', ('k', 2), 'N·m, N', 'largest moment and force by the gain, and by '
         'the integral'),
    Slot('target_records', ('k', 2), '', "addresses of the records of the tasks' targets", int),
    # free drive
    Slot('hand_damping', (2,), 'N·m·s/rad, N·s/m', 'damper between tip and base'),
    Slot('hand_rate', (), '1/s', 'rate at which the velocities of the joints decay'),
    Slot('hand_speed', (2,), 'rad/s, m/s', 'speed of the tip above which this rate rises'),
    Slot('hand_slow', ('n',), 's/rad, s/m', 'inverse of the speed of each joint above which it '
         'rises'),
    Slot('hand_axes', (6,), '', '1 for free axes, in the frame of the first task'),
    Slot('hand_friction', (), '', 'share of the friction that is compensated'),
    Slot('wall_stiffness', (), 'N/m', 'stiffness of the walls'),
    Slot('wall_depth', (), 'm', 'distance before the walls at which they begin to push'),
    Slot('wall_box', (2, 3), 'm', 'the walls: lowest and highest position of the tip'),
    Slot('is_guided', (), '', 'whether the arm is in free drive', bool),
    Slot('drives_joints', (), '', 'whether the joints follow goals of their own', bool))

# State of the commanded impedances of the tasks, see `osc_ros.control.tasks.impedance`.
IMPEDANCE = (
    Slot('is_commanded', ('k',), '', 'whether an impedance was commanded', bool),
    Slot('wanted_impedance', ('k', 3, 6), 'N·m/rad, N/m; –; N·m, N', 'commanded stiffness, '
         'damping ratio and feedforward wrench, axes of the task'),
    Slot('impedance_stamp', ('k',), 's', 'stamp of the newest impedance command'),
    Slot('impedance_ramp', ('k',), 's', 'time after which 1 % of a step of the impedance remains'),
    Slot('tank_capacity', ('k',), 'J', 'capacity of the energy tank; infinite: no limit'),
    Slot('carried', ('k', 2, RATIOS), '–; –', 'damping ratios, and for each the largest stable '
         'product of natural frequency and period'),
    Slot('impedance_rate', ('k', 3, 6), 'N·m/rad, N/m; –; N·m, N; per s', 'rates of change of '
         '`impedance`'),
    Slot('impedance', ('k', 3, 6), 'N·m/rad, N/m; –; N·m, N', 'impedance in force'),
    Slot('last_stiffness', ('k', 6), 'N·m/rad, N/m', 'stiffness in force at the tick before'),
    Slot('tank_energy', ('k',), 'J', 'energy in the tank'),
    Slot('added_energy', ('k',), 'J', 'energy that rises of the stiffness added to the spring'),
    Slot('freed_energy', ('k',), 'J', 'energy that falls of the stiffness took from it'),
    Slot('dissipated_energy', ('k',), 'J', 'least energy that the damper dissipated'),
    Slot('carried_share', ('k',), '', 'share of the commanded stiffness that the loop can carry'),
    Slot('impedance_time', ('k',), 's', 'time of the last tick of the impedance; -infinite before '
         'the first'))

# State of the limits of a law, which `Limiter.forget` resets.
OF_LIMITS = (
    Slot('limits', (LIMITS, 'n'), 'see limits', 'the limits in force'),
    *(Slot(name, ('n',), unit, f'{what} in force', row=('limits', i))
      for i, (name, unit, what) in enumerate((
          ('least_q', 'rad, m', 'lower position limits'),
          ('most_q', 'rad, m', 'upper position limits'),
          ('most_speed', 'rad/s, m/s', 'speed limits'),
          ('deceleration', 'rad/s², m/s²', 'decelerations'),
          ('reaction_rate', '1/s', 'inverse reaction times'),
          ('most_effort', 'N·m, N', 'limits of the torques'),
          ('most_effort_rate', 'N·m/s, N/s', 'limits of the rates of the torques'),
          ('soft_zone', 'rad, m', 'depths of the soft zones')))),
    Slot('limits_age', (), 's', 'how long the limits have been changing'),
    Slot('qdd_posture', ('n',), 'rad/s², m/s²', 'acceleration of the posture'),
    Slot('qdd_law', ('n',), 'rad/s², m/s²', 'acceleration of the law'),
    Slot('lowest', ('n',), 'rad/s², m/s²', 'lower bounds of the acceleration'),
    Slot('highest', ('n',), 'rad/s², m/s²', 'upper bounds of the acceleration'),
    Slot('unexplained', ('n',), 'rad/s², m/s²', 'average of the measured minus '
         'the commanded acceleration'),
    Slot('unexplained_before', ('n',), 'rad/s², m/s²', '`unexplained` of the last tick; NaN: '
         'unknown'),
    Slot('surprise', ('n',), 'rad/s², m/s²', 'what this difference exceeds its average by'),
    Slot('surprise_gain', ('n',), '', 'factor on the weight of `surprise` in the average'),
    Slot('measured_speed', ('n',), 'rad/s, m/s', 'velocities of this tick'),
    Slot('speed_before', ('n',), 'rad/s, m/s', 'velocities of the last tick'),
    Slot('commanded', (4, 'n'), 'rad/s², m/s²', 'acceleration commanded 0, 1, 2, 3 ticks ago'),
    Slot('sides', (3, 'n'), '', '-1 or 1 for accelerations, torques and loads at a bound, else 0',
         int),
    *(Slot(f'{name}_sides', ('n',), '', f'of the {name}s', int, ('sides', i))
      for i, name in enumerate(('acceleration', 'torque', 'load'))),
    Slot('near_numbers', (MOST_NEAR,), '', '`row_number` of the near pairs', int),
    Slot('near_sides', (MOST_NEAR,), '', '1 for those at a bound, else 0', int),
    Slot('gentle', (), 's', 'time for which the rate of the torques is still limited to '
         'nearest.GENTLE_RATE, because of near pairs or new settings'),
    Slot('guided', (), '', 'share of the rules of free drive in the limits'),
    Slot('damping_share', (), '', 'share of the posture that damping replaces'),
    Slot('loads_idle', (), '', 'ticks until the loads are computed again', int),
    Slot('row_count', (), '', 'number of gravity loads and near pairs in `row_of_q`', int),
    Slot('counts_unexplained', (), '', 'whether the bounds count accelerations that torques do '
         'not explain, as of a push; not if torques act so late that these come from earlier ones',
         bool),
    Slot('limits_work', (), '', 'whether the limits changed the torques of the law', bool),
    Slot('was_at_bound', (), '', 'whether a bound of accelerations, torques or loads was active '
         'at the last tick, or the limits are new', bool),
    Slot('has_last', (), '', 'whether there was a torque', bool),
    Slot('last_time', (), 's', 'stamp of the state for which `last_tau` was computed'),
    Slot('last_tau', ('n',), 'N·m, N', 'the last torque of the law'),
    Slot('last_limited', ('n',), 'N·m, N', 'the part of it that the limits bound: without '
         '`tau_friction`, `tau_driver` and `tau_fading`'),
    Slot('fading_acceleration', ('n',), 'rad/s², m/s²', 'acceleration by `tau_fading` at the last '
         'tick, if the two laws of the blend have different loads'),
    Slot('shares', (2,), '', 'shares of the accelerations of tasks and posture that the limits '
         'allow'),
    Slot('rate_share', (), '', 'share of the wanted change of the torques that the limits of '
         'rates allowed'))

LAW_D = Table(
    'LawD',
    # the state, and the torques for it: `tau` is the sum of the five below it, see `step.add_up`
    Slot('time', (), 's', 'stamp of the state'),
    Slot('tick', (), 's', 'time since the last torque; 0 at the first'),
    Slot('q', ('n',), 'rad, m', 'positions'),
    Slot('qd', ('n',), 'rad/s, m/s', 'velocities'),
    Slot('tau', ('n',), 'N·m, N', 'torque of the law, within the limits of the rates'),
    Slot('tau_limited', ('n',), 'N·m, N', '`tau_motion` + `tau_springs`, within all other limits'),
    Slot('tau_friction', ('n',), 'N·m, N', 'compensation of friction'),
    Slot('tau_driver', ('n',), 'N·m, N', 'torque that the driver adds, which is subtracted'),
    Slot('tau_fading', ('n',), 'N·m, N', 'torque that a blend of two laws adds to that of this '
         'one'),
    Slot('tau_disturbance', ('n',), 'N·m, N', 'compensation of model errors; before it is '
         'computed, that of the last tick'),
    Slot('tau_motion', ('n',), 'N·m, N', 'torque of tasks and posture, M q̈ₚ + C + G + JᵀF, before '
         'the limits'),
    Slot('tau_springs', ('n',), 'N·m, N', 'torque of the springs of the joints'),
    # gains in force
    Slot('gain_period', (), 's', 'period of the states that bounds the gains; 0: they are as set'),
    Slot('posture_frequency', (), 'rad/s', 'natural frequency of the posture'),
    Slot('posture_rate', (), '1/s', 'damping rate of the posture'),
    Slot('push_frequency', (), 'rad/s', 'natural frequency of the push out of the soft zones'),
    Slot('joint_stiffness', ('n',), 'N·m/rad, N/m', 'of the joints, if they are springs'),
    Slot('joint_damping', ('n',), 'N·m·s/rad, N·s/m', 'of the joints, if they are springs'),
    Slot('least_inertia', ('n',), 'kg·m², kg', 'least inertia of each joint, see friction; 0: '
         'not computed'),
    Slot('task_drag', ('k', 6), '1/s', 'damping rates of the axes of force'),
    Slot('task_gain', ('k', 6), 'rad/s; N·m/rad, N/m', 'natural frequencies or stiffnesses'),
    Slot('task_ratio', ('k', 6), '', 'damping ratios'),
    Slot('task_fastest', ('k',), '1/s²', 'bounds of the squared frequencies of a spring at the '
         'period of the states'),
    Slot('force_integral_rate', ('k',), '1/s', 'gain of the integral of the force error'),
    Slot('force_filter_rate', ('k',), '1/s', 'rate of the filter of the force error'),
    # tasks
    Slot('target_pose', ('k', 4, 4), '–, m', 'set-points: poses'),
    Slot('target_twist', ('k', 6), 'rad/s, m/s', 'twists of the set-points'),
    Slot('target_acceleration', ('k', 6), 'rad/s², m/s²', 'accelerations of the set-points'),
    Slot('task_axes', ('k', 9), '', "rotations of the tasks' axes to base axes"),
    Slot('task_pose', ('k', 4, 4), '–, m', 'poses of the links'),
    Slot('task_twist', ('k', 6), 'rad/s, m/s', 'twists of the links'),
    Slot('task_error', ('k', 6), 'rad, m', 'errors that are reported, base axes'),
    Slot('task_lag', ('k', 6), 'rad, m', 'lags behind the set-points, base axes, which are '
         'compared with `TargetLimits.leash`'),
    Slot('task_u', ('k', 6), 'rad/s², m/s²', 'commanded accelerations, base axes'),
    *LEVELS_D,
    # activations
    Slot('activation', ('k', 6), '', 'activations in force'),
    Slot('activation_age', ('k',), 's', 'how long the activation has been changing'),
    # wrenches along the axes of force, axes of the task
    Slot('wanted_wrench', ('k', 6), 'N·m, N', 'commanded wrenches'),
    Slot('wrench', ('k', 6), 'N·m, N', 'wrenches in force'),
    Slot('wrench_rate', ('k', 6), 'N·m/s, N/s', 'rates of change of `wrench`'),
    Slot('wrench_integral', ('k', 6), 'N·m, N', 'integrals of the force errors'),
    Slot('wrench_filtered', ('k', 6), 'N·m, N', 'force errors behind their filters'),
    Slot('wrench_time', ('k',), 's', 'time of the last tick of the wrench; NaN before the first'),
    Slot('measured_wrench', ('k', 6), 'N·m, N', 'last measured wrenches on the environment, base '
         'axes'),
    Slot('measured_time', ('k',), 's', 'stamps of `measured_wrench`; -infinite before the first '
         'one'),
    # commanded impedances
    *IMPEDANCE,
    # free drive
    Slot('largest_rate', (), '1/s', 'largest stable damping rate'),
    Slot('largest_damper', (), '1/s', 'largest rate of each damper of the tip'),
    Slot('stiffest_wall', (), 'rad²/s²', 'largest square of the natural frequency of a wall'),
    Slot('wall_edges', (2, 3), 'm', 'positions where the walls begin: `wall_depth` before '
         'the box, or where the tip was if it began behind them; they only move inward, to there'),
    Slot('hand_wrench', (6,), 'N·m, N', 'wrench of damper and walls on the tip, base axes'),
    Slot('hand_acceleration', (6,), 'rad/s², m/s²', 'acceleration of the tip if no hand pushes'),
    # the links of the tasks
    Slot('J', ('6m', 'n'), '', 'Jacobian of the links'),
    # motion of the joints if every task followed its target, see `step.reference`
    Slot('reference_qd', ('n',), 'rad/s, m/s', 'its velocities'),
    Slot('reference_qdd', ('n',), 'rad/s², m/s²', 'its accelerations'),
    Slot('reference_tau', ('n',), 'N·m, N', "the model's torques for `reference_qdd`"),
    Slot('reference_time', (), 's', 'stamp of its last tick'),
    Slot('longest_tick', (), 's', 'longest interval between its latest ticks; decays'),
    Slot('feedback_rates', ('k', 7), '1/s', 'of the velocity feedback of each task, see '
         '`reference.feedback_rates`'),
    Slot('highest_rate', (), '1/s', 'highest rate of the velocity feedback of the tasks'),
    # for the caller
    Slot('plans', (), '', 'whether `SetPointGenerator.plan` has work before the next tick', bool),
    Slot('is_blended', (), '', 'whether the torques are blended with those of another law', bool),
    *OF_LIMITS,
    room=(
        *LEVELS_ROOM,
        Slot('zeros', ('n',), '', 'never written'),
        Slot('reference_before', ('n',), 'rad/s, m/s', 'velocity before a tick'),
        Slot('reference_change', ('n',), 'rad/s, m/s', 'change of the velocity by the tasks'),
        Slot('wanted_rates', ('6k',), 'rad/s, m/s', 'velocities of the targets'),
        Slot('link_rates', ('6k',), 'rad/s, m/s', 'memory for velocities of the links'),
        Slot('rate_forces', ('6m',), 'N·m·s, N·s', 'forces on the links that would cause '
             '`reference_change` if it were an acceleration'),
        Slot('row_of_q', (f'n + {MOST_NEAR}', 'n'), '', 'bounds row_of_q · q̈ ≤ row_most: a row '
             'for every joint whose load is bounded, then those of near pairs'),
        Slot('row_most', (f'n + {MOST_NEAR}',), '', 'bounds of the products row_of_q · q̈'),
        Slot('row_number', (f'n + {MOST_NEAR}',), '', 'joint of a load; n or more: number of a '
             'witness point', int),
        Slot('firmness', (f'n + {MOST_NEAR}',), '', 'rises from 0 to 1 as a row comes into force'),
        Slot('softness', (f'n + {MOST_NEAR}',), '', 'softness of a row, see `limits.nearest`'),
        Slot('large_excess', (f'n + {MOST_NEAR}',), '', 'excess of row_of_q · q̈ that is large'),
        # bodies of the robot, base axes; velocities, and accelerations for q̈ = 0
        Slot('body_axes', ('n', 9), '', 'rotation of each body'),
        Slot('body_origin', ('n', 3), 'm', 'its origin'),
        Slot('body_omega', ('n', 3), 'rad/s', 'its angular velocity'),
        Slot('body_alpha', ('n', 3), 'rad/s²', 'its angular acceleration'),
        Slot('body_velocity', ('n', 3), 'm/s', 'velocity of its origin'),
        Slot('body_acceleration', ('n', 3), 'm/s²', 'acceleration of its origin'),
        Slot('outward_mass', ('n',), 'kg', 'mass of all bodies from each one outward'),
        Slot('outward_moment', ('n', 3), 'kg·m', "their first moment about the base's origin"),
        Slot('outward_momentum', ('n', 3), 'kg·m/s', 'their momentum'),
        Slot('outward_force', ('n', 3), 'N', 'its rate'),
        Slot('gravity_load', ('n',), 'N·m, N', 'torques that hold the joints against gravity'),
        Slot('window', (2, 'n'), 'N·m, N', 'least and most torques, within the effort limits'),
        Slot('M_inv', ('n', 'n'), '1/(kg·m²), 1/kg', 'inverse of the inertia matrix'),
        Slot('tau_acting', ('n',), 'N·m, N', 'torque that acts on the joints, without the '
             'compensation of model errors'),
        Slot('near_loss', ('n',), 'rad/s², m/s²', 'acceleration that near pairs took'),
        Slot('M_joint', ('n', 'n'), 'kg·m², kg', 'inertia matrix'),
        Slot('B', ('n', 'n'), '', 'weights of a change of the accelerations, by the tasks'),
        Slot('M_inv_B', ('n', 'n'), '', 'M⁻¹ B'),
        Slot('task_rows', (6, 'n'), '', 'memory for a task'),
        Slot('task_blocks', (3, 6, 6), '', 'memory for a task'),
        Slot('task_chosen', (6,), '', 'memory for indices', int),
        Slot('G', (BOUNDS, BOUNDS), '', 'response of the bounded quantities to the multipliers'),
        Slot('G_factor', (BOUNDS, BOUNDS), '', 'memory for a factor of `G`'),
        # bounded quantities: accelerations, torques, then the rows of `row_of_q`
        Slot('bound_low', (BOUNDS,), '', 'their lower bounds'),
        Slot('bound_high', (BOUNDS,), '', 'their upper bounds'),
        Slot('bound_value', (BOUNDS,), '', 'their values by the law'),
        Slot('bound_push', (BOUNDS,), '', 'multipliers of the bounds'),
        Slot('bound_change', (BOUNDS,), '', 'changes of the values by these'),
        Slot('bound_side', (BOUNDS,), '', '-1 or 1 at a bound, else 0', int),
        Slot('bound_chosen', (BOUNDS,), '', 'memory for indices', int),
        Slot('push_torque', ('n',), 'N·m, N', 'multipliers as torques of the joints'),
        Slot('push_acceleration', ('n',), 'rad/s², m/s²', 'M⁻¹ times these torques'),
        Slot('qdd_change', ('n',), 'rad/s², m/s²', 'change of `qdd_law`, by damping and bounds')))
