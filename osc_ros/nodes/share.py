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

"""The folder of the installed files of this package, however it was installed."""

from __future__ import annotations

from pathlib import Path
import sys

from osc_ros.errors import InputError


def share_directory() -> Path:
    """
    Return the folder with config/ and launch/.

    From the ament index, else under the prefix of Python (pip), else the checkout.

    Raises
    ------
    InputError
        None of them has the files.

    """
    candidates = []
    try:
        from ament_index_python.packages import get_package_share_directory
        candidates.append(Path(get_package_share_directory('osc_ros')))
    except (ImportError, LookupError, OSError, ValueError):
        pass  # no ROS, or the package is not in its index
    candidates.append(Path(sys.prefix) / 'share' / 'osc_ros')
    candidates.append(Path(__file__).parents[2])
    for candidate in candidates:
        if (candidate / 'config' / 'fastdds.xml').is_file():
            return candidate
    raise InputError('the files of osc_ros (config/fastdds.xml) are in none of: '
                     + ', '.join(map(str, candidates)))
