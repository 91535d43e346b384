# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Measures how well an arm in MuJoCo meets the settings of its law, and what to change."""
