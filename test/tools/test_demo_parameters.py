# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Parameter files of the demo: errors in them are reported before any process starts."""

import numpy as np
import pytest
import yaml

from judge import robot_cases

pytest.importorskip('rclpy', reason='rclpy is not installed')

from osc_ros import Robot
from osc_ros.errors import InputError, ModelError
from osc_ros.ros.parameters.controller_parameters import PARAMETERS, with_tasks
from osc_ros.ros.parameters.node_settings import law_settings
from osc_ros.tools.check.parameter_files import Parameters, text_of


def parameters(tmp_path, *texts):
    """Write files with these texts; return their parameters."""
    files = [tmp_path / f'{number}.yaml' for number in range(len(texts))]
    for file, text in zip(files, texts):
        file.write_text(text, encoding='utf-8')
    return Parameters(files)


@pytest.mark.parametrize('text, message', [
    ('/**/osc_controller: {ros__parameters: {friction.colomb: [1.0]}}',
     "0.yaml, osc_controller: .*'friction.colomb' .*'friction.coulomb'"),
    ('/**/osc_controler: {ros__parameters: {mode: impedance}}',
     r"'/\*\*/osc_controler' .*'osc_controller'"),
    ('/**/osc_simulator: {ros__parameters: {rate: fast}}', "'rate' .*'fast': (give|must be)"),
    ('/**/osc_demo: {ros__parameters: {scale: 2.0}}', "'scale' .*2.0: (give|must be)"),
    ('/**: {ros__parameters: {tipp: a}}', "all nodes: .*'tipp' .*'tip'"),
    ('/**/osc_controller: {parameters: {mode: impedance}}', 'no parameter.*(give|must be|write)'),
    ('[1, 2]', 'no parameter.*(give|must be|write)'),
    ('a: [', 'be read'),
])
def test_wrong_parameter_file_is_refused_by_what_is_wrong(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        parameters(tmp_path, text)


def test_a_list_that_mixes_10_and_10_5_and_groups_of_parameters_are_accepted(tmp_path):
    found = parameters(tmp_path, """
        /**/osc_controller:
          ros__parameters:
            translation: {natural_frequency: [10, 10.5, 11]}
            friction: {coulomb: [1, 2.5], viscous: [0, 0]}
        """).given('osc_controller')
    assert found['translation.natural_frequency'] == (10.0, 10.5, 11.0)
    assert found['friction.coulomb'] == (1.0, 2.5)
    assert all(type(x) is float for x in found['friction.viscous'])


def test_later_files_and_named_nodes_take_precedence(tmp_path):
    found = parameters(
        tmp_path, '/**: {ros__parameters: {tip: a, base: b}}\n'
        'osc_controller: {ros__parameters: {mode: impedance, fade_time: 0.1}}',
        '/osc_controller: {ros__parameters: {tip: c, fade_time: 0.2}}\n'
        '/**/osc_relay: {ros__parameters: {anything: 1}}')
    assert found.given('osc_controller') == {
        'tip': 'c', 'base': 'b', 'mode': 'impedance', 'fade_time': 0.2}
    assert found.given('osc_simulator') == {'tip': 'a', 'base': 'b'}


def test_parameters_of_further_tasks_are_known(tmp_path):
    found = parameters(tmp_path, '/**/osc_controller: {ros__parameters: '
                       '{tasks: [elbow], elbow.link: forearm}}')
    assert found.values('osc_controller', {})['elbow.link'] == 'forearm'


def test_written_file_has_the_same_parameters(tmp_path):
    given = {'': {'base': 'b'}, 'osc_controller': {'friction.coulomb': (1.0, 2.0),
                                                   'target_timeout': np.inf}, 'osc_demo': {}}
    text = text_of(given)
    assert set(yaml.safe_load(text)) == {'/**', '/**/osc_controller'}
    assert parameters(tmp_path, text).given('osc_controller') == {
        'base': 'b', **given['osc_controller']}


def described(name='z1_description/urdf/z1'):
    from survey import urdf_texts
    return Robot.from_urdf(urdf_texts()[f'{name}.urdf'], 'link00', 'gripperStator')


def settings(robot, **given):
    """Return the settings of the law for parameters that are not the default."""
    return law_settings({entry.name: given.get(entry.name.replace('.', '_'), entry.default)
                         for entry in with_tasks(())}, robot)


def test_a_share_of_the_friction_of_the_description_is_compensated_if_it_is_given():
    robot = described()
    np.testing.assert_array_equal(robot.coulomb_friction, [1.0, 2.0, 1.0, 1.0, 1.0, 1.0])
    np.testing.assert_array_equal(robot.viscous_friction, [1.0, 2.0, 1.0, 1.0, 1.0, 1.0])
    friction = settings(robot, friction_from_description=0.5).friction
    np.testing.assert_array_equal(friction.coulomb, 0.5 * robot.coulomb_friction)
    np.testing.assert_array_equal(friction.viscous, 0.5 * robot.viscous_friction)


def test_friction_that_is_given_replaces_that_of_the_description():
    robot = described()
    friction = settings(robot, friction_coulomb=(0.1,) * 6, friction_from_description=0.5).friction
    np.testing.assert_array_equal(friction.coulomb, [0.1] * 6)
    np.testing.assert_array_equal(friction.viscous, 0.5 * robot.viscous_friction)
    assert settings(robot).friction is None
    whole = settings(robot, friction_from_description=1.0).friction
    np.testing.assert_array_equal(whole.coulomb, robot.coulomb_friction)


def test_share_above_one_is_refused():
    [entry] = (entry for entry in PARAMETERS if entry.name == 'friction.from_description')
    with pytest.raises(InputError, match='at least 0, at most 1'):
        entry.checked_value(1.5)


@pytest.mark.parametrize('attributes, message', [
    ("friction='-1'", 'friction -1 and damping 0 must not be negative'),
    ("damping='much'", 'is not a finite number'),
])
def test_invalid_friction_is_refused_with_the_name_of_the_joint(attributes, message):
    case = robot_cases()['iiwa_like']
    text = case.urdf_text.replace('<axis', f'<dynamics {attributes}/><axis', 1)
    with pytest.raises(ModelError, match=f"joint '.*{message}"):
        Robot.from_urdf(text, case.base, case.tip)


def test_robot_that_is_built_in_code_has_no_friction():
    robot = described()
    assert not robot.with_payload(1.0).without_payload().coulomb_friction.flags.writeable
    with pytest.raises(ModelError, match='coulomb_friction .*finite'):
        from dataclasses import replace
        replace(robot, coulomb_friction=-robot.coulomb_friction)
    assert not replace(robot, coulomb_friction=None).coulomb_friction.any()
