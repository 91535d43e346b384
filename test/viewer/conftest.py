# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A described Panda, and a page without a browser."""

import pytest


@pytest.fixture(scope='module')
def panda():
    """Return the URDF of the shipped Panda and its robot."""
    from viewer_readings import described_panda
    return described_panda()


@pytest.fixture
def asked():
    """Return actions that remember what was requested."""
    from browser import Asked
    return Asked()


@pytest.fixture
def page(asked):
    """Return a page whose server runs, without a browser."""
    from browser import free_port
    from osc_ros.viewer.viewer_page import Page
    made = Page('127.0.0.1', free_port(), asked, lambda uri: None)
    yield made
    made.close()
