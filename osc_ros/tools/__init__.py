# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Command-line tools: osc_check, osc_demo, osc_identify, osc_record, osc_tune and others."""
