# Copyright 2026 The osc_ros maintainers
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.

"""The nodes: the only part of the package that knows ROS."""

from importlib.util import find_spec

from osc_ros.errors import installation

if find_spec('rclpy') is None:  # not imported here: that takes long, see osc_ros.nodes.start
    raise ModuleNotFoundError('osc_ros.nodes needs ROS 2: source an installation of it, or '
                              + installation('jazzy'))
