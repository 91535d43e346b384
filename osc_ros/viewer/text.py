# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Lines of text on the page, as escaped HTML."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

STYLE = 'padding:2px 12px;font-size:14px;line-height:1.35;overflow-wrap:anywhere'


def line(text: str, head: str = '') -> str:
    """Return a line of text, after a head in bold."""
    return (f'<b>{escape(head)}</b> ' if head else '') + escape(text)


def block(lines: Iterable[str]) -> str:
    """Return lines of HTML below each other; '' if there are none."""
    body = ''.join(f'<div style="margin:2px 0">{one}</div>' for one in lines)
    return f'<div style="{STYLE}">{body}</div>' if body else ''
