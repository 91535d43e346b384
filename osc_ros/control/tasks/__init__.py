# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Tasks: the motion and the force commanded for each link, and the feedback that achieves them."""
