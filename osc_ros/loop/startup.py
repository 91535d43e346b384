# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Decides on an activation after the start-up check, and on the load to compensate."""

from __future__ import annotations

from typing import NamedTuple

from osc_ros.control.model_error.disturbance import Disturbance
from osc_ros.control.settings import Settings
from osc_ros.loop.rest_check import Finding, Verdict

# Values of the start-up check. 'off': no check; 'warn': only warn; 'certain': refuse if the model
# is certainly wrong, else warn; 'refuse': refuse if it seems wrong, and warn of unclear results.
OFF = 'off'
CHECKS = OFF, 'warn', 'certain', 'refuse'
NOTE, WARN, REFUSE = 'note', 'warn', 'refuse'
# Verdicts after which external torques cannot be computed from the efforts.
UNUSABLE = Verdict.SIGN_OR_ORDER, Verdict.UNEXPLAINED, Verdict.GRAVITY


class Decision(NamedTuple):
    """Whether the controller may be activated, and why."""

    level: str  # NOTE or WARN: the arm is activated; REFUSE: it is not
    text: str  # the finding; with WARN and REFUSE also what the user can do


def decision(finding: Finding, check: str, settings: Settings, by_name: str = 'startup_check {}'
           ) -> Decision:
    """Return the decision on an activation; `check`: 'warn', 'certain' or 'refuse', see CHECKS."""
    # `by_name`: text that tells the user how to set `check`, with {} for the value
    compensates = 'none' if settings.driver is None else settings.driver.compensates
    efforts = 'commanded' if settings.observation is None else settings.observation.efforts
    text, verdict = f'start-up check: {finding}', finding.verdict
    if verdict is Verdict.COMPENSATED and compensates != 'none':
        return Decision(NOTE, 'start-up check: the efforts do not contain the weight, as '
                        f"driver_compensates '{compensates}' says")
    if verdict is Verdict.WELL:
        return Decision(NOTE, text)
    if verdict in UNUSABLE and efforts != 'commanded':
        return Decision(REFUSE, f'{text} (accepted with {by_name.format(repr("warn"))} and '
                        "external_force.efforts 'commanded')")
    is_certain = finding.is_certain
    if compensates != 'none' and verdict is Verdict.MASS:  # efforts may lack the weight
        is_certain &= finding.mass is not None and sum(finding.mass) > 0.0
    if check == 'certain':
        is_certain &= not _is_expected(finding, settings.disturbance)
    if check == 'warn' or not is_certain and (check == 'certain' or verdict is Verdict.UNCLEAR):
        return Decision(WARN, text + _remedy(finding))
    taken = ('; the compensation of what the model lacks then takes up the difference'
             if finding.missing is not None else '')
    return Decision(REFUSE, f'{text}{_remedy(finding)}. To activate all the same: '
                    f'{by_name.format(repr("warn"))}{taken}')


def _remedy(finding: Finding) -> str:
    return f'. Set {finding.remedy}' if finding.remedy else ''


def _is_expected(finding: Finding, disturbance: Disturbance | None) -> bool:
    """Whether a finding is a load within the payload that the compensation is set for."""
    return (disturbance is not None and finding.missing is not None and finding.mass is not None
            and 0.5 * abs(sum(finding.mass)) <= disturbance.payload)


def load_of(finding: Finding | None) -> float:
    """Return the largest mass at the tip that a finding reports as missing [kg]; 0 if none."""
    if finding is None or finding.missing is None or finding.mass is None:
        return 0.0
    return max(abs(mass) for mass in finding.mass)
