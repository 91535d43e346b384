# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Identification of payload, friction and inertial parameters from recorded motions."""
