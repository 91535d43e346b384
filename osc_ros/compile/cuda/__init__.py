# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Kernels for NVIDIA GPUs, from the source of the kernels for the CPU."""
