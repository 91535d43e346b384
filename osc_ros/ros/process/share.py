# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Location of the package's installed configuration and launch files."""

from __future__ import annotations

from pathlib import Path
import sys

from osc_ros.errors import InputError


def share_directory() -> Path:
    """Return the folder with config/ and launch/; InputError if it is not found."""
    candidates = []
    try:
        from ament_index_python.packages import get_package_share_directory
        candidates.append(Path(get_package_share_directory('osc_ros')))
    except (ImportError, LookupError, OSError, ValueError):
        pass  # ROS is not installed, or its index does not contain this package
    candidates.append(Path(sys.prefix) / 'share' / 'osc_ros')  # pip
    candidates.append(Path(__file__).parents[3])  # checkout
    for candidate in candidates:
        if (candidate / 'config' / 'fastdds.xml').is_file():
            return candidate
    raise InputError('the files of osc_ros (config/fastdds.xml) are in none of: '
                     + ', '.join(map(str, candidates)))
