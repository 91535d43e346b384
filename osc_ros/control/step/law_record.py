# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The records of a law and of a controller: all that one torque needs, by name."""

from __future__ import annotations

from osc_ros.compile.addresses import calling, VECTOR
from osc_ros.compile.record_type import FLOATS, INTEGERS, ITSELF, Slot, Table
from osc_ros.control.data import D, LAW_D, LAW_M, M, MODEL, RUN
from osc_ros.control.limits.near_rows import CLEARANCE
from osc_ros.control.model_error.contact import CONTACT
from osc_ros.control.model_error.disturbance import COMPENSATION
from osc_ros.control.model_error.observer import OBSERVER
from osc_ros.control.safety.safety import REJECTED
from osc_ros.control.setpoint.posture import SET_POINT

REFUSED = REJECTED - 1  # code if the state or the motion of the links is not finite
INFINITE = REFUSED - 1  # code for torques that are not finite

LAW = Table(
    'Law',
    Slot('m', (), '', 'settings', LAW_M),
    Slot('d', (), '', 'all that changes, for these settings', LAW_D),
    Slot('run', (), '', 'all that changes, whatever the settings', RUN),
    Slot('posture', (), '', 'set-point of the joints', SET_POINT),
    Slot('model', (), '', 'robot and driver', MODEL),
    Slot('bare', (), '', 'the same without the payload', MODEL),
    Slot('clearance', (), '', 'shapes of the links, and distances that they keep', CLEARANCE),
    Slot('observer', (), '', 'used if `observes` is set in LAW_M', OBSERVER),
    Slot('compensation', (), '', 'used if `compensates` is set in LAW_M', COMPENSATION),
    Slot('replaces', (), '', 'whether a law with other settings is being replaced', bool),
    Slot('other', (), '', 'the law that is being replaced; only valid while `replaces` is set',
         ITSELF),
    # the method of the dynamics, see `stages`
    Slot('stage', (), '', 'address of the kernel that computes the sweeps, such as '
         '`chain_stage`', int),
    Slot('python_stage', (), '', 'address of a C function, for `stages.python_stage`', int),
    Slot('method_integers', (), '', 'of the method', INTEGERS),
    Slot('method_numbers', (), '', 'of the method', FLOATS),
    Slot('method_room', (), '', 'memory of the method', FLOATS),
    Slot('pose', (), '–, m', 'poses of the links, flat', FLOATS),
    Slot('twist', (), 'rad/s, m/s', 'twists of the links', FLOATS),
    Slot('Lambda_inv', (), '', 'Λ⁻¹, flat', FLOATS),
    Slot('a0', (), 'rad/s², m/s²', 'accelerations of the links without task forces', FLOATS),
    Slot('gravity', (), 'm/s²', 'gravity of the method', FLOATS),
    # kernels
    Slot('setup_torque', (), '', 'address of the compiled `step.setup_torque`', int),
    Slot('law_torque', (), '', 'address of the compiled `step.law_torque`', int))

CONTROLLER = Table(
    'Controller',
    Slot('law', (), '', 'the law that computes the torques now', LAW),
    Slot('m', (), '', 'settings of the supervisor', M),
    Slot('d', (), '', 'all that changes in the supervisor', D),
    Slot('contact', (), '', 'thresholds of contacts', CONTACT))

UNOBSERVED, UNCOMPENSATED = OBSERVER.new(), COMPENSATION.new()  # of a law without them

# These call a kernel by its address: a stage of the dynamics; `setup_torque` or `law_torque`;
# `step.step` or `step.sense`; `step.watch`.
stage_at, torque_at = calling(LAW, int, VECTOR, VECTOR, VECTOR), calling(LAW)
step_at, watch_at = calling(CONTROLLER), calling(CONTROLLER, float, float, VECTOR)
