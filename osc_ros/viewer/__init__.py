# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The web page of osc_viewer: scene, panel, sliders and plots, without ROS."""
