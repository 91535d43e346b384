# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Controller node: payload, tool, gravity, drivers that compensate, and the start-up check."""

import numpy as np
import pinocchio
import pytest

from judge import configuration, pinocchio_model

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')

from geometry_msgs.msg import InertiaStamped, Vector3Stamped  # noqa: E402
from rclpy.parameter import Parameter  # noqa: E402

from node_rig import FAILURE, given, JOINTS, PANDA, READY, Rig, ROBOT, SUCCESS  # noqa: E402
from osc_ros.loop import requests  # noqa: E402
from osc_ros.ros.messages.commands import LAST_LABEL  # noqa: E402
from osc_ros.ros.simulator.simulator import Simulator  # noqa: E402

MASS, CENTRE = 1.5, np.array([0.0, 0.01, 0.06])


def weight(gravity=(0.0, 0.0, -9.81), mass=0.0, link=PANDA.tip):
    """Return the torques that hold the shipped Panda with a payload on `link`, by Pinocchio."""
    model, _, _ = pinocchio_model(PANDA.urdf_text, PANDA.base, PANDA.tip, JOINTS, {})
    frame = model.frames[model.getFrameId(link, pinocchio.FrameType.BODY)]
    model.appendBodyToJoint(frame.parentJoint, pinocchio.Inertia(mass, CENTRE, np.zeros((3, 3))),
                            frame.placement)
    model.gravity.linear = np.array(gravity)
    return pinocchio.computeGeneralizedGravity(model, model.createData(),
                                               configuration(model, READY))


def settle(rig, expected):
    """Send states until the commanded torques equal the expected ones."""
    def settled():
        rig.hardware.tick += 40
        return np.allclose(rig.ask(), expected, atol=1e-6)

    rig.spin(settled, why='for the blend to end')


def payload(mass=MASS, link='', moment=0.0, center=CENTRE):
    message = InertiaStamped()
    message.header.frame_id = link
    message.inertia.m = mass
    message.inertia.ixx = message.inertia.iyy = message.inertia.izz = moment
    message.inertia.com.x, message.inertia.com.y, message.inertia.com.z = map(float, center)
    return message


def efforts(rig, tau):
    """Let the driver report efforts until the start-up check has averaged enough of them."""
    rig.controller.trigger_configure()
    rig.spin(lambda: rig.hardware.states.get_subscription_count() > 0)

    def heard():
        rig.hardware.state(effort=tau)
        loop = rig.controller._loop
        return (loop.has_enough_states and loop.state_age < 1.0
                and len(loop.engine.rest._q) > 5)

    rig.spin(heard, why='for efforts')


def test_payload_is_set_by_parameters_while_the_arm_is_held(spin):
    rig = Rig(spin).activate()
    result = rig.controller.set_parameters_atomically(given(
        payload__mass=MASS, payload__center_of_mass=CENTRE.tolist()))
    assert result.successful
    settle(rig, weight(mass=MASS))
    rig.controller.set_parameters(given(payload__mass=0.0))
    settle(rig, weight())


def test_payload_comes_by_topic_on_any_link_and_is_seen_in_the_parameters(spin):
    rig = Rig(spin).activate()
    publisher = rig.hardware.create_publisher(InertiaStamped, 'osc_controller/payload', 10)
    rig.spin(lambda: publisher.get_subscription_count() > 0)
    publisher.publish(payload(link='panda_link5'))
    settle(rig, weight(mass=MASS, link='panda_link5'))
    assert rig.controller.get_parameter('payload.mass').value == MASS
    assert rig.controller.get_parameter('payload.link').value == 'panda_link5'


@pytest.mark.parametrize('bad, message', [
    ({'mass': -1.0}, "payload refused, the old one stays: parameter 'payload.mass' is -1.0: must "
     'be a number, at least 0, at most 10000 [kg]'),
    ({'center': (0.0, 0.0, 50.0)}, 'millimetres? Then it is 0.05 m'),
    ({'link': 'panda_hnd'}, "'panda_hnd' is not a link"),
    ({'moment': 400.0}, 'as if the mass were'),  # kg mm² instead of kg m²
    pytest.param({'link': 'panda_link0'}, "link 'panda_link0' does not move",
                 marks=pytest.mark.slow),
])
def test_bad_payload_is_refused_with_the_reason_and_the_old_one_stays(spin, bad, message):
    rig = Rig(spin).activate()
    publisher = rig.hardware.create_publisher(InertiaStamped, 'osc_controller/payload', 10)
    rig.until_said(message, lambda: publisher.publish(payload(**bad)))
    np.testing.assert_allclose(rig.ask(), weight(), atol=1e-8)
    assert rig.controller.get_parameter('payload.mass').value == 0.0


def test_link_of_a_payload_is_checked_before_there_is_one(spin):
    rig = Rig(spin).activate()
    [result] = rig.controller.set_parameters(given(payload__link='panda_hnd'))
    assert not result.successful
    assert "'panda_hnd' is not a link" in result.reason
    assert rig.controller.get_parameter('payload.link').value == ''


def test_tool_moves_the_point_that_is_reported_and_not_the_arm(spin):
    rig = Rig(spin).activate()
    before = rig.controller._law.pose.copy()
    [result] = rig.controller.set_parameters(given(tool__position=[0.0, 0.0, 0.1]))
    assert result.successful
    rig.ask()
    np.testing.assert_allclose(rig.controller._law.pose[:3, 3],
                               before[:3, 3] + 0.1 * before[:3, 2], atol=1e-9)
    settle(rig, weight())
    [result] = rig.controller.set_parameters(given(tool__orientation=[0.0, 0.0, 0.0, 3.0]))
    assert not result.successful
    assert 'has length 3: must be 1' in result.reason


@pytest.mark.parametrize('by', [pytest.param('parameter', marks=pytest.mark.slow), 'topic'])
def test_gravity_turns_while_the_arm_is_held(spin, by):
    rig = Rig(spin).activate()
    gravity = (-6.306, 0.0, -7.515)  # tilted by 40°
    if by == 'parameter':
        rig.controller.set_parameters(given(gravity=list(gravity)))
    else:
        publisher = rig.hardware.create_publisher(Vector3Stamped, 'osc_controller/gravity', 10)
        rig.spin(lambda: publisher.get_subscription_count() > 0)
        message = Vector3Stamped()
        message.header.frame_id = 'panda_link0'
        message.vector.x, message.vector.z = -6.306, -7.515
        publisher.publish(message)
    settle(rig, weight(gravity))
    rig.controller.set_parameters(given(blend_time=0.2))  # another parameter changes nothing of it
    settle(rig, weight(gravity))
    [result] = rig.controller.set_parameters(given(gravity=[0.0, 0.0, -9.81]))
    assert result.successful, result.reason
    settle(rig, weight())


@pytest.mark.parametrize('z', [9.81, 0.0])  # 9.81: what an accelerometer shows
def test_quite_another_gravity_is_refused_while_the_arm_is_held(spin, z):
    rig = Rig(spin).activate()
    publisher = rig.hardware.create_publisher(Vector3Stamped, 'osc_controller/gravity', 10)
    message = Vector3Stamped()
    message.header.frame_id = 'panda_link0'
    message.vector.z = z
    rig.until_said('must differ by at most', lambda: publisher.publish(message))
    [result] = rig.controller.set_parameters(given(gravity=[0.0, 0.0, z]))
    assert not result.successful
    assert 'deactivate first' in result.reason
    np.testing.assert_allclose(rig.ask(), weight(), atol=1e-8)


def test_gravity_is_not_turned_over_in_small_steps_while_the_arm_is_held(spin):
    rig = Rig(spin).activate()
    publisher = rig.hardware.create_publisher(Vector3Stamped, 'osc_controller/gravity', 10)
    message = Vector3Stamped()
    message.header.frame_id = 'panda_link0'
    rig.spin(lambda: publisher.get_subscription_count() > 0)
    message.vector.z = -5.0
    publisher.publish(message)
    settle(rig, weight((0.0, 0.0, -5.0)))
    message.vector.z = -2.5
    rig.until_said('at least 4.9', lambda: publisher.publish(message))
    settle(rig, weight((0.0, 0.0, -5.0)))


def test_gravity_that_is_none_is_refused_and_the_old_one_stays(spin):
    rig = Rig(spin).activate()
    publisher = rig.hardware.create_publisher(Vector3Stamped, 'osc_controller/gravity', 10)
    message = Vector3Stamped()
    message.vector.z = np.nan
    rig.until_said('gravity refused, the old one stays: gravity is not finite',
                   lambda: publisher.publish(message))
    np.testing.assert_allclose(rig.ask(), weight(), atol=1e-8)


def test_driver_that_compensates_is_commanded_without_the_weight(spin):
    rig = Rig(spin, driver_compensates='gravity').activate()
    np.testing.assert_allclose(rig.ask(), np.zeros(7), atol=1e-8)
    rig.controller.set_parameters_atomically(given(
        payload__mass=MASS, payload__center_of_mass=CENTRE.tolist()))
    settle(rig, weight(mass=MASS) - weight())
    rig.controller.set_parameters(given(payload__known_to_driver=True))
    settle(rig, np.zeros(7))
    rig.controller.set_parameters(given(payload__known_to_driver=False))
    settle(rig, weight(mass=MASS) - weight())
    rig.deactivate()
    rig.until_held(weight(mass=MASS) - weight(), label=LAST_LABEL)


def test_friction_and_rotors_are_taken_from_parameters(spin):
    rig = Rig(spin, **{'friction.coulomb': [0.5] * 7, 'rotor_inertia': [0.1] * 7}).activate()
    np.testing.assert_allclose(rig.ask(), weight(), atol=1e-8)
    friction = rig.controller._law.settings.friction
    np.testing.assert_array_equal(friction.coulomb, [0.5] * 7)
    np.testing.assert_array_equal(rig.controller._law.robot.rotor_inertia, [0.1] * 7)
    [result] = rig.controller.set_parameters(given(friction__viscous=[0.1]))
    assert "'friction.viscous' has 1 entries: give one for each of panda" in result.reason
    rig.controller.set_parameters(given(friction__coulomb=[0.0] * 7))
    assert rig.controller._law.settings.friction is None


WRONG = np.array([1.0, 1.0, 1.0, -1.0, 1.0, 1.0, 1.0])


@pytest.mark.parametrize('told, compensates, said, goes_on', [
    pytest.param(weight(), 'none', 'start-up check: all is well', True, marks=pytest.mark.slow),
    (weight(mass=2.0), 'none', 'the mass is off: at the tip the arm carries', False),
    pytest.param(0.0 * READY, 'none', 'the efforts do not contain the weight: they are near zero',
                 False, marks=pytest.mark.slow),
    (0.0 * READY, 'gravity', 'the efforts do not contain the weight, as driver_compensates '
     "'gravity' says", True),
    (WRONG * weight(), 'none', "the efforts of 'panda_joint4' have another sign", False),
    pytest.param([], 'none', 'cannot tell: the driver reports no efforts', True,
                 marks=pytest.mark.slow),
    ([np.nan] * 7, 'none', 'cannot tell: the driver reports no efforts', True),
])
def test_activation_is_refused_by_what_the_driver_reports(spin, told, compensates, said, goes_on):
    rig = Rig(spin, startup_check='refuse', driver_compensates=compensates)
    if len(told) and np.isfinite(told).all():
        efforts(rig, told)
    else:
        assert rig.controller.trigger_configure() == SUCCESS
        rig.spin(lambda: rig.hardware.state(effort=told) and rig.controller._state_age() < 1.0)
    assert (rig.controller.trigger_activate() == SUCCESS) == goes_on
    rig.until_said(said)


def test_unknown_load_is_refused_by_default_and_carried_if_the_activation_is_forced(spin):
    rig = Rig(spin)
    efforts(rig, weight(mass=2.0))
    assert rig.controller.trigger_activate() == FAILURE
    rig.until_said('the mass is off: at the tip the arm carries')
    rig.until_said('Set payload.mass to')
    rig.until_said("To activate all the same: startup_check 'warn'")
    rig.controller.set_parameters(given(startup_check='warn'))
    assert rig.controller.trigger_activate() == SUCCESS
    np.testing.assert_allclose(rig.ask(), weight(mass=2.0), atol=0.05)
    rig.controller.set_parameters(given(translation__damping_ratio=[0.9] * 3))
    np.testing.assert_allclose(rig.ask(), weight(mass=2.0), atol=0.05)


def test_check_warns_or_is_off_if_that_is_wanted(spin):
    rig = Rig(spin)
    efforts(rig, np.zeros(7))
    assert rig.controller.trigger_activate() == SUCCESS
    rig.until_said('start-up check: the efforts do not contain the weight')
    assert rig.controller.trigger_deactivate() == SUCCESS
    rig.controller.set_parameters(given(startup_check='refuse'))
    assert rig.controller.trigger_activate() == FAILURE
    rig.controller.set_parameters(given(startup_check='off'))
    assert rig.controller.trigger_activate() == SUCCESS
    assert rig.controller._session.finding == ''


def test_arm_is_activated_again_whatever_the_check_found_before(spin):
    rig = Rig(spin, startup_check='warn')
    efforts(rig, weight())
    for reported, found in ((weight(), 'all is well'), (np.zeros(7), 'do not contain the weight'),
                            (weight(), 'all is well')):
        # ten states in each turn, because the check takes the mean of many states
        rig.spin(lambda effort=reported, text=found:
                 all(rig.hardware.state(effort=effort) for _ in range(10))
                 and text in str(rig.controller._loop.request(requests.finding)),
                 why=f'for the check to find: {found}')
        assert rig.controller.trigger_activate() == SUCCESS
        assert found in rig.controller._session.finding
        assert rig.controller.trigger_deactivate() == SUCCESS


@pytest.mark.parametrize('compensates', [
    pytest.param('none', marks=pytest.mark.slow), 'gravity'])
def test_simulated_driver_reports_what_the_check_expects_and_holds_the_arm(spin, compensates):
    given_ = {**ROBOT, 'driver_compensates': compensates}
    simulator = Simulator(parameter_overrides=[Parameter(name, value=value) for name, value in {
        **given_, 'initial_positions': READY.tolist(), 'lockstep': True}.items()])
    rig = Rig(spin, autostart=True, startup_check='refuse', driver_compensates=compensates)
    rig.spin(lambda: simulator._tick > 20, simulator, why='for the loop to run')
    assert np.abs(simulator._plant.q - READY).max() < 1e-6
    assert rig.spin.said('start-up check: ' + {
        'none': 'all is well', 'gravity': 'the efforts do not contain the weight, as '
        "driver_compensates 'gravity' says"}[compensates])


def test_payload_that_the_arm_cannot_hold_is_refused_with_what_it_could(spin):
    rig = Rig(spin).activate()
    publisher = rig.hardware.create_publisher(InertiaStamped, 'osc_controller/payload', 10)
    rig.until_said(r'payload refused, the old one stays: payload of 50 kg: joint',
                   lambda: publisher.publish(payload(50.0)))
    np.testing.assert_allclose(rig.ask(), weight(), atol=1e-8)


def test_positions_in_degrees_are_not_taken_for_radians(spin):
    rig = Rig(spin)
    assert rig.controller.trigger_configure() == SUCCESS
    rig.spin(lambda: rig.hardware.states.get_subscription_count() > 0)

    def heard(q):
        rig.hardware.state(q)
        return rig.controller._state_age() < 1.0 and np.array_equal(rig.controller._loop.q, q)

    degrees = np.degrees(READY)
    rig.spin(lambda: heard(degrees), why='for a state')
    assert rig.controller.trigger_activate() == FAILURE
    assert rig.spin.said("joint 'panda_joint2' is reported at -45")


def test_arm_that_could_not_hold_its_payload_is_not_activated(spin):
    rig = Rig(spin, payload__mass=50.0)
    assert rig.controller.trigger_configure() == SUCCESS
    rig.spin(lambda: rig.hardware.states.get_subscription_count() > 0)

    def heard():
        rig.hardware.state()
        return rig.controller._state_age() < 1.0

    rig.spin(heard, why='for a state')
    assert rig.controller.trigger_activate() == FAILURE
    [result] = rig.controller.set_parameters(given(payload__mass=0.0))
    assert result.successful
    rig.hardware.state()
    assert rig.controller.trigger_activate() == SUCCESS
