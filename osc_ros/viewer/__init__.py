# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The page of osc_viewer in the browser: scene, panel and plots, without ROS."""
