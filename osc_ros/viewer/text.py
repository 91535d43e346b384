# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Lines of text on the page, as escaped HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from os.path import commonprefix

STYLE = 'padding:2px 12px;font-size:14px;line-height:1.35;overflow-wrap:anywhere'


def short_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of joints without the words that all of them begin and end with."""
    begin = commonprefix(list(names)).rpartition('_')
    end = commonprefix([name[::-1] for name in names]).rpartition('_')
    cut = tuple(name[len(begin[0] + begin[1]):len(name) - len(end[0] + end[1])] for name in names)
    return cut if all(name[:1].isalpha() for name in cut) else tuple(names)


def line(text: str, head: str = '') -> str:
    """Return a line of text, after a head in bold."""
    return (f'<b>{escape(head)}</b> ' if head else '') + escape(text)


def block(lines: Iterable[str]) -> str:
    """Return lines of HTML below each other; '' if there are none."""
    body = ''.join(f'<div style="margin:2px 0">{one}</div>' for one in lines)
    return f'<div style="{STYLE}">{body}</div>' if body else ''
