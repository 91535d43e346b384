# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Reads a URDF for MuJoCo, independently of osc_ros.model: the plant is the test reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
import math
from pathlib import Path
import re
from xml.etree import ElementTree

import mujoco
import numpy as np
from numpy.typing import ArrayLike

from osc_ros.errors import InputError, ModelError, similar
from osc_ros.model.assembly import TRIANGLE_TOLERANCE
from osc_ros.model.joint_types import JOINT_TYPES, OF_ONE_FREEDOM
from osc_ros.model.origin import replace_quaternions
from osc_ros.sim.mjcf.meshes import add_meshes

FLOOR = 0  # index of the floor among the geoms of a scene
PLAY = 1e-6  # of a joint whose limits are equal [rad, m]
LEAST_MASS, LEAST_INERTIA = 1e-9, 1e-12  # for a massless moving body [kg], [kg m²]
GREY, PALE, WHITE = (0.6, 0.62, 0.65), (0.9, 0.91, 0.92), (1.0, 1.0, 1.0)


class Urdf:
    """Links, joints and visuals of one arm; raises ModelError if the URDF cannot be used."""

    def __init__(self, text: str) -> None:
        try:
            root = ElementTree.fromstring(text)
        except ElementTree.ParseError as error:
            raise ModelError(f'the URDF is not XML: {error}') from error
        replace_quaternions(root)
        for inertia in root.iterfind('link/inertial/inertia'):
            for product in ('ixy', 'ixz', 'iyz'):
                inertia.set(product, inertia.get(product, '0'))
        self.links, self._joints = (_by_name(root.findall(tag)) for tag in ('link', 'joint'))
        self._joint_of = {self._end(name, 'child'): name for name in self._joints}
        roots = sorted(self.links.keys() - self._joint_of.keys())
        if len(roots) != 1:
            raise ModelError(f'the URDF has {len(roots)} root links {roots}; must be one')
        self._colours = root.findall('material')
        self.substitutes: dict[str, None] = {}  # sentences on what differs from the description

    def number(self, joint: str, tag: str, attribute: str, absent: float = 0.0) -> float:
        """Return an attribute of a child element of the joint; `absent` if it is missing."""
        element = self._joints[joint].find(tag)
        text = None if element is None else element.get(attribute)
        try:
            return absent if text is None else float(text)
        except ValueError:
            raise ModelError(f"joint '{joint}': {tag} {attribute} is '{text}'; "
                             'must be a number') from None

    def span(self, joint: str) -> tuple[float, float]:
        """Return lower and upper position; infinite without <limit> and for continuous joints."""
        lower, upper = (self.number(joint, 'limit', end) for end in ('lower', 'upper'))
        limit = self._joints[joint].find('limit')
        if (not JOINT_TYPES[self._kind(joint)].has_range or limit is None
                or not {'lower', 'upper'} & {*limit.attrib}):
            return -math.inf, math.inf
        if lower == upper and math.isfinite(lower):
            self.substitutes[f"joint '{joint}': a range of {2 * PLAY:g} about {lower:g}, where "
                             'its limits are equal'] = None
            return lower - PLAY, upper + PLAY
        if not -math.inf < lower < upper < math.inf:
            raise ModelError(f"joint '{joint}': limits {lower} to {upper}; "
                             'must be lower < upper')
        return lower, upper

    def locks(self, moving: Sequence[str], locked: Mapping[str, float]) -> dict[str, float]:
        """Return the position of every joint that does not move."""
        for name in (*moving, *locked):
            require('joint', name, self._joints)
        if not moving or len({*moving, *locked}) < len(moving) + len(locked):
            raise InputError(f'joint_names {list(moving)}, locked {list(locked)}; '
                             'give at least one joint to move, each joint once')
        for name in moving:
            if self._kind(name) not in OF_ONE_FREEDOM:
                raise ModelError(f"joint '{name}' is {self._kind(name)} and cannot move; "
                                 f"must be one of {', '.join(OF_ONE_FREEDOM)}")
            if self._joints[name].find('mimic') is not None:
                raise ModelError(f"joint '{name}' mimics another and cannot move by itself")
        return {name: self._lock(name, locked, moving)
                for name in self._joints if name not in moving}

    def _lock(self, name: str, locked: Mapping[str, float], barred: Sequence[str]) -> float:
        mimic = self._joints[name].find('mimic')
        if name in locked or mimic is None:
            value = float(locked.get(name, 0.0))
        else:
            source = mimic.get('joint', '')
            if source not in self._joints or source == name:
                raise ModelError(f"joint '{name}' mimics '{source}', which is not another joint")
            followed = 0.0
            if source in barred:
                self.substitutes[f"joint '{name}': locked, where it mimics '{source}', which "
                                 'moves'] = None
            else:
                followed = self._lock(source, locked, (*barred, name))
            value = (self.number(name, 'mimic', 'multiplier', 1.0) * followed
                     + self.number(name, 'mimic', 'offset'))
        if not math.isfinite(value) or value != 0.0 and self._kind(name) not in OF_ONE_FREEDOM:
            raise InputError(f"joint '{name}' ({self._kind(name)}) is locked at {value}; "
                             f"must be finite, and 0 unless {', '.join(OF_ONE_FREEDOM)}")
        return value

    def spec(self, locks: Mapping[str, float], looks: bool = False) -> mujoco.MjSpec:
        """Return an editable MuJoCo model: a body for every link, and the joints that move."""
        # With `looks`, the model has the visual shapes of the links.
        elements = [*self.links.values(), *self._joints.values()]
        # links fixed to the ground need no inertia; in many URDFs it is wrong
        kept = {'link': ['inertial'], 'ground': [], 'joint': ['origin', 'parent', 'child', 'axis']}
        if looks:
            elements += self._colours
            kept['link'] += ['visual']
            kept['ground'] += ['visual']
            kept['material'] = ['color']
        # fusestatic would merge links; the next two options would change inertias
        text = ('<robot name="plant"><mujoco><compiler fusestatic="false" balanceinertia="false" '
                'inertiafromgeom="false" discardvisual="false"/></mujoco>')
        for element in elements:
            copy = ElementTree.Element(element.tag, element.attrib)
            wanted = kept[element.tag]
            if element.tag == 'link' and not self._moves(element.get('name', ''), locks):
                wanted = kept['ground']
            copy.extend(part for part in element if part.tag in wanted
                        and part.find('geometry/mesh') is None)
            text += '\n' + ElementTree.tostring(copy, encoding='unicode').replace('\n', ' ')
        try:
            spec = mujoco.MjSpec.from_string(text + '</robot>')
        except ValueError as error:
            raise self._refusal(error) from error
        self.substitutes.update(dict.fromkeys(_give_mass(spec)))
        for name, value in locks.items():
            body = spec.body(self._end(name, 'child'))
            for joint in list(body.joints):
                if value:
                    _displace(body, joint, value)
                spec.delete(joint)
        return spec

    def scene(self, locks: Mapping[str, float], gravity: ArrayLike, folder: Path | None = None,
              more: Callable[[mujoco.MjSpec], object] | None = None) -> mujoco.MjModel:
        """Return a model for drawing only: the arm's visual shapes, a floor and light."""
        # The root is rotated so that gravity, given in its frame, points down. Meshes are drawn if
        # their files are found from the folder of the URDF and MuJoCo can read all of them;
        # without any shapes, rods are drawn between the joints. `more` can add shapes to the
        # specification.
        spec = self.spec(locks, looks=True)
        if folder is not None:
            with suppress(ValueError):  # unreadable: continue without meshes
                with_meshes = self.spec(locks, looks=True)
                add_meshes(with_meshes, self.links, self._colours, folder)
                with_meshes.compile()
                spec = with_meshes
        for link in self.links:
            for i, shape in enumerate(spec.body(link).geoms):
                shape.name = f'{link} visual {i}'
        if not spec.geoms:
            reach = sum(float(np.linalg.norm(body.pos)) for body in spec.bodies)
            for body in spec.bodies:
                if np.any(body.pos):
                    body.parent.add_geom(type=mujoco.mjtGeom.mjGEOM_CAPSULE, rgba=(*GREY, 1.0),
                                         fromto=[0.0, 0.0, 0.0, *body.pos],
                                         size=[0.03 * reach, 0.0, 0.0])
        if more is not None:
            more(spec)
        upright = np.empty(4)
        mujoco.mju_quatZ2Vec(upright, -np.asarray(gravity, dtype=np.float64))
        mujoco.mju_negQuat(upright, upright)
        spec.worldbody.first_body().quat = upright
        spec.add_texture(name='sky', type=mujoco.mjtTexture.mjTEXTURE_SKYBOX, width=64, height=384,
                         builtin=mujoco.mjtBuiltin.mjBUILTIN_FLAT, rgb1=WHITE)
        spec.add_texture(name='floor', type=mujoco.mjtTexture.mjTEXTURE_2D, width=256, height=256,
                         builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER, rgb1=PALE, rgb2=WHITE)
        floor = spec.add_material(name='floor', texrepeat=[4.0, 4.0], texuniform=True)
        floor.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = 'floor'
        # Not at the origin: MuJoCo would make that pose constant, but it is set later.
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0.0, 0.0, 1.0],
                                pos=[0.0, 0.0, -1.0], material='floor')
        spec.worldbody.add_light(type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL, castshadow=True,
                                 pos=[0.3, -1.0, 3.0], dir=[-0.3, 1.0, -3.0],
                                 diffuse=[0.5] * 3, specular=[0.1] * 3)
        spec.visual.headlight.ambient, spec.visual.headlight.diffuse = [0.4] * 3, [0.3] * 3
        spec.visual.headlight.specular = [0.1] * 3
        spec.visual.map.shadowclip = 2.0
        spec.visual.rgba.haze = (*WHITE, 1.0)
        spec.visual.map.haze = 0.6
        return self.compiled_model(spec)

    def _moves(self, link: str, locks: Mapping[str, float]) -> bool:
        for _ in self._joints:  # bounded by the number of joints, because a cycle would not end
            joint = self._joint_of.get(link)
            if joint is None:
                return False
            if joint not in locks:
                return True
            link = self._end(joint, 'parent')
        return True

    def compiled_model(self, spec: mujoco.MjSpec) -> mujoco.MjModel:
        """Return the compiled MuJoCo model; raise ModelError if MuJoCo refuses the URDF."""
        try:
            return spec.compile()
        except ValueError as error:
            raise self._refusal(error) from error

    def _refusal(self, error: ValueError) -> ModelError:
        """Return MuJoCo's message, with the name of the joint or link instead of a line number."""
        message = ' '.join(str(error).split())
        named, line = re.search("name '(.*?)'", message), re.search(r'line (\d+)', message)
        kind, name = 'link', named.group(1) if named else ''
        if line:  # line 1 has the compiler's settings, then `spec` writes one element per line
            element = [*self.links.values(), *self._joints.values(),
                       *self._colours][int(line.group(1)) - 2]
            kind, name = element.tag, element.get('name', '')
        joint = self._joint_of.get(name, name)
        where = f"joint '{joint}'" if joint in self._joints else f"{kind} '{name}'"
        return ModelError(f'{where}: MuJoCo refuses the URDF here: {message}')

    def _kind(self, joint: str) -> str:
        return self._joints[joint].get('type', '')

    def _end(self, joint: str, which: str) -> str:
        element = self._joints[joint].find(which)
        if element is None or not element.get('link'):
            raise ModelError(f"joint '{joint}' has no {which} link")
        return element.get('link', '')


def _displace(body: mujoco.MjsBody, joint: mujoco.MjsJoint, value: float) -> None:
    """Move the body's frame, in its parent, to the pose for this joint position."""
    axis = np.array(joint.axis)
    mujoco.mju_normalize3(axis)
    change, frame = np.empty(3), np.array(body.quat)
    if joint.type == mujoco.mjtJoint.mjJNT_SLIDE:
        mujoco.mju_rotVecQuat(change, value * axis, frame)
        body.pos = body.pos + change
    else:
        turn = np.empty(4)
        mujoco.mju_axisAngle2Quat(turn, axis, value)
        mujoco.mju_mulQuat(frame, frame.copy(), turn)
        body.quat = frame


def _by_name(elements: list[ElementTree.Element]) -> dict[str, ElementTree.Element]:
    named: dict[str, ElementTree.Element] = {}
    for element in elements:
        name = element.get('name', '')
        if not name or name in named:
            raise ModelError(f"{element.tag} name '{name}' is empty or repeated")
        named[name] = element
    return named


def require(kind: str, name: str, names: Iterable[str]) -> None:
    """Raise InputError if the name is not among the names."""
    if name not in names:
        near = similar(name, names := list(names)) or names
        raise InputError(f"unknown {kind} '{name}'; give one of {', '.join(near)}")


def _give_mass(spec: mujoco.MjSpec) -> Iterator[str]:
    """Give links the nearest mass and inertia that MuJoCo accepts; yield texts for the user."""
    # Massless links between two joints and links without rotational inertia get tiny values. A
    # principal moment above the sum of the others is lowered to it.
    for body in spec.bodies:
        I = body.fullinertia
        if np.isfinite(I).all() and I.any():
            moments, axes = np.linalg.eigh(
                [[I[0], I[3], I[4]], [I[3], I[1], I[5]], [I[4], I[5], I[2]]])
            if moments[0] < 0.0 or moments[2] >= moments[0] + moments[1]:
                given = moments.copy()
                moments = np.maximum(moments, LEAST_INERTIA)
                moments[2] = min(moments[2], (1.0 - 1e-9) * (moments[0] + moments[1]))
                new = axes @ np.diag(moments) @ axes.T
                body.fullinertia = [*np.diag(new), new[0, 1], new[0, 2], new[1, 2]]
                if given[2] - moments[2] > TRIANGLE_TOLERANCE * given[2]:
                    yield (f"link '{body.name}': a principal moment of {moments[2]:.3g} kg m² in "
                           f'place of {given[2]:.3g}, which is above the sum of the others')
        between = body.joints and _moves_a_link(body)
        if between and body.mass == 0.0 and not body.explicitinertial:
            give_least(body)
        elif body.joints and body.mass == 0.0 and np.nan_to_num(body.fullinertia).any():
            body.mass = LEAST_MASS
        elif body.joints and body.mass > 0.0 and not np.nan_to_num(body.fullinertia).any():
            body.fullinertia = [LEAST_INERTIA] * 3 + [0.0] * 3
            yield f"link '{body.name}': {LEAST_INERTIA:g} kg m² in place of no rotational inertia"


def give_least(body: mujoco.MjsBody) -> None:
    """Give a body the least mass and inertia."""
    body.mass, body.inertia, body.explicitinertial = LEAST_MASS, [LEAST_INERTIA] * 3, True


def _moves_a_link(body: mujoco.MjsBody) -> bool:
    """Whether the body or links fixed to it carry a joint."""
    return any(child.joints or _moves_a_link(child) for child in body.bodies)
