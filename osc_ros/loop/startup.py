# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Whether an arm may be activated after the start-up check, and what takes up a missing load."""

from __future__ import annotations

from typing import NamedTuple

from osc_ros.control.model_error.disturbance import Disturbance
from osc_ros.control.settings import Settings
from osc_ros.loop.rest_check import Finding, Verdict

# Reactions to the result of the check: none; a warning; refusal of what is certain, and a warning
# of the rest; refusal of everything except a right model and efforts that tell nothing.
OFF = 'off'
CHECKS = OFF, 'warn', 'certain', 'refuse'
NOTE, WARN, REFUSE = 'note', 'warn', 'refuse'
# Findings with which external torques cannot be computed from the efforts.
UNUSABLE = Verdict.SIGN_OR_ORDER, Verdict.UNEXPLAINED, Verdict.GRAVITY


class Answer(NamedTuple):
    """
    Answer to an activation.

    Attributes
    ----------
    level : str
        NOTE or WARN: the arm is activated; REFUSE: it is not.
    text : str
        The finding, and with WARN and REFUSE what to do.

    """

    level: str
    text: str


def answer(finding: Finding, check: str, settings: Settings, by_name: str = 'startup_check {}'
           ) -> Answer:
    """
    Return the answer to an activation with a finding.

    Parameters
    ----------
    finding : Finding
    check : str
        'warn', 'certain' or 'refuse', see CHECKS.
    settings : Settings
        Of the law: its driver, compensation and source of efforts.
    by_name : str
        How the user sets `check`, with {} for the value.

    """
    compensates = 'none' if settings.driver is None else settings.driver.compensates
    efforts = 'commanded' if settings.observation is None else settings.observation.efforts
    text, verdict = f'start-up check: {finding}', finding.verdict
    if verdict is Verdict.COMPENSATED and compensates != 'none':
        return Answer(NOTE, 'start-up check: the efforts do not contain the weight, as '
                      f"driver_compensates '{compensates}' says")
    if verdict is Verdict.WELL:
        return Answer(NOTE, text)
    if verdict in UNUSABLE and efforts != 'commanded':
        return Answer(REFUSE, f'{text} (accepted with {by_name.format(repr("warn"))} and '
                      "external_force.efforts 'commanded')")
    is_certain = finding.is_certain
    if compensates != 'none' and verdict is Verdict.MASS:  # the efforts may be without the weight
        is_certain &= finding.mass is not None and sum(finding.mass) > 0.0
    if check == 'certain':
        is_certain &= not _is_expected(finding, settings.disturbance)
    if check == 'warn' or not is_certain and (check == 'certain' or verdict is Verdict.UNCLEAR):
        return Answer(WARN, text + _remedy(finding))
    taken = ('; the compensation of what the model lacks then takes up the difference'
             if finding.missing is not None else '')
    return Answer(REFUSE, f'{text}{_remedy(finding)}. To activate all the same: '
                  f'{by_name.format(repr("warn"))}{taken}')


def _remedy(finding: Finding) -> str:
    return f'. Set {finding.remedy}' if finding.remedy else ''


def _is_expected(finding: Finding, disturbance: Disturbance | None) -> bool:
    """Whether a finding is a load that the compensation in force is told to take up."""
    return (disturbance is not None and finding.missing is not None and finding.mass is not None
            and 0.5 * abs(sum(finding.mass)) <= disturbance.payload)


def load_of(finding: Finding | None) -> float:
    """Return the largest mass at the tip that a finding says is missing [kg]; 0 if it does not."""
    if finding is None or finding.missing is None or finding.mass is None:
        return 0.0
    return max(abs(mass) for mass in finding.mass)
