# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Control loop and relay loop over DDS, which handle messages in compiled code."""
