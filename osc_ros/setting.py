# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Settings: default, unit, bounds and text of a value stand once, at the field of its dataclass.

From there come the check of the field (`Group`), the parameters of nodes (`parameters`), their
values (`made`), and the slots of a record that have the name of a field (`put`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, Field, field, fields, MISSING, replace
from functools import cache
import inspect
from itertools import chain
import math
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from osc_ros.errors import InputError

# Type of a field that accepts numbers and sequences, which `Group` converts to an array.
Numbers: TypeAlias = 'NDArray[np.float64] | Any'
T = TypeVar('T', bound='Group')


@dataclass(frozen=True)
class Setting:
    """
    A value that a user chooses: a field of settings, a parameter of a node or of a kind of arm.

    Attributes
    ----------
    name : str
        Name of the parameter; of a kind of arm, the parameter of the node is `hardware.NAME`.
    default : bool, int, float, str, or a tuple of float or str
        Default value; its type is the type of the parameter.
    description : str
        Description of the parameter, with its unit.
    lower, upper : float
        Bounds of a number, or of every number of an array.
    size : int, optional
        Length of an array; None for any.
    choices : tuple of str
        Accepted texts; empty: any.
    of : type
        Type of the entries of an array, float or str.
    fixed : bool
        True if the value cannot change after the start of the node, because the names of files,
        programs and machines must not be set over the network.
    live : bool
        True if it can be set while the node is configured.
    when : str
        When a user changes it; empty for an advanced parameter, whose default suits most arms.
    infinite : bool
        Whether a field, other than its parameter, has no upper bound; infinite means no limit.

    """

    name: str
    default: Any
    description: str
    lower: float = -math.inf
    upper: float = math.inf
    size: int | None = None
    choices: tuple[str, ...] = ()
    of: type = float
    fixed: bool = False
    live: bool = False
    when: str = ''
    infinite: bool = False

    @property
    def kind(self) -> type:
        """Type of the value, or of every entry of an array."""
        return self.of if isinstance(self.default, tuple) else type(self.default)

    @property
    def unit(self) -> str:
        """Unit in the description; empty if there is none."""
        return _unit(self.description)

    @property
    def accepted(self) -> str:
        """Description of the accepted values."""
        kind = self.kind
        accepted = {bool: 'true or false', int: 'an integer', float: 'a number',
                    str: f"one of {', '.join(self.choices)}" if self.choices else 'a text'}[kind]
        if kind in (int, float):
            if self.lower > -math.inf:
                accepted += f', at least {self.lower:g}'
            if self.upper < math.inf:
                accepted += f', at most {self.upper:g}'
        if isinstance(self.default, tuple):
            many = 'any number' if self.size is None else self.size
            accepted = f'an array of {many}, each {accepted}'
        return accepted

    def checked_value(self, value: Any) -> Any:
        """Return the value in the type of the default."""
        # InputError, which names the parameter, its value, and the accepted values
        value = self.parsed(value)
        if isinstance(self.default, tuple):
            if isinstance(value, str):  # a str is iterable, but no array
                raise self._refusal(value)
            try:
                values = tuple(self._scalar(x, self.of) for x in value)
            except TypeError:
                raise self._refusal(value) from None
            if self.size is not None and len(values) != self.size and (values or self.default):
                raise self._refusal(value)
            return values
        return self._scalar(value, type(self.default))

    def parsed(self, value: Any) -> Any:
        """Convert texts to numbers where numbers are accepted, and False to an accepted 'off'."""
        # `ros2 param load` and `ros2 param set` read values as YAML, in which inf, 1e-06 and lists
        # such as [inf, 0.5] are texts, and off is False. Any other value is returned unchanged.
        if value is False and 'off' in self.choices:
            return 'off'
        if self.kind is not float:
            return value
        try:
            if not isinstance(self.default, tuple):
                return _number(value) if isinstance(value, str) else value
            is_list = isinstance(value, str) and value.startswith('[')
            texts = value[1:-1].split(',') if is_list else value
            if isinstance(texts, list) and any(isinstance(text, str) for text in texts):
                return [_number(text) for text in texts]
        except ValueError:
            pass
        return value

    def _scalar(self, value: Any, kind: type) -> Any:
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise self._refusal(value)
        if self.choices and value not in self.choices:
            raise self._refusal(value)
        if isinstance(value, (int, float)) and not self.lower <= value <= self.upper:
            raise self._refusal(value)
        return value

    def _refusal(self, value: Any) -> InputError:
        return self.refusal(f"parameter '{self.name}' is", value)

    def refusal(self, what: str, value: Any) -> InputError:
        """Return the error that `what`, such as a name, has a value that is not accepted."""
        value = value.tolist() if hasattr(value, 'tolist') else value
        return InputError(f'{what} {value!r}: must be {self.accepted}'
                          + (f' [{self.unit}]' if self.unit else ''))

    def field_value(self, value: Any) -> Any:
        """Return the value of a field: a float, an array (k,), a text or texts; or InputError."""
        is_many = isinstance(self.default, tuple)
        if self.kind is str:
            texts = tuple(value) if is_many and not isinstance(value, str) else (value,)
            if len(texts) != (self.size or len(texts)) or not all(
                    isinstance(one, str) and one in (self.choices or texts) for one in texts):
                raise self.refusal(self.name, value)
            return texts if is_many else value
        try:
            found = np.array(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise self.refusal(self.name, value) from None
        if is_many and self.size is None and not found.ndim:
            found = found[None]
        shape = () if not is_many else (self.size or len(found),)
        if found.shape != shape:
            raise InputError(f'{self.name} has shape {found.shape}, must be {shape}'
                             + (', [angular; linear]' if self.size == 6 else ''))
        most = np.inf if self.infinite else self.upper
        if not ((self.lower <= found) & (found <= most) & (
                self.infinite | np.isfinite(found))).all():
            raise self.refusal(self.name, value)
        return found if is_many else float(found)


def _unit(description: str) -> str:
    return description.partition('[')[2].partition(']')[0]


def _number(text: Any) -> float:
    """Return the number in a text, in which infinity may be .inf as in YAML."""
    return float(text.replace('.inf', 'inf') if isinstance(text, str) else text)


def setting(default: Any = MISSING, text: str = '', *, translation: str = '', rotation: str = '',
            name: str | tuple[str, str] | None = None, of: type = float, size: int | None = None,
            **bounds: Any) -> Any:
    """Return a field of a `Group`; further arguments as in `Setting`."""
    # `default`: a tuple stands for an array; None or no default: a number for each joint. `text`:
    # what the field is, with its unit in brackets. A field with halves, for rotation and then for
    # translation, has a parameter for each; pairs of bounds are for translation, rotation.
    shown = () if default is None or default is MISSING else default
    if isinstance(shown, tuple) and shown:
        of, size = type(shown[0]), len(shown)
    of_halves = {key: value for key, value in bounds.items() if key != 'choices'
                 and isinstance(value, tuple)}
    if translation:
        units = dict.fromkeys(map(_unit, (rotation, translation)))
        text = (f"[{', '.join(units)}] " if all(units) else '') + (
            f'of rotation: {rotation}; of translation: {translation}')
    one = Setting('', shown, text, of=of, size=size, live=True, **{
        **bounds, **{key: max(value) for key, value in of_halves.items()}})
    halves: tuple[Setting, ...] = ()
    if translation:
        k = len(shown) // 2
        halves = tuple(replace(one, default=half if k > 1 else half[0], description=what,
                               size=k if k > 1 else None,
                               **{key: value[i] for key, value in of_halves.items()})
                       for i, (half, what) in enumerate((
                           (shown[k:], translation), (shown[:k], rotation))))
    # name: of the parameter (or two, of halves) behind the group's; None: the field's; '': none
    return field(default=default, metadata={'setting': one, 'halves': halves, 'name': name})


def _name(kind: Any, of: str) -> str:
    parts = parameters(kind).get(of, ())
    return parts[0].name if len(parts) == 1 else kind.prefix + of


@cache
def field_settings(kind: Any) -> dict[str, Setting]:
    """Return the settings of a group's fields; one with a single parameter has its name."""
    return {one.name: replace(one.metadata['setting'], name=_name(kind, one.name))
            for one in fields(kind) if 'setting' in one.metadata}


@cache
def parameters(kind: Any) -> dict[str, tuple[Setting, ...]]:
    """Return the parameters of each field: one; translation and rotation; or none."""
    found = {}
    for one in fields(kind):
        if 'setting' not in one.metadata or one.metadata['name'] == '':
            continue
        name, halves = one.metadata['name'] or one.name, one.metadata['halves']
        names = (name,) if not halves else name if isinstance(name, tuple) else (
            f'translation.{name}', f'rotation.{name}')
        found[one.name] = tuple(replace(part, name=kind.prefix + of) for part, of in zip(
            halves or (one.metadata['setting'],), names))
    return found


def given(kind: Any, values: Mapping[str, Any], joints: Sequence[str] = ()
          ) -> dict[str, Any]:
    """Values of the fields of a group whose parameters are given, and not empty arrays."""
    # With the names of the joints, InputError for an array of numbers for other joints.
    found = {}
    for name, parts in parameters(kind).items():
        of = [values[one.name] for one in reversed(parts) if one.name in values]
        if of and of != [()]:
            if joints and parts[0].default == () and len(of[0]) != len(joints):
                raise InputError(f"parameter '{parts[0].name}' has {len(of[0])} entries: give one "
                                 f"for each of {', '.join(joints)}, or none")
            found[name] = of[0] if len(of) == 1 else (
                tuple(chain(*of)) if isinstance(of[0], tuple) else tuple(of))
    return found


def made(kind: type[T], values: Mapping[str, Any], **further: Any) -> T:
    """Return a group of settings by the values of its parameters, and by `further` fields."""
    return kind(**{**given(kind, values), **further})


class Group:
    """
    Frozen dataclass with fields of `setting`, which it converts and checks.

    Its parameters have names that begin with `group`.

    """

    prefix: ClassVar[str] = ''

    def __init_subclass__(cls, group: str = '') -> None:
        cls.prefix = f'{group}.' if group else ''
        texts = [f"{name}\n    {one.metadata['setting'].description}"
                 for name, one in vars(cls).items()
                 if isinstance(one, Field) and 'setting' in one.metadata]
        cls.__doc__ = '\n'.join([inspect.cleandoc(cls.__doc__ or ''), '', 'Settings', '--------',
                                 *texts])

    def __post_init__(self) -> None:
        kind: Any = type(self)
        for name, one in field_settings(kind).items():
            value = getattr(self, name)
            if value is not None or one.default != ():
                object.__setattr__(self, name, one.field_value(value))

    def put(self, record: Any, begin: str = '') -> None:
        """Write the numbers to the slots of a record that are named as their fields."""
        kinds: tuple[Any, Any] = type(self), type(record)
        for name in _numbers_in(*kinds, begin):
            record.put(begin + name, getattr(self, name))


@cache
def _numbers_in(kind: Any, record: Any, begin: str) -> tuple[str, ...]:
    """Names of the fields of a class whose numbers have slots in a kind of record."""
    return tuple(name for name, one in field_settings(kind).items()
                 if one.kind is float and begin + name in record._table.slots)
