# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Tables of parameters: accepted values, and the errors for all other values."""

from contextlib import suppress
import difflib
import json
import re

import pytest
import yaml

from common import CHECKOUT

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')

from rcl_interfaces.srv import (  # noqa: E402
    SetParameters,
    SetParametersAtomically,
)
from rclpy.parameter import Parameter  # noqa: E402
from rclpy.parameter_client import AsyncParameterClient  # noqa: E402

from osc_ros.errors import InputError  # noqa: E402
from osc_ros.hardware.hardware_table import hardware_class, hardware_locations  # noqa: E402
from osc_ros.ros import arm_node, relay  # noqa: E402
from osc_ros.ros.controller import controller  # noqa: E402
from osc_ros.ros.crisp import crisp_node, crisp_parameters  # noqa: E402
from osc_ros.ros.parameters import controller_parameters, robot_parameters  # noqa: E402
from osc_ros.ros.parameters.parameters import Entry, MISSPELT, values  # noqa: E402
from osc_ros.ros.simulator import simulator  # noqa: E402
from osc_ros.viewer.sliders import RANGES  # noqa: E402
from parameter_calls import Other, TABLES  # noqa: E402

PAGE = CHECKOUT / 'doc' / 'parameters.md'
WRITE = "make test ARGS='-k parameters --write-tables'"

HEAD = f"""\
# The parameters of the nodes

`{WRITE}` writes this page from the tables in the code; the tests compare them.

A node refuses a value that is not accepted, and gives the reason. If one value of a set is not
accepted, the node refuses the whole set (`ros2 param load` sets the parameters one by one). An
integer is accepted for a number, and an array of integers for an array of numbers. A parameter
that is not "live" can be set only while osc_controller is unconfigured; for the other nodes, only
when the node starts. A parameter that is "fixed" names a file, a program or a machine, or takes
processes, memory or priority of this one: it keeps the value of the start, so that no participant
of the network can choose another ([security](security.md)).

In a parameter file, the section `/**:` is for all nodes, the section `/**/osc_controller:` for
osc_controller in any namespace. If both set a parameter, the later section takes precedence. `ros2
param dump` writes such a file. ROS puts `-p NAME:=VALUE` into the section `/**`, so a section of
the node that comes after it in a file takes precedence over it, but not over
`-p osc_controller:NAME:=VALUE`.
"""
FIRST = """
## The ten to look at first

All others are advanced: their defaults suit most arms. For an arm that is not shipped, set
`robot_description_file` (or the topic), `base` and `tip` too. The [page in the browser](viewer.md)
shows these first.

| parameter | default | change it if |
|---|---|---|
"""
# First parts of the names of each topic; the table with the title of the node has the others.
TOPICS = {
    'osc_controller': {
        'osc_controller: load and tool': ('payload', 'tool'),
        'osc_controller: watchdogs and stop': (
            'idle', 'state_timeout', 'target_timeout', 'watchdog', 'stop_rate', 'fade_time',
            'settle_time', 'startup_check'),
        'osc_controller: control of the tip': (
            'mode', 'translation', 'rotation', 'task', 'impedance', 'blend_time'),
        'osc_controller: free drive': ('free',),
        'osc_controller: set-point and goals': ('target', 'goal', 'workspace'),
        'osc_controller: force': ('force',),
        'osc_controller: joints': ('posture', 'singularity', 'friction', 'limits'),
        'osc_controller: external forces, contacts, model errors': (
            'external_force', 'disturbance', 'contact'),
        'osc_controller: reports and black box': (
            'report_rate', 'black_box', 'markers', 'publish_tf')},
    'osc_simulator': {
        'osc_simulator: the arm and its driver': (
            'payload', 'brakes', 'brake_timeout', 'damping', 'friction', 'effort_limits',
            'position_noise', 'velocity_noise', 'seed', 'initial_positions'),
        'osc_simulator: gripper and objects': ('gripper', 'cube', 'world')}}
ROWS = '| parameter | type | default | unit | accepted | live | |\n|---|---|---|---|---|---|---|\n'


def default_of(entry):
    """Return the default value as it stands in the tables; empty for an empty text."""
    default = list(entry.default) if isinstance(entry.default, tuple) else entry.default
    return '' if default == '' else f'`{json.dumps(default)}`'


def row(entry):
    """Return an entry as a row of the table."""
    said = re.sub(r' *\[[^]]*]', '', entry.description, count=1)
    accepted = entry.accepted.replace('an array of any number, each ', 'each ')
    cells = [f'`{entry.name}`', entry.ros_type.name.lower().replace('_', ' '), default_of(entry),
             entry.unit, accepted,
             'yes' if entry.live else 'fixed' if entry.fixed else '', said]
    return '| ' + ' | '.join(cells) + ' |\n'


def by_topic(node, table):
    """Return {title: entries} of a node's table: a part for each topic, after the others."""
    topics = TOPICS.get(node, {})
    first = [entry.name.partition('.')[0] for entry in table]
    named = {name for names in topics.values() for name in names}
    assert named <= set(first), named - set(first)
    return {title: [entry for entry, name in zip(table, first, strict=True)
                    if (name in names if names else name not in named)]
            for title, names in {node: (), **topics}.items()}


def page():
    """Return the text of doc/parameters.md."""
    shared = {entry.name for entry in robot_parameters.ENTRIES}
    tables = {'Every node: the robot': robot_parameters.ENTRIES} | {
        f'osc_{name}': [entry for entry in table if entry.name not in shared]
        for name, table in TABLES.items()}
    tables = {title: part for node, table in tables.items()
              for title, part in by_topic(node, table).items()}
    tables['osc_arm, besides those of osc_controller; `hardware.…` are those of `mujoco`'] = (
        tables.pop('osc_arm'))
    tables['osc_controller, for each NAME in `tasks`'] = (
        controller_parameters.task_parameters('NAME'))
    first = (f'| `{entry.name}` | {default_of(entry)} | {entry.when} |\n'
             for entry in controller_parameters.PARAMETERS if entry.when)
    return HEAD + FIRST + ''.join(first) + ''.join(
        f'\n## {title}\n\n{ROWS}' + ''.join(map(row, table)) for title, table in tables.items())


def test_page_of_parameters_says_what_the_tables_say(request):
    if request.config.getoption('--write-tables'):
        PAGE.write_text(page(), encoding='utf-8')
    assert PAGE.read_text(encoding='utf-8') == page(), f'to write it again: {WRITE}'


def test_ten_parameters_are_not_advanced_and_the_page_in_the_browser_shows_them_first():
    first = [entry.name for entry in controller_parameters.PARAMETERS if entry.when]
    assert len(first) == 10
    sliders = [one.name for one in RANGES if not one.is_advanced]
    assert sliders and set(sliders) < set(first)
    assert not {one.name for one in RANGES if one.is_advanced} & set(first)


@pytest.mark.parametrize('table', TABLES.values(), ids=TABLES)
def test_every_default_is_accepted_by_its_own_entry(table):
    for entry in table:
        assert entry.checked_value(entry.default) == entry.default


@pytest.mark.parametrize('table', TABLES.values(), ids=TABLES)
def test_every_parameter_is_described_and_named_once(table):
    names = [entry.name for entry in table]
    assert len(set(names)) == len(names)
    assert all(entry.description for entry in table)


def test_integers_are_taken_where_numbers_are_meant():
    assert Entry('x', 1.0, '').checked_value(3) == 3.0
    assert Entry('x', (1.0, 2.0), '', size=2).checked_value([1, 2.5]) == (1.0, 2.5)


@pytest.mark.parametrize('entry, value, message', [
    (Entry('x', 1.0, '', lower=0.0, upper=2.0), 3.0,
     "'x' .*3.0: (give|must be).*number.* 0, .* 2"),
    (Entry('x', 1.0, ''), 'fast', "'x' .*'fast': (give|must be).*number"),
    (Entry('x', 1.0, ''), True, "'x' .*True: (give|must be).*number"),
    (Entry('x', 1.0, '', lower=0.0), float('nan'), "'x'.*nan"),
    (Entry('x', True, ''), 1, "'x' .*1: (give|must be).*true.*false"),
    (Entry('x', 'a', ''), 1, "'x' .*1: (give|must be).*text"),
    (Entry('x', (1.0,) * 3, '', size=3), [1.0, 2.0], '(give|must be).*3, .*number'),
    (Entry('x', (1.0,) * 3, '', size=3), [], '(give|must be).*array.* 3'),
    (Entry('x', (), '', lower=0.0), [1.0, -1.0], 'any number.*at least'),
    (Entry('x', (), '', of=str), [1.0], 'each a text'),
    (Entry('x', (), '', of=str), 'ab', "'x' .*'ab': (give|must be).*array"),
    (Entry('x', (), ''), 1.0, '(give|must be).*array'),
])
def test_bad_values_are_refused_by_message(entry, value, message):
    with pytest.raises(InputError, match=message):
        entry.checked_value(value)


@pytest.mark.parametrize('table', TABLES.values(), ids=TABLES)
def test_every_descriptor_tells_type_bounds_and_what_is_accepted(table):
    for entry in table:
        told = entry.descriptor
        assert told.type == entry.ros_type.value
        assert (told.description, told.additional_constraints) == (
            entry.description, entry.accepted)
        kind = entry.of if isinstance(entry.default, tuple) else type(entry.default)
        bounded = entry.lower > -float('inf') or entry.upper < float('inf')
        assert len(told.integer_range) == (kind is int and bounded)
        assert len(told.floating_point_range) == (kind is float and bounded)
        for told_range in (*told.integer_range, *told.floating_point_range):
            assert told_range.from_value == pytest.approx(entry.lower)
            assert told_range.to_value == pytest.approx(min(
                entry.upper, 2**31 - 1 if kind is int else entry.upper))


def test_wildcards_and_later_sections_of_a_file_reach_the_nodes_that_they_name(ros, tmp_path):
    path = tmp_path / 'my.yaml'
    path.write_text("""
/**:
  ros__parameters: {autostart: false, tip: for_all, locked_joints: [], limits.effort: [1.0, 2.5]}
/**/osc_controller:
  ros__parameters:
    posture: {damping: 3}
    translation.speed: 0.5
/left/*:
  ros__parameters: {base: left_base}
/left/osc_controller:
  ros__parameters: {tip: left_tip}
""")
    for namespace, base, tip in (('', '', 'for_all'), ('left', 'left_base', 'left_tip')):
        node = controller.Controller(namespace=namespace, cli_args=[
            '--ros-args', '--params-file', str(path)])
        found = values(node, controller_parameters.PARAMETERS)
        node.destroy_node()
        assert (found['base'], found['tip']) == (base, tip)
        assert found['posture.damping'] == 3.0 and found['translation.speed'] == 0.5
        assert found['limits.effort'] == (1.0, 2.5) and found['locked_joints'] == ()


@pytest.mark.parametrize('name', ['controller', 'relay', 'simulator'])
def test_nodes_warn_of_misspelt_parameters_but_not_of_those_of_other_nodes(
        name, spin, tmp_path, monkeypatch):
    path = tmp_path / 'all.yaml'
    mine = {'controller': 'translation.speed', 'relay': 'stop_rate',
            'simulator': 'lockstep_timeout'}[name]
    path.write_text(f"""
/**:
  ros__parameters:
    autostart: false
    # of the controller, with a task; of the relay; of the simulator; of another package
    translation.speed: 0.5
    tasks: [elbow]
    elbow: {{link: panda_link4}}
    command_timeout: 0.1
    stop_rate: 5.0
    lockstep_timeout: 1.0
    initial_positions: [0.0]
    update_rate: 500
    {mine}x: 1.0
/**/osc_{name}:
  ros__parameters: {{raet: 100.0, command_topix: torques, joint: {{naems: []}}}}
""")
    arguments = ['--ros-args', '--params-file', str(path)]
    monkeypatch.setattr('sys.argv', [name, *arguments])
    kind = {'controller': controller.Controller, 'relay': relay.Relay,
            'simulator': simulator.Simulator}[name]
    try:
        spin(lambda: True, kind(cli_args=arguments))
    except InputError as error:  # the simulator needs a robot, and says so after the warnings
        assert "no robot: set parameter 'robot_description'" in str(error)
    assert spin.said(f"parameter '{mine}x' is unknown and has no effect (did you mean '{mine}'?)")
    assert spin.said("parameter 'raet' is unknown and has no effect (did you mean 'rate'?)")
    assert spin.said('is unknown', 4)
    assert not spin.said('is unknown', 5)


@pytest.mark.parametrize('sections, meant', [
    ({'/**': {'rate': 400.0}, '/**/osc_controler': {'rate': 250.0}}, 'osc_controler'),
    ({'osc_controler': {'rate': 250.0}}, 'osc_controler'),
    ({'/left/osc_contoller': {'rate': 250.0}}, 'osc_contoller'),
    ({'/**/osc_simulator': {'rate': 250.0}}, ''),
    ({'/**': {'rate': 400.0}, '/**/osc_simulator': {'rate': 250.0}}, None),
    ({'osc_controller': {'rate': 250.0}, 'osc_controller2': {'rate': 250.0}}, None)])
def test_file_without_a_section_for_the_node_is_said_with_the_nearest_name(
        sections, meant, spin, tmp_path, monkeypatch):
    path = tmp_path / 'my.yaml'
    path.write_text(yaml.safe_dump({
        key: {'ros__parameters': value} for key, value in sections.items()}))
    arguments = ['--ros-args', '--params-file', str(path), '-p', 'autostart:=false']
    monkeypatch.setattr('sys.argv', ['osc_controller', *arguments])
    spin(lambda: True, controller.Controller(cli_args=arguments))
    said = f"parameter file '{path}' has no section for the node 'osc_controller' (has: "
    assert spin.said(said) == (meant is not None)
    if meant:
        assert spin.said(f"did you mean 'osc_controller' where it says '{meant}'?")


def test_no_name_of_another_node_looks_like_a_misspelt_one():
    for one, table in TABLES.items():
        known = {entry.name for entry in table}
        for other in {entry.name for entries in TABLES.values() for entry in entries} - known:
            assert not difflib.get_close_matches(other, known, 1, MISSPELT), (one, other)


def nodes_tables():
    """Yield the parameters of each node: with further tasks, and of each kind of arm."""
    yield from ([entry.name for entry in table] for table in TABLES.values())
    yield [entry.name for entry in (*crisp_parameters.TABLE, crisp_node.CONTROLLER)]
    for names in ((), ('elbow', 'camera')):
        common = controller_parameters.with_tasks(names)
        yield [entry.name for entry in common]
        for kind in hardware_locations():
            with suppress(InputError):  # a driver that is not installed
                yield [entry.name for entry in (*common, *arm_node.OWN, *arm_node.entries_of(
                    hardware_class(kind)))]


def test_no_parameter_is_the_prefix_of_another_because_ros2_param_dump_nests_them():
    for names in nodes_tables():
        assert not [(one, other) for one in names for other in names
                    if other.startswith(f'{one}.')]


def nested(values):
    """Return parameters as `ros2 param dump` writes them: 'a.b' as {a: {b: …}}."""
    found = {}
    for name in sorted(values):
        *groups, last = name.split('.')
        inner = found
        for group in groups:
            inner = inner.setdefault(group, {})
        inner[last] = values[name]
    return found


def test_what_a_node_dumps_starts_the_same_node_again(spin, tmp_path):
    given = [Parameter('autostart', value=False), Parameter('posture.damping', value=2),
             Parameter('locked_joints', value=['a', 'b']), Parameter('tip', value='somewhere')]
    first = controller.Controller(parameter_overrides=given)
    dumped = Other(spin, first).dump()
    path = tmp_path / 'dump.yaml'
    path.write_text(yaml.safe_dump({'/**': {'ros__parameters': nested(dumped)}}))
    second = controller.Controller(cli_args=['--ros-args', '--params-file', str(path)])
    spin(lambda: True, second)
    assert values(second, controller_parameters.PARAMETERS) == values(
        first, controller_parameters.PARAMETERS)
    assert {type(value) for value in dumped.values()} <= {bool, int, float, str, list}


TEXTS = {'contact.force': float('inf'), 'startup_check': 'off', 'posture.damping': 1e-6,
         'workspace.lower': [float('-inf')] * 3, 'workspace.upper': [float('inf'), 0.5, 2.0]}


def test_user_loads_with_ros2_param_what_ros2_param_dumped(spin, tmp_path):
    node = controller.Controller(parameter_overrides=[
        Parameter('autostart', value=False),
        *(Parameter(name, value=value) for name, value in TEXTS.items())])
    other, path = Other(spin, node), tmp_path / 'dump.yaml'
    before = other.dump()
    path.write_text(yaml.safe_dump({'/osc_controller': {'ros__parameters': nested(before)}}))
    # as `ros2 param load`: every value is written as a text and read as YAML, which has no 'inf'
    client = AsyncParameterClient(other, 'osc_controller')
    future = client.load_parameter_file(str(path))
    spin(future.done)
    results = future.result().results
    assert len(results) > len(TEXTS)
    assert not [one.reason for one in results if not one.successful]
    assert other.dump() == before


@pytest.mark.parametrize('bad, reason', [
    ({'posture.damping': -1.0}, 'at least 0, at most 1000 [1/s]'),
    ({'translation.natural_frequency': [1.0, 2.0]}, 'must be an array of 3'),
    ({'base': 3}, 'must be a text')])
def test_set_with_one_bad_value_is_refused_whole_over_the_service(spin, bad, reason):
    node = controller.Controller(parameter_overrides=[Parameter('autostart', value=False)])
    other = Other(spin, node)
    before = other.dump()
    good = {'posture.natural_frequency': 1.0, 'rate': 100.0}
    wanted = [Parameter(name, value=value).to_parameter_msg()
              for name, value in {**good, **bad}.items()]
    result = other.call(
        SetParametersAtomically, 'set_parameters_atomically', parameters=wanted).result
    assert not result.successful and reason in result.reason
    assert other.dump() == before
    results = other.call(SetParameters, 'set_parameters', parameters=wanted).results
    assert [result.successful for result in results] == [True, True, False]
    assert other.dump() == {**before, **good}


FIXED = [(name, entry) for name, table in TABLES.items() for entry in table if entry.fixed]


def test_what_names_files_programs_and_machines_or_takes_of_this_one_is_fixed():
    from osc_ros.hardware.franka import FrankaArm
    fixed = {entry.name for _, entry in FIXED}
    assert fixed == {'robot_description_file', 'black_box.directory', 'black_box.files',
                     'hardware.kind', 'hardware.identity', 'record_cycles', 'workers',
                     'realtime.priority', 'realtime.lock_memory', 'realtime.cpus',
                     'black_box.megabytes', 'clearance.shapes', 'clearance.srdf'}
    assert [entry.name for entry in arm_node.entries_of(FrankaArm) if entry.fixed] == [
        'hardware.address', 'hardware.realtime']


def test_participant_can_choose_neither_files_nor_processes_memory_and_priority(spin, tmp_path):
    node = controller.Controller(parameter_overrides=[Parameter('autostart', value=False)])
    other = Other(spin, node)
    before = other.dump()
    for name, value in (('black_box.directory', str(tmp_path)), ('black_box.files', 1),
                        ('robot_description_file', '/etc/passwd'), ('workers', 1024),
                        ('realtime.priority', 99), ('black_box.megabytes', 1024.0)):
        wanted = [Parameter(name, value=value).to_parameter_msg()]
        for kind, service in ((SetParameters, 'set_parameters'),
                              (SetParametersAtomically, 'set_parameters_atomically')):
            answer = other.call(kind, service, parameters=wanted)
            result = answer.results[0] if kind is SetParameters else answer.result
            assert not result.successful
            assert f"'{name}' is fixed when the node starts" in result.reason
    assert other.dump() == before
    # `ros2 param load` sets all that `ros2 param dump` wrote
    same = [Parameter(name, value=value).to_parameter_msg() for name, value in before.items()]
    assert all(one.successful
               for one in other.call(SetParameters, 'set_parameters', parameters=same).results)
