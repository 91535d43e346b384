# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The SROS 2 policies allow each node what it does, by the graph of running nodes, and no more."""

import time
from xml.etree import ElementTree

import numpy as np
import pytest

from common import CHECKOUT

pytest.importorskip('rclpy', reason='rclpy is not installed')

from rclpy.node import Node

from arm_rig import ARM
from node_rig import given, ROBOT, SUCCESS
import osc_ros
from osc_ros.recording.bag import BagWriter
from osc_ros.ros.arm_node import ArmNode
from osc_ros.ros.relay import Relay
from osc_ros.sim.hand import FINGERS
from osc_ros.tools.record import record_node
from ros_arm import RosArm

pytestmark = pytest.mark.ros

PATH = CHECKOUT / 'config' / 'osc_ros.policy.xml'
WRITE = "make test ARGS='-k sros2 --write-tables'"
LONGEST = 30.0  # until the graph is complete, on a busy machine [s]
HEAD = """\
<?xml version="1.0" encoding="UTF-8"?>
<!-- SROS 2 policies of osc_ros (doc/security.md); test_sros2.py writes them from the graph of
     running nodes, and compares them. -->
<policy version="0.2.0">
  <enclaves>
"""
RULES = (('topics', 'topic', 'publish'), ('topics', 'topic', 'subscribe'),
         ('services', 'service', 'reply'), ('services', 'service', 'request'),
         ('actions', 'action', 'execute'), ('actions', 'action', 'call'))
# Nodes do this, too: with packages that are not on PyPI (tf2_ros, tf2_msgs, control_msgs), with
# use_sim_time, a simulator behind osc_relay, and a page whose user moves joints.
TRANSFORMS, CLOCK = ('/tf', '/tf_static'), '/clock'
GRASPS = 'gripper/gripper_cmd', 'gripper/parallel_gripper_cmd'
FOLLOWS = '/osc_controller/follow_joint_trajectory'
MORE = {
    'controller': {'subscribe': [*TRANSFORMS, CLOCK], 'execute': [FOLLOWS]},
    'arm': {'subscribe': [*TRANSFORMS, CLOCK], 'publish': TRANSFORMS[:1],
            'execute': [FOLLOWS, *(f'/osc_controller/{name}' for name in GRASPS)]},
    'relay': {'subscribe': [CLOCK]},
    'simulator': {'subscribe': ['/osc_relay/commands'], 'publish': TRANSFORMS[:1],
                  'execute': [f'/osc_simulator/{name}' for name in GRASPS]},
    'viewer': {'subscribe': [CLOCK], 'publish': ['/osc_controller/target_joint']},
    'record': {'subscribe': TRANSFORMS},
    'operator': {'subscribe': TRANSFORMS, 'call': [FOLLOWS, *(
        f'/osc_{node}/{name}' for node in ('controller', 'simulator') for name in GRASPS)]},
    'observer': {'subscribe': TRANSFORMS}}
READING = ('get_parameters', 'list_parameters', 'describe_parameters', 'get_parameter_types',
           'get_state', 'get_available_states', 'get_available_transitions',
           'get_transition_graph')


class Watcher(Node):
    """Sees in the ROS graph what each node does."""

    def __init__(self):
        """Begin to discover the others."""
        super().__init__('watcher', enable_rosout=False, start_parameter_services=False)

    def seen(self, namespace, *names):
        """Return the names of what nodes do, by rule; the namespace is left out."""
        found = {rule: set() for *_, rule in RULES}
        for name in names:
            for rule, look in (
                    ('publish', self.get_publisher_names_and_types_by_node),
                    ('subscribe', self.get_subscriber_names_and_types_by_node),
                    ('reply', self.get_service_names_and_types_by_node),
                    ('request', self.get_client_names_and_types_by_node)):
                found[rule] |= {one.removeprefix(namespace.rstrip('/'))
                                for one, _ in look(name, namespace)
                                if '/_action/' not in one}  # rules on actions cover these
        return found


@pytest.fixture
def found(ros, spin, tmp_path):
    """Return what the nodes do, by enclave and rule."""
    from osc_ros.ros.viewer.viewer_node import options_of, Viewer
    fingers = list(FINGERS['panda'])
    arm = ArmNode(namespace='apart', parameter_overrides=given(
        **(ARM | {'hardware__gripper__joints': fingers})))
    assert arm.trigger_configure() == SUCCESS  # alone: kernels are compiled in one thread only
    relay, watcher = Relay(parameter_overrides=given(**ROBOT)), Watcher()
    viewer = Viewer(options_of(['--listen-always', '--port', '18310'])[0])
    nodes = RosArm(ros, {'gripper__joints': fingers, 'cube__position': [0.5, -0.2, 0.02],
                         'world__ball__radius': 0.05})
    bag = BagWriter(tmp_path / 'bag', record_node.definition)
    try:
        with osc_ros.Arm.ros(timeout=120.0) as client:
            recorder = record_node.Recorder('osc_controller', bag, [], True)
            spin(lambda: viewer._link.reading.robot is not None, watcher, arm, relay, viewer,
                 recorder, why='for the page to read the robot')
            viewer._link.target('', np.eye(4))
            client_name = client._backend._node.get_name()

            def look():
                return {
                    'controller': watcher.seen('/', 'osc_controller', '_osc_controller_loop'),
                    'arm': watcher.seen('/apart', 'osc_controller'),
                    'relay': watcher.seen('/', 'osc_relay', '_osc_relay_loop'),
                    'simulator': watcher.seen('/', 'osc_simulator'),
                    'viewer': watcher.seen('/', 'osc_viewer', '_osc_viewer_states'),
                    'record': watcher.seen('/', 'osc_record'),
                    'client': watcher.seen('/', client_name)}

            before, count, latest = None, 0, time.perf_counter() + LONGEST

            def is_complete():
                nonlocal before, count
                now = look()
                count = count + 1 if now == before else 0
                before = now
                return count > 20 and (time.perf_counter() > latest or policy(
                    composed(now)) == PATH.read_text(encoding='utf-8'))

            spin(is_complete, why='for the graph')
            yield before
    finally:
        nodes.close()
        bag.close()


def composed(found):
    """Return the rules of every enclave, with those of operators and observers."""
    nodes = [found[name] for name in ('controller', 'arm', 'relay', 'simulator')]
    every = {rule: set().union(*(one[rule] for one in nodes)) for rule in ('publish', 'subscribe',
                                                                            'reply')}
    common = found['record']['publish'] | {'/rosout', '/parameter_events'}
    private = {one for one in every['subscribe'] if one.startswith('/osc_')
               and not one.endswith('/commands')}
    rules = {name: found[name] for name in (
        'controller', 'arm', 'relay', 'simulator', 'viewer', 'record')}
    of_others = found['viewer']['subscribe'] & private  # obstacles of other operators
    rules['operator'] = {'publish': private | common, 'subscribe': every['publish'] | of_others,
                         'request': every['reply']}
    rules['observer'] = {'publish': common, 'subscribe': every['publish'], 'request': {
        one for one in every['reply'] if one.rpartition('/')[2] in READING}}
    return {name: {rule: sorted(set(of.get(rule, ())) | set(MORE.get(name, {}).get(rule, ())))
                   for *_, rule in RULES} for name, of in rules.items()}


def policy(rules):
    """Return the text of the policy file."""
    lines = []
    for name, of in rules.items():
        lines += [f'    <enclave path="/osc_ros/{name}">', '      <profiles>',
                  f'        <profile ns="/" node="{name}">']
        for group, element, rule in RULES:
            if of[rule]:
                lines += [f'          <{group} {rule}="ALLOW">',
                          *(f'            <{element}>{one}</{element}>' for one in of[rule]),
                          f'          </{group}>']
        lines += ['        </profile>', '      </profiles>', '    </enclave>']
    return HEAD + '\n'.join(lines) + '\n  </enclaves>\n</policy>\n'


def test_sros2_policies_allow_each_node_what_it_does_and_no_more(found, request):
    rules = composed(found)
    text = policy(rules)
    if request.config.getoption('--write-tables'):
        PATH.write_text(text, encoding='utf-8')
    assert PATH.read_text(encoding='utf-8') == text, f'{PATH}: {WRITE}'
    for rule in ('publish', 'subscribe', 'request'):
        assert found['client'][rule] <= set(rules['operator'][rule]), rule
        assert found['viewer'][rule] <= set(rules['operator'][rule]), rule
    assert '/osc_controller/commands' not in rules['operator']['publish']
    assert not {one for one in rules['observer']['publish'] if one.startswith('/osc_')}
    assert not {one for one in rules['observer']['request'] if 'set' in one or 'change' in one}


def test_sros2_policies_have_the_structure_of_the_schema():
    root = ElementTree.parse(PATH).getroot()
    assert (root.tag, root.attrib) == ('policy', {'version': '0.2.0'})
    (enclaves,) = root
    paths = [enclave.attrib['path'] for enclave in enclaves]
    assert len(set(paths)) == len(paths) == 8
    allowed = {(group, element, rule) for group, element, rule in RULES}
    for enclave in enclaves:
        ((profile,),) = enclave
        assert set(profile.attrib) == {'ns', 'node'}
        for group in profile:
            ((rule, word),) = group.attrib.items()
            assert word == 'ALLOW'
            assert len(group) > 0
            for one in group:
                assert (group.tag, one.tag, rule) in allowed
                assert one.text.startswith('/')
