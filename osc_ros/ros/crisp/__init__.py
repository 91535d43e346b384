# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""osc_crisp: the names, services and parameters of CRISP in front of osc_controller."""
