# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Operational-space dynamics of a robot, by several methods with one contract.

`operational_space` is the interface for users, `contract` what a method must do, `methods` the
table of methods. They are in `chain`, `trees`, `teams` and `papers`; only `methods`, tests and
benchmarks import the last.
"""
