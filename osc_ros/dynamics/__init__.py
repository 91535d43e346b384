# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Operational-space dynamics of a robot, by several methods with one contract.

`operational_space` is the interface for users, `method` the contract, `methods` the table of
methods. The methods are in `chain`, `trees`, `teams` and `papers`; the last may be imported by
`methods`, tests and benchmarks only.
"""
