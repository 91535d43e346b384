# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The section of the report on inverse kinematics."""

import kinematics


def test_every_arm_has_a_row_whose_solutions_are_checked(monkeypatch):
    monkeypatch.setattr(kinematics, 'POSES', 5)
    monkeypatch.setattr(kinematics, 'FEWER', 2)
    rows = kinematics.section()
    assert {row.arm for row in rows if row.share == 1.0} == set(kinematics.ARMS)
    text = kinematics.page(rows)
    for row in rows:
        assert row.largest is None or not row.largest > kinematics.NEAR_ENOUGH
        assert any(row.arm in line and row.solver in line for line in text)
