# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The part of the launch files that works without launch; test_launch.py tests the rest."""

import json
import os
import subprocess
import sys

import pytest

from common import PATIENCE
from osc_ros.interrupts import LAUNCH_PID
from osc_ros.ros.process.launching import CHOICES, node_environment, profile_path
from osc_ros.ros.process.profile import profile_environment
from osc_ros.ros.process.share import share_directory

CONFIG = share_directory() / 'config'
NODE = """
import json, os, pathlib
import rclpy
rclpy.init()
node = rclpy.create_node('node')
files = [os.readlink(path) for path in pathlib.Path('/proc/self/fd').iterdir() if path.exists()]
udp = [line.split() for line in pathlib.Path('/proc/net/udp').read_text().splitlines()[1:]]
print(json.dumps(([row[1].partition(':')[0] for row in udp if f'socket:[{row[9]}]' in files],
                  [file for file in files if file.startswith('/dev/shm/fastrtps')])))
"""


@pytest.mark.parametrize('environment', [
    {}, {'RMW_IMPLEMENTATION': 'rmw_fastrtps_cpp'}, {'RMW_IMPLEMENTATION': ''},
    {'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST'}, {'ROS_LOCALHOST_ONLY': '1'},
    {'FASTRTPS_DEFAULT_PROFILES_FILE': ''}], ids=str)
def test_nodes_of_a_user_who_has_chosen_nothing_use_no_shared_memory(environment):
    assert profile_path('auto', environment) == str(CONFIG / 'fastdds.xml')


@pytest.mark.parametrize('environment', [
    *({name: 'of the user'} for name in CHOICES), {'ROS_AUTOMATIC_DISCOVERY_RANGE': 'SUBNET'},
    {'RMW_IMPLEMENTATION': 'rmw_cyclonedds_cpp'}, {'RMW_IMPLEMENTATION': 'rmw_zenoh_cpp'}],
    ids=str)
def test_choice_of_the_user_is_left_alone_unless_the_argument_names_a_profile(environment):
    assert profile_path('auto', environment) == profile_path('none', environment) == ''
    assert profile_path('loopback', environment) == str(CONFIG / 'fastdds.xml')
    assert profile_path('shared_memory', environment) == str(
        CONFIG / 'fastdds_shared_memory.xml')


def test_profile_of_the_user_is_taken_by_its_path_and_one_that_is_missing_refused(tmp_path):
    path = tmp_path / 'my.xml'
    path.touch()
    assert profile_path(str(path), {}) == str(path)
    with pytest.raises(FileNotFoundError, match='auto, loopback, shared_memory, none'):
        profile_path(str(tmp_path / 'none.xml'), {})


def test_nodes_get_the_profile_and_the_process_of_launch_where_they_are_to():
    assert node_environment('', False) == {}
    assert node_environment('/my.xml', True) == {
        **profile_environment('/my.xml'), LAUNCH_PID: str(os.getpid())}


@pytest.mark.parametrize('chosen', [
    {}, {'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST'}, {'ROS_LOCALHOST_ONLY': '1'}], ids=str)
def test_node_with_the_profile_uses_loopback_only_and_no_shared_memory(chosen):
    pytest.importorskip('rclpy', reason='rclpy is not installed')
    text = subprocess.run(
        [sys.executable, '-c', NODE], stdout=subprocess.PIPE, text=True, check=True,
        timeout=PATIENCE, env={**os.environ, **chosen, **node_environment(
            profile_path('loopback'), False)}).stdout
    ports, files = json.loads(text)
    assert ports and all(address == '0100007F' for address in ports), ports
    assert not files
