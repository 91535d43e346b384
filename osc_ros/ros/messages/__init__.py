# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Messages of ROS: their contents, their bytes, and who publishes them."""
