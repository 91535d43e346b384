# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The node accepts the `ros2` commands that the pages give for it, in the order of each page."""

import re

import numpy as np
import pytest
import yaml

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')

from rclpy.parameter import Parameter  # noqa: E402
from rosidl_parser.definition import AbstractSequence, NamespacedType  # noqa: E402

from node_rig import given, Rig, ROBOT  # noqa: E402
from osc_ros.ros.simulator.simulator import Simulator  # noqa: E402
from texts import (  # noqa: E402
    blocks,
    commands,
    FOREIGN,
    PAGES,
    read,
)
from variants import quick_if  # noqa: E402

SIMULATOR = '/osc_simulator/'
# ros2 topic, param and service; a mention without arguments, `ros2 param dump`, is not checked
TALKS = {page: [words[1:] for words in dict.fromkeys(commands(page))
                if words[:1] == ('ros2',) and words[1] in ('topic', 'param', 'service')
                and len(words) > 3 and words[3] not in FOREIGN
                and not any(word.startswith(SIMULATOR) for word in words)]
         for page in PAGES}
PUSHES = {words for page in PAGES for words in commands(page)
          if words[:3] == ('ros2', 'topic', 'pub') and any(
              word.startswith(SIMULATOR) for word in words)}
MOVES = 0.05  # least change of a torque after an accepted target [N·m]


def kind(name):
    """Return the class of a message or service by its name, package/msg/Name."""
    package, folder, name = name.split('/')
    module = __import__(f'{package}.{folder}', fromlist=[name])
    return getattr(module, name)


def filled(message, values):
    """Fill a message with values from YAML, as `ros2 topic pub` does; return the message."""
    for name, value in values.items():
        of = message.SLOT_TYPES[list(message.get_fields_and_field_types()).index(name)]
        if isinstance(of, NamespacedType):
            value = filled(getattr(message, name), value)
        elif isinstance(getattr(message, name), float):
            value = float(value)
        elif isinstance(of, AbstractSequence) and isinstance(of.value_type, NamespacedType):
            made = kind('/'.join(of.value_type.namespaced_name()))
            value = [filled(made(), one) for one in value]
        setattr(message, name, value)
    return message


def further_tasks(page):
    """Return the parameters of all sections of a page's YAML blocks that contain `tasks`."""
    found = {}
    for block in blocks(page, 'yaml'):
        for section in yaml.safe_load(block.text).values():
            if 'tasks' in section['ros__parameters']:
                found |= section['ros__parameters']
    return found


class Conversation:
    """An active controller, and methods for the commands `ros2 topic`, `param`, `service`."""

    def __init__(self, spin, **parameters):
        """Activate a controller of the shipped Panda."""
        self.rig = Rig(spin, **parameters).activate()
        self.spin, self.hardware = spin, self.rig.hardware
        self.said = ''

    def offers(self, what):
        """Return the node's subscriptions, publishers or services: {name: class}."""
        return {getattr(one, 'topic_name', None) or one.service_name: getattr(
            one, 'msg_type', None) or one.srv_type for one in getattr(self.rig.controller, what)}

    def topic(self, verb, *words):
        """Publish a message until the torques change; for `echo`, require the topic."""
        if verb == 'echo':
            assert words[-1] in self.offers('publishers'), words
            return
        assert verb == 'pub'
        words = [word for word in words if word != '--once']
        if '--rate' in words:
            assert float(words.pop(words.index('--rate') + 1)) > 0.0
            words.remove('--rate')
        topic, name, text = words
        assert self.offers('subscriptions').get(topic) is kind(name), f'{topic} of {name}'
        message = filled(kind(name)(), yaml.safe_load(text))
        publisher = self.hardware.create_publisher(type(message), topic, 10)
        before = self.rig.ask()
        obstacles = self.rig.controller._loop.engine.law.obstacles

        def answered():
            publisher.publish(message)
            if topic == '/osc_controller/obstacles':
                self.rig.ask()
                return set(obstacles) == {f'{one.ns}/{one.id}' for one in message.markers}
            return np.abs(self.rig.ask() - before).max() > MOVES

        self.spin(answered, why=f'for an answer to {topic}')

    def param(self, verb, node, name, value):
        """Set a parameter, and require that the node accepts it."""
        assert (verb, node) == ('set', '/osc_controller')
        controller = self.rig.controller
        assert controller.has_parameter(name), name
        [result] = controller.set_parameters([Parameter(name, value=yaml.safe_load(value))])
        assert result.successful, result.reason
        self.rig.ask()

    def service(self, verb, name, of, values='{}'):
        """Call a service with values for its request, and require that the call succeeds."""
        assert verb == 'call' and self.offers('services').get(name) is kind(of), f'{name} of {of}'
        client = self.hardware.create_client(kind(of), name)
        self.spin(client.service_is_ready, why=f'for {name}')
        future = client.call_async(filled(kind(of).Request(), yaml.safe_load(values)))
        self.spin(lambda: self.rig.hardware.state() and future.done(), why=f'for {name}')
        assert future.result().success, future.result().message


@pytest.mark.parametrize('page', quick_if(
    lambda page: page in ('README.md', 'doc/ros.md'), [page for page in PAGES if TALKS[page]]))
def test_node_accepts_every_command_of_a_page_one_after_the_other(spin, page):
    terminal = Conversation(spin, **further_tasks(page))
    for what, *words in TALKS[page]:
        getattr(terminal, what)(*words)
    assert not spin.said('refused')


def test_topics_and_services_of_the_page_are_those_of_the_node(spin):
    terminal = Conversation(spin)
    offered = {name.replace('/osc_controller/', '~/'): of.__name__
               for what in ('subscriptions', 'publishers', 'services')
               for name, of in terminal.offers(what).items()}
    rows = re.findall(r'^\| (?:in|out|srv) \| (.*?) \| (.*?) \|',
                      read('doc/ros.md'), re.MULTILINE)
    listed = {}
    for names, types in rows:
        if 'NAME' not in names:
            listed |= dict(zip(re.findall(r'`(\S+)`', names), types.split(', '), strict=True))
    del listed['joint_states']  # the subscriber is the controller's hidden node
    for name, of in listed.items():
        found = offered.get(name) or offered.get(f'/{name}')
        assert found == of.rpartition('/')[2], name
    own = {name for name in offered if name.startswith('~/') and 'transition' not in name
           and not re.search('parameter|state|type_desc', name)}
    assert own == {name for name in listed if name.startswith('~/')}


def test_simulator_takes_the_messages_that_the_pages_send_it(spin):
    node = Simulator(parameter_overrides=given(**ROBOT, lockstep=True, publish_tf=False))
    offered = {one.topic_name: one.msg_type for one in node.subscriptions}
    for *_, topic, name, text in PUSHES:
        assert offered[topic] is kind(name)
        publisher = node.create_publisher(kind(name), topic, 10)
        spin(lambda: publisher.get_subscription_count() > 0, node)  # noqa: B023
        publisher.publish(filled(kind(name)(), yaml.safe_load(text)))
        spin(lambda: node._plant._pushed, why='for the push')
    assert PUSHES and not spin.said('refused')
