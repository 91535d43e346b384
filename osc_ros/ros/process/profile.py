# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The environment variable that names the profile of Fast DDS."""

from importlib.metadata import PackageNotFoundError, version

RENAMED_IN = 8  # major version of rclpy: Jazzy has 7, Kilted 9


def profile_variable() -> str:
    """
    Return the name of the variable that tells the installed Fast DDS the path of its profile.

    Fast DDS 3 (ROS 2 Kilted) reads 'FASTDDS_DEFAULT_PROFILES_FILE', and warns in each process if
    the name that Fast DDS 2 (Jazzy and before) reads, 'FASTRTPS_DEFAULT_PROFILES_FILE', is set.

    """
    for package in ('rclpy', 'ros-rclpy'):  # of a ROS installation; from PyPI
        try:
            is_before = int(version(package).split('.')[0]) < RENAMED_IN
        except (PackageNotFoundError, ValueError):
            continue
        return f'{"FASTRTPS" if is_before else "FASTDDS"}_DEFAULT_PROFILES_FILE'
    return 'FASTRTPS_DEFAULT_PROFILES_FILE'
