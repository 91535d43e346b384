# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Operational-space dynamics of a robot: several methods with one interface.

`operational_space` is the interface for users, `contract` the interface of a method, `methods` the
table of methods. The methods are in `chain`, `trees`, `teams` and `papers`; only `methods`, tests
and benchmarks import `papers`.
"""
