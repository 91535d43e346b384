# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The processes of `participants`: one that publishes states and times commands, one that answers.

`python benchmark/traffic.py measure SECONDS PERIOD LONG`, with the period of the states and the
least length of a gap that counts as long [s]; `traffic.py echo` until its standard input ends;
`traffic.py join` asks for a parameter and ends.

"""

from __future__ import annotations

import json
import os
import sys
from threading import Thread
from time import perf_counter, sleep

import numpy as np
from rcl_interfaces.srv import GetParameters
import rclpy
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import JointState

from osc_ros.ros.process.node_process import EventsExecutor


def main(role, *numbers):
    """Run one of the processes."""
    rclpy.init()
    {'measure': _measure, 'echo': _echo, 'join': _join}[role](Node(role), *map(float, numbers))
    sys.stdout.flush()
    os._exit(0)


def _measure(node, seconds, period, least):
    states = node.create_publisher(JointState, 'states', qos_profile_sensor_data)
    sent, came, took = [], [], []

    def on_command(message):
        came.append(perf_counter())
        took.append(came[-1] - message.velocity[0])

    def publish():
        due = perf_counter()
        while True:
            due = max(due + period, perf_counter() - 25 * period)
            sleep(max(0.0, due - perf_counter()))
            sent.append(perf_counter())
            states.publish(JointState(name=['joint'] * 7, velocity=[sent[-1]] * 7))

    node.create_subscription(JointState, 'commands', on_command, 1)
    Thread(target=publish, daemon=True).start()
    _spin(node, lambda: came)
    begin = perf_counter()
    _spin(node, lambda: perf_counter() - begin > seconds)
    first = next(k for k, time in enumerate(came) if time > begin)
    gaps = np.diff(came[first:])
    own = np.diff([time for time in sent if time > begin])
    p50, p99 = np.percentile(took[first:], [50, 99])
    print(json.dumps({'answered': len(gaps) + 1, 'longest': float(gaps.max()),
                      'own': float(own.max()), 'long': int((gaps > least).sum()),
                      'p50': 1e6 * float(p50), 'p99': 1e6 * float(p99)}))


def _echo(node):
    commands = node.create_publisher(JointState, 'commands', 1)
    node.create_subscription(JointState, 'states', commands.publish, qos_profile_sensor_data)
    Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    _spin(node, lambda: False)


def _join(node):
    client = node.create_client(GetParameters, 'echo/get_parameters')
    if client.wait_for_service(timeout_sec=2.0):
        answer = client.call_async(GetParameters.Request(names=['use_sim_time']))
        begin = perf_counter()
        _spin(node, lambda: answer.done() or perf_counter() - begin > 1.0)


def _spin(node, happened):
    executor = EventsExecutor()
    executor.add_node(node)
    while not happened():
        executor.spin_once(timeout_sec=0.1)
    executor.remove_node(node)


if __name__ == '__main__':
    main(*sys.argv[1:])
