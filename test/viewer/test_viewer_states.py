# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The banner of the page in each state, and the place of its controls, in a real browser."""

from io import BytesIO
import json
import time

import numpy as np
import pytest

pytest.importorskip('viser', reason="viser is not installed: pip install '.[viewer]'")

import browser as chromium
from browser import Asked, free_port, needs_browser
from osc_ros import Obstacle
from osc_ros.control.safety.supervision import DEADLINE
from osc_ros.viewer import banner
from osc_ros.viewer.banner import AMBER, BLUE, condition, GREEN, GREY, is_away, RED
from osc_ros.viewer.panel import headline, messages_html
from osc_ros.viewer.scene.reading import ABSENT, ERROR, OK, STALE, WARN
from osc_ros.viewer.viewer_page import Page
from variants import first_quick
from viewer_readings import reading_of
from viewer_rig import pixel

WIDTH, HEIGHT = 1400, 850  # of the window [px]
SCALE = 0.5  # of the screenshots: the scene is drawn on the CPU
AWAY = np.array([0.0, 0.05, 0.0, 0.03, 0.0, 0.01])  # [rad, m]
NEAR = 0.01 * AWAY
GIVEN_UP = ('runaway: panda_joint2 moves against its torque: no more commands; ~/release accepts '
            'activation again')
PUSHED = ('the arm is in contact: 15.0 N push the link along [0.0, 0.0, -1.0] (base axes); '
          'remedy: make room, or choose a goal before the obstacle')
LIMITED = 'joints at their position limits: panda_joint4 at -3.07 (limit -3.07 rad)'
# name: (colour, texts of the banner, time for which the tip is away, data of the controller)
STATES = {
    'absent': (GREY, ['absent', 'waiting for the controller'], 0.0,
               {'lifecycle': ABSENT, 'level': ERROR, 'text': 'of before'}),
    'inactive': (GREY, ['inactive', 'press start'], 0.0,
                 {'lifecycle': 'inactive', 'level': OK, 'text': 'inactive'}),
    'unconfigured': (GREY, ['press start'], 0.0, {'lifecycle': 'unconfigured'}),
    'compiles': (GREY, ['configuring', 'compiling kernels: 3 of 9'], 0.0,
                 {'lifecycle': 'configuring', 'text': 'compiling kernels: 3 of 9'}),
    'silent': (GREY, ['no diagnostics for 5 s'], 0.0,
               {'level': STALE, 'text': 'no diagnostics for 5 s', 'error': NEAR}),
    'no report': (GREY, ['no report of the error'], 0.0, {'level': OK, 'text': 'active'}),
    'on goal': (GREEN, ['active', 'at its goal: 0.3 mm, 0.03°'], 0.0,
                {'level': OK, 'text': 'active', 'error': NEAR, 'goal_errors': {'': NEAR}}),
    'holds': (GREEN, ['at its set-point: 0.3 mm'], 0.0,
              {'level': OK, 'text': 'active', 'error': NEAR}),
    'on goal, warns': (AMBER, ['at its goal', 'torque at its limit'], 0.0,
                       {'level': WARN, 'text': 'torque at its limit', 'error': NEAR,
                        'goal_errors': {'': NEAR}}),
    'on the way': (BLUE, ['on the way: 158.1 mm, 14.32° away from its goal'], 0.0,
                   {'level': OK, 'text': 'active', 'error': NEAR,
                    'goal_errors': {'': 5.0 * AWAY}}),
    'arrives': (BLUE, ['on the way: 31.6 mm'], 0.5 * banner.HELD_AFTER,
                {'level': OK, 'text': 'active', 'error': AWAY, 'goal_errors': {'': AWAY}}),
    'guided': (BLUE, ['free drive: the arm follows the hand'], 2.0 * banner.HELD_AFTER,
               {'level': OK, 'text': 'free drive: the arm follows the hand', 'error': AWAY,
                'status': {'free drive': 'on'}}),
    'held away': (AMBER, ['held 31.6 mm, 2.86° away from its goal', f'reason: {PUSHED}'],
                  2.0 * banner.HELD_AFTER,
                  {'level': OK, 'text': 'active', 'error': AWAY, 'goal_errors': {'': AWAY},
                   'status': {'reason contact': PUSHED, 'reason moves': 'the arm still moves'}}),
    'held by limits': (AMBER, ['away from its set-point', f'reason: {LIMITED}; remedy: move'],
                       2.0 * banner.HELD_AFTER,
                       {'level': WARN, 'text': LIMITED, 'error': AWAY,
                        'status': {'reason limits': f'{LIMITED}; remedy: move'}}),
    'held, another warning': (AMBER, [f'reason: {PUSHED}', 'late: 3 ms'], 2.0 * banner.HELD_AFTER,
                              {'level': WARN, 'text': 'late: 3 ms', 'error': AWAY,
                               'status': {'reason contact': PUSHED}}),
    'waits': (AMBER, ['held 94.9 mm', 'reason: the target waits for the arm'], 0.0,
              {'level': WARN, 'text': 'the target waits for the arm', 'error': AWAY,
               'goal_errors': {'': 3.0 * AWAY}, 'status': {'target': 'waits for the arm'}}),
    'no reason': (AMBER, ['reason: the controller reports none'], 2.0 * banner.HELD_AFTER,
                  {'level': OK, 'text': 'active', 'error': AWAY,
                   'external': np.array([0.0, 0.0, 0.0, 0.0, 0.0, -15.0])}),
    'late': (GREEN, ['at its goal: 0.3 mm'], 0.0,
             {'level': WARN, 'text': 'deadline: an update took 3 ms: report', 'error': NEAR,
              'goal_errors': {'': NEAR}}),
    'late, warns': (AMBER, ['at its goal', 'torque at its limit'], 0.0,
                    {'level': WARN, 'error': NEAR, 'goal_errors': {'': NEAR},
                     'text': 'torque at its limit; deadline: an update took 3 ms: report'}),
    'watchdog': (RED, ['overspeed: joint4: hold', 'press recover'], 0.0,
                 {'level': ERROR, 'text': 'overspeed: joint4: hold', 'error': NEAR}),
    'given up': (RED, ['inactive', GIVEN_UP, 'press recover'], 0.0,
                 {'lifecycle': 'inactive', 'level': ERROR, 'text': GIVEN_UP})}
SEEN = 'inactive', 'on goal', 'held away', 'given up'  # states that the browser shows


@pytest.mark.parametrize('state', STATES)
def test_banner_is_green_only_at_the_goal_and_says_what_keeps_the_arm_away(panda, state):
    color, texts, away, values = STATES[state]
    found, lines = condition(reading := reading_of(panda, **values), away)
    assert found == color
    shown = ' '.join((reading.lifecycle, *lines))
    assert [text for text in texts if text not in shown] == []
    assert 'deadline' not in shown


@pytest.mark.parametrize('state', STATES)
def test_button_that_the_banner_names_is_the_only_one_that_leads_on(panda, state):
    _, _, away, values = STATES[state]
    reading = reading_of(panda, home=np.zeros(7), offers=frozenset(
        {'joints', 'lifecycle', 'release', 'hold', 'free_drive'}), **values)
    page = Page('127.0.0.1', free_port(), Asked(), lambda uri: None)
    try:
        page.update(reading)
        panel = page._parts[0]
        enabled = {name for name in ('start', 'recover', 'stop', 'hold', 'home')
                   if not getattr(panel, f'_{name}').disabled}
    finally:
        page.close()
    shown = ' '.join(condition(reading, away).lines)
    assert enabled & {'start', 'recover'} == {
        name for name in ('start', 'recover') if f'press {name}' in shown}
    is_active = reading.lifecycle == 'active'
    assert ('stop' in enabled, 'hold' in enabled) == (is_active, is_active)
    assert ('home' in enabled) == (is_active and reading.control.level not in (ERROR, STALE))


@pytest.mark.parametrize('name', ('goal.translation.tolerance', 'goal.rotation.tolerance'))
def test_banner_is_not_green_at_the_tolerance_of_another_controller(panda, name):
    reading = reading_of(panda, **STATES['on goal'][3])
    assert condition(reading, 0.0).color == GREEN
    reading.parameters[name] = 1e-6
    assert condition(reading, 0.0).color != GREEN
    del reading.parameters[name]  # unknown
    assert condition(reading, 0.0).color != GREEN


def test_tip_is_away_only_if_its_set_point_has_come_to_the_goal(panda):
    def answer(**values):
        return is_away(reading_of(panda, **values))

    assert answer(error=AWAY)
    assert answer(error=AWAY, goal_errors={'': AWAY + NEAR})
    assert not answer(error=AWAY, goal_errors={'': 2.0 * AWAY})
    assert not answer(error=NEAR)
    assert not answer()


def test_label_of_the_messages_is_the_newest_one_in_one_line(panda):
    reading = reading_of(panda)
    assert headline(reading) == 'no messages'
    reading.control.status['watchdog deadline'] = '3'
    assert headline(reading) == 'watchdogs tripped: deadline 3'
    reading.words.extend([('warning', 'old', '12:00:01'), ('error', 'a\nb' * 50, '12:00:02')])
    assert headline(reading).startswith('12:00:02 error: a ba b')
    assert len(headline(reading)) <= 42
    assert 'old' in messages_html(reading)
    before = headline(reading)
    for _ in range(100):  # a busy machine
        reading.say('warning', f'{DEADLINE}: an update took 0.0036 s; this is only reported')
    assert headline(reading) == before


# in a browser


@pytest.fixture(scope='module')
def shown(panda):
    """Return a tab with the page, and a function that shows a reading on it."""
    page = Page('127.0.0.1', free_port(), Asked(), lambda uri: None)
    with chromium.browser() as tab:
        tab.open(f'http://127.0.0.1:{page.port}/', WIDTH, HEIGHT, SCALE)

        def show(reading, expression):
            deadline = time.monotonic() + chromium.PATIENCE
            while True:
                page.update(reading)
                if tab.value(expression):
                    return
                assert time.monotonic() < deadline, f'waited in vain for {expression}'
                time.sleep(0.2)

        yield tab, show
        assert tab.errors == []
    page.close()


BOX = """(() => { const one = %s; if (!one) return null; const b = one.getBoundingClientRect();
const top = document.elementFromPoint(b.x + b.width / 2, b.y + b.height / 2);
return [b.x, b.y, b.width, b.height, one === top || one.contains(top) || top.contains(one)] })()"""


def box(tab, element):
    """Return place and size of an element [px]; None if it is hidden, or not wholly in sight."""
    found = tab.value(BOX % element)
    if found is None:
        return None
    x, y, width, height, is_on_top = found
    is_inside = 0 <= x and x + width <= WIDTH and 0 <= y and y + height <= HEIGHT
    return (x, y, width, height) if is_inside and width and height and is_on_top else None


def named(kind, text):
    """Return an expression for the element of a kind with this text."""
    return (f'[...document.querySelectorAll({json.dumps(kind)})].find('
            f'one => one.textContent.trim() === {json.dumps(text)})')


def average_color(tab, x, y, width, height):
    """Return the average colour of a part of a screenshot (3,), 0 to 255."""
    from PIL import Image
    picture = Image.open(BytesIO(tab.picture())).convert('RGB')
    part = (SCALE * np.array([x, y, x + width, y + height])).round().tolist()
    return np.asarray(picture.crop(part)).reshape(-1, 3).mean(axis=0)


def rgb(color):
    return np.array([int(color[i:i + 2], 16) for i in (1, 3, 5)])


@needs_browser
@pytest.mark.parametrize('state', first_quick(SEEN, 2))
def test_browser_shows_the_state_and_the_controls_without_scrolling(shown, panda, state):
    tab, show = shown
    color, texts, _, values = STATES[state]
    reading = reading_of(
        panda, home=np.zeros(7), offers=frozenset({'joints', 'lifecycle', 'release'}), **values)
    reading.words.append(('error', 'jump of joint 3', '12:00:02'))
    element = 'document.querySelector("#osc-state")'
    wanted = 'rgb({}, {}, {})'.format(*rgb(color))
    show(reading, f'{element} && getComputedStyle({element}).backgroundColor === "{wanted}" && '
                  f'{element}.textContent.includes({json.dumps(texts[-1])})')
    x, y, width, height = box(tab, element)
    # the padding at the left of the text, in the screenshot
    assert average_color(tab, x + 4, y + 12, 6, height - 24) == pytest.approx(rgb(color), abs=3.0)
    stop = box(tab, named('button', 'stop'))
    assert stop[1] < y  # above the banner, whose height changes
    if values.get('lifecycle', 'active') == 'active':
        assert np.argmax(average_color(tab, stop[0] + 6, stop[1] + 6, 12, 12)) == 0  # red
    assert [text for text in ('start', 'recover', 'hold', 'stop', 'home') if not box(
        tab, named('button', text))] == []
    assert [text for text in ('ω position [rad/s]', 'speed of the set-point [m/s]', 'joint1')
            if not box(tab, named('label', text))] == []
    is_off = f"{named('button', 'recover')}.disabled"
    show(reading, is_off if values['level'] == OK else f'!{is_off}')


@needs_browser
def test_messages_are_one_line_that_opens_on_a_click(shown, panda):
    tab, show = shown
    reading = reading_of(panda, **STATES['on goal'][3])
    reading.words.extend([('warning', 'first', '12:00:01'), ('error', 'second', '12:00:02')])
    label = ('[...document.querySelectorAll("div")].find(one => one.querySelector(":scope > svg")'
             ' && one.textContent.trim() === "12:00:02 error: second")')
    show(reading, f'{label} !== undefined')
    old = '[...document.querySelectorAll("div")].filter(one => one.textContent.includes(' \
        '"first")).pop()'
    assert box(tab, label)[3] < 24.0  # one line
    assert not box(tab, old)
    tab.value(f'{label}.click()')
    deadline = time.monotonic() + chromium.PATIENCE
    while not box(tab, old):
        assert time.monotonic() < deadline, 'the messages do not open'
        time.sleep(0.05)
    reading.words.append(('error', 'third', '12:00:03'))
    label = label.replace('02 error: second', '03 error: third')
    show(reading, f'{label} !== undefined')
    assert box(tab, old)  # still open
    tab.value(f'{label}.click()')


@needs_browser
def test_each_plot_has_one_unit(shown, panda):
    tab, show = shown
    reading = reading_of(panda, terms={'bias': np.ones(7), 'tip': np.zeros(7)},
                         **STATES['on goal'][3])
    show(reading, 'document.querySelectorAll(".uplot").length === 4')
    text = tab.text()
    for title in ('position error of the tip [mm]', 'rotation error of the tip [°]',
                  'torques relative to their limits [%]', 'terms of one torque [N m]'):
        assert title in text
    shown_lines = tab.value('[...document.querySelectorAll(".uplot")].map(one => '
                            'one.querySelectorAll(".u-series .u-label").length)')
    assert shown_lines[:2] == [0, 0]  # no legend beside the title of a single line


@needs_browser
def test_obstacle_is_at_its_place_and_red_while_it_holds_the_arm_off(shown, panda):
    tab, show = shown
    place = np.array([0.3, 0.5, 0.5])  # before the arm
    reading = reading_of(panda, pose=np.eye(4), offers=frozenset({'obstacles'}), obstacles={
        'ball/0': Obstacle.at('sphere', 0.1, place)}, **STATES['on goal'][3])
    status = reading.control.status
    status.update({'nearest pair': 'panda_hand ball/0', 'nearest distance [mm]': '23.4'})

    def wait_for_color(is_wanted):
        deadline = time.monotonic() + chromium.PATIENCE
        while not is_wanted(*average_color(tab, x - 10, y - 10, 20, 20)):
            assert time.monotonic() < deadline, average_color(tab, x - 10, y - 10, 20, 20)
            show(reading, 'true')

    distance = 'document.body.innerText.includes("nearest pair panda_hand – ball/0: 23.4 mm")'
    show(reading, f"{distance} && !{named('button', 'add obstacle')}.disabled")
    x, y = pixel(tab, place)
    wait_for_color(lambda r, g, b: r + 30.0 < g and r + 30.0 < b)
    status['held off by'] = 'panda_hand ball/0'
    wait_for_color(lambda r, g, b: r > g + 30.0 and r > b + 30.0)
    reading.obstacles = {}
    wait_for_color(lambda r, g, b: abs(r - g) < 30.0 and abs(r - b) < 30.0)
