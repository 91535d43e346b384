# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Shared parts of all commands: parser, progress bar, colours, results as JSON."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
import json
import math
import os
from pathlib import Path
import re
import sys
from tempfile import TemporaryFile
from time import perf_counter
from typing import Any, NoReturn, TextIO

from osc_ros.errors import InputError, ModelError, OscError, similar
from osc_ros.interrupts import end_quietly
from osc_ros.model.files import file_text, ROBOTS, shipped_urdf

STDOUT = Path('-')  # value of `--json` without a file
ROS_ARGUMENTS = '--ros-args'
COLORS = {'good': '32', 'bad': '31', 'warn': '33', 'strong': '1'}
BAR, LINE = 16, 78  # lengths of a bar and of its line [characters]
ON_TERMINAL, IN_FILE = 0.1, 5.0  # shortest time between two lines on a terminal, in a file [s]


class Parser(argparse.ArgumentParser):
    """A command-line parser whose help keeps its line breaks, so that it can show examples."""

    # for an unknown option, the error (exit status 2) names the most similar option

    def __init__(self, **options: Any) -> None:
        super().__init__(**{'formatter_class': argparse.RawDescriptionHelpFormatter, **options})

    def error(self, message: str) -> NoReturn:
        """Print a message to standard error, and exit with status 2."""
        kind, _, rest = message.partition('unrecognized arguments: ')
        if not kind and rest:
            names = (word.partition('=')[0] for word in rest.split() if word.startswith('-'))
            near = [similar(name, self._option_string_actions, 1) for name in names]
            if found := [one[0] for one in near if one]:
                message += f" (did you mean {', '.join(found)}?)"
        super().error(message)


def add_robot(parser: argparse.ArgumentParser) -> None:
    """Add --robot, --urdf, --base and --tip; see `with_robot` and `robot_text`."""
    robot = parser.add_mutually_exclusive_group()
    robot.add_argument('--robot', metavar='NAME', help='a robot of this package: '
                       + ', '.join(sorted(path.stem for path in ROBOTS.glob('*.urdf'))))
    robot.add_argument('--urdf', metavar='FILE', type=Path, help='a URDF, with xacro expanded')
    parser.add_argument('--base', help='link that is fixed to the ground (the root)')
    parser.add_argument('--tip', help='link that is controlled (end of the longest chain)')


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add --config, a file of parameters of the nodes."""
    parser.add_argument('--config', type=Path, help='YAML file of parameters that override those '
                        'of the robot; osc_simulator: the simulated arm')


def with_robot(parser: argparse.ArgumentParser, arguments: list[str] | None
               ) -> argparse.Namespace:
    """Return the options of a parser with `add_robot`; end with status 2 if none names a robot."""
    options = parser.parse_args(arguments)  # before the check: it names an unknown option
    if options.robot is None and options.urdf is None:
        parser.error('give --robot or --urdf')
    return options


def robot_text(options: argparse.Namespace) -> str:
    """Return the URDF text that --robot or --urdf names; the error has a similar name."""
    if options.robot:
        return shipped_urdf(options.robot).read_text(encoding='utf-8')
    path = options.urdf.expanduser()
    try:
        return file_text(path, 'a URDF')
    except ModelError as error:
        near = similar(str(path), map(str, path.parent.glob('*.urdf')), 1)
        raise InputError(str(error) + (f"; did you mean '{near[0]}'?" if near else '')) from None


def node_parser(prog: str, **options: Any) -> Parser:
    """Return the parser of a node; its help explains the arguments of ROS."""
    parser = Parser(prog=prog, **options)
    parser.add_argument(ROS_ARGUMENTS, nargs=argparse.REMAINDER, default=[], metavar='…',
                        help='arguments of ROS: --params-file FILE, -p NAME:=VALUE, -r FROM:=TO')
    return parser


def parsed_node(parser: Parser, arguments: list[str] | None
                ) -> tuple[argparse.Namespace, list[str]]:
    """Return the options of a node, and the arguments of ROS; `parser` is from `node_parser`."""
    # `arguments` is by default the command line
    given = sys.argv[1:] if arguments is None else list(arguments)
    cut = given.index(ROS_ARGUMENTS) if ROS_ARGUMENTS in given else len(given)
    return parser.parse_args(given[:cut]), given[cut:]


def run_command(name: str, options: argparse.Namespace,
                run: Callable[[argparse.Namespace], int],
                statuses: Mapping[type[OscError], int] | None = None) -> NoReturn:
    """Run a command, which compiles only the kernels that it uses, and exit."""
    # `name` is for messages of errors; `options` have `json`, see `add_json`; `run` returns the
    # exit status; `statuses` has the exit status of classes of errors: 2 for all other OscErrors.
    from osc_ros.compile.compiled import on_demand  # the import of Numba would delay `--help`
    end_quietly()
    try:
        with on_demand(), stdout_for_json(options.json):
            sys.exit(run(options))
    except OscError as error:
        sys.stdout.flush()
        print(f'{name}: {error}', file=sys.stderr)
        sys.exit(next((status for kind, status in (statuses or {}).items()
                       if isinstance(error, kind)), 2))


def ros_name(text: str) -> str:
    """Check and return the name of a node or topic (`type` of an argument)."""
    if not re.fullmatch(r'/?[A-Za-z_]\w*(/[A-Za-z_]\w*)*', text, re.ASCII):
        raise argparse.ArgumentTypeError(
            f"'{text}': must be letters, digits and _, with / between parts, as left/camera")
    return text


def require_place(path: Path) -> None:
    """Raise InputError if the folder of a path does not exist or is not writable."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise InputError(f"'{path}': folder '{folder}' does not exist: give a name in a "
                         'folder that exists')
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise InputError(f"'{path}': writing there is not permitted")


def output_file(text: str) -> Path:
    """Check and return the path of an output file (`type` of an argument)."""
    path = output_folder(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"'{path}' is a folder: give the name of a file")
    return path


def output_folder(text: str) -> Path:
    """Check and return the path of an output folder (`type` of an argument)."""
    path = Path(text)
    try:
        require_place(path)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return path


def make_folder(folder: Path) -> None:
    """Create the folder of the results if necessary; raise InputError if it is not writable."""
    try:
        folder.mkdir(exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(f'the results cannot be written: {error}') from None


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option `--json [FILE]`; without FILE its value is STDOUT."""
    parser.add_argument('--json', type=output_file, nargs='?', const=STDOUT, metavar='FILE',
                        help='also write the figures to this file; without FILE print only them, '
                        'and all else to standard error')


@contextmanager
def stdout_for_json(file: Path | None) -> Iterator[None]:
    """If `file` is STDOUT, redirect prints within this context to standard error."""
    if file == STDOUT:
        with redirect_stdout(sys.stderr):
            yield
    else:
        yield


def json_values(values: Any) -> Any:
    """Return values, nested or of NumPy, for JSON; numbers that are not finite become None."""
    if isinstance(values, dict):
        return {key: json_values(one) for key, one in values.items()}
    if hasattr(values, 'tolist'):
        values = values.tolist()
    if isinstance(values, (list, tuple)):
        return [json_values(one) for one in values]
    return None if isinstance(values, float) and not math.isfinite(values) else values


def write_json(file: Path, figures: object) -> None:
    """Write results to a file, or to standard output if `file` is STDOUT."""
    text = json.dumps(figures, indent=2) + '\n'
    if file == STDOUT and sys.__stdout__ is not None:
        sys.__stdout__.write(text)
        sys.__stdout__.flush()
    else:
        file.write_text(text, encoding='utf-8')


def is_agreed(question: str) -> bool:
    """Ask a question on the terminal; return whether the answer is yes."""
    with suppress(EOFError):
        return input(f'{question} [y/N] ').strip().lower() in ('y', 'yes')
    return False


def colored_text(text: str, color: str, stream: TextIO | None = None) -> str:
    """Return a text in one of COLORS; unchanged if `stream` is no terminal, or with NO_COLOR."""
    if not (stream or sys.stdout).isatty() or os.environ.get('NO_COLOR'):
        return text
    return f'\033[{COLORS[color]}m{text}\033[0m'


def bar(share: float) -> str:
    """Return a text bar for a share from 0 to 1."""
    full = round(BAR * min(1.0, max(0.0, share)))
    return f"[{'#' * full}{'.' * (BAR - full)}]"


class ProgressBar:
    """Progress of long work: a bar on a terminal, a line each IN_FILE seconds in a file."""

    # `what` describes the work in a few words; the default stream is standard error

    def __init__(self, what: str, stream: TextIO | None = None) -> None:
        self._what, self._stream = what, stream or sys.stderr
        self._on_terminal, self._shown = self._stream.isatty(), perf_counter()
        if not self._on_terminal:
            self._shown -= IN_FILE

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._on_terminal:
            self._write(f'\r{"":{LINE}}\r')

    def show(self, share: float, text: str = '') -> None:
        """Show the completed share, clipped to 0 … 1 because a motion may begin late."""
        share, now = min(max(share, 0.0), 1.0), perf_counter()
        if now - self._shown < (ON_TERMINAL if self._on_terminal else IN_FILE):
            return
        self._shown = now
        if self._on_terminal:
            self._write(f'\r{f"{bar(share)} {self._what} {text}"[:LINE]:{LINE}}')
        else:
            self._write(f'{self._what}: {100.0 * share:.0f} % {text}'.rstrip() + '\n')

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
