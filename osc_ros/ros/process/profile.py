# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Environment variables that make nodes use a profile of Fast DDS."""

from importlib.metadata import PackageNotFoundError, version

RENAMED_IN = 8  # major version of rclpy: Jazzy has 7, Kilted 9


def profile_variable() -> str:
    """Return the name of the variable with the path of the profile that Fast DDS reads."""
    # FASTRTPS_… for Fast DDS 2 (Jazzy and before); Fast DDS 3 (Kilted) reads FASTDDS_…, and warns
    # in each process if the other one is set.
    for package in ('rclpy', 'ros-rclpy'):  # names in a ROS installation, and on PyPI
        try:
            is_before = int(version(package).split('.')[0]) < RENAMED_IN
        except (PackageNotFoundError, ValueError):
            continue
        return f'{"FASTRTPS" if is_before else "FASTDDS"}_DEFAULT_PROFILES_FILE'
    return 'FASTRTPS_DEFAULT_PROFILES_FILE'


def profile_environment(path: object) -> dict[str, str]:
    """Return the variables with which nodes use the transports of a profile, and no others."""
    # With ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST or ROS_LOCALHOST_ONLY=1, rmw_fastrtps adds
    # shared memory and sockets on all networks to those of a profile.
    return {profile_variable(): str(path), 'ROS_AUTOMATIC_DISCOVERY_RANGE': 'SYSTEM_DEFAULT',
            'ROS_LOCALHOST_ONLY': ''}
