"""States as compact records, and the padded batch of them that every network reads: as arrays, or as tensors.

Imports torch only where tensors are asked for: agents act without it.

A record keeps only what differs between states: the objects of the scene (everything but the available blocks, whose places
never change) and which of the seven slots are still available. Actions are four integers (sender, receiver, offset, sticky).
Sender and receiver count nodes: 0 to 6 are the slots, 7 + r is the r-th object of the scene in order of its row. `offset`
is the flat index of the parts of an action after the edge. For absolute actions the sender is the slot, the receiver 0 and
the offset the cell of the grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trilith.world.actions import Discrete
from trilith.world.actions import reference_rows as reference_rows
from trilith.world.observations.image import glue_points
from trilith.world.observations.raster import windows
from trilith.world.scene import INVALID_EDGE, SLOT_WIDTHS, SLOTS, Bools, Ints, Placement, Role, Scene
from trilith.world.tasks import Level, Task

if TYPE_CHECKING:
    import torch
    from torch import Tensor

KIND_WIDTHS = tuple(sorted(set(SLOT_WIDTHS)))
KINDS = len(KIND_WIDTHS)
"""Available blocks of one width are the same to a builder: there are three kinds."""
KIND_OF_SLOT = np.array([KIND_WIDTHS.index(width) for width in SLOT_WIDTHS])
"""(7,): the kind of each slot."""
SLOTS_OF_KIND = np.arange(KINDS)[:, None] == KIND_OF_SLOT
"""(3, 7): which slots hold blocks of each kind."""

Floats32 = NDArray[np.float32]
POINTS = 2
"""Glue points that pictures are stored with, for each object a scene can have: more than twice those of random builders."""

Records = NDArray[Any]
"""(B,): a structured array with one record a state, see `Layout.dtype`."""


@dataclass(frozen=True)
class SceneLayout:
    """How the states of one task are stored, for any space of actions."""

    rows: int
    """Objects that a scene can have at most, available blocks not counted."""
    points: int = field(default=0, kw_only=True)
    """Glue points that are kept of a scene, for pictures of it; the last are left out if it has more."""
    clock: bool = field(default=False, kw_only=True)
    """Whether it is kept how many steps are left."""

    @staticmethod
    def rows_of(task: Task, beyond: bool = True) -> int:
        """Room for every scene of a task's curriculum and, with `beyond`, of its generalisation levels too."""
        levels: list[Level] = [*task.levels, *(task.generalisation if beyond else ())]
        most = max(task.max_objects(level) for level in levels)
        return most - SLOTS if task.keeps_supply else most

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """One record."""
        return np.dtype(self._columns())

    def _columns(self) -> list[tuple[Any, ...]]:
        """Of a record. Bits of matrices are packed; velocities are all but zero, so half precision is plenty."""
        n = self.rows
        square = (n * n + 7) // 8
        columns: list[tuple[Any, ...]] = [
            ("count", "u1"),
            ("available", "u1"),
            ("pose", "f4", (n, 3)),
            ("size", "f4", (n, 2)),
            ("velocity", "f2", (n, 3)),
            ("role", "u1", (n,)),
            ("sticky", "?", (n,)),
            ("touch", "u1", (square,)),
            ("glue", "u1", (square,)),
        ]
        if self.points:
            columns += [("glued", "u1"), ("points", "f4", (self.points, 2))]
        if self.clock:
            columns += [("steps_left", "u1")]
        return columns

    def pack(self, scenes: Sequence[Scene]) -> Records:
        """(B,) records of scenes."""
        b, n = len(scenes), self.rows
        records = np.zeros(b, self.dtype)
        count, available, pose, size = records["count"], records["available"], records["pose"], records["size"]
        velocity, roles, sticky = records["velocity"], records["role"], records["sticky"]
        links = np.zeros((2, b, n, n), dtype=bool)
        for i, scene in enumerate(scenes):
            refs = reference_rows(scene)
            k = len(refs)
            count[i] = k
            available[i] = np.packbits(scene.role[:SLOTS] == Role.AVAILABLE)[0]
            pose[i, :k], size[i, :k], velocity[i, :k] = scene.pose[refs], scene.size[refs], scene.velocity[refs]
            roles[i, :k], sticky[i, :k] = scene.role[refs], scene.sticky[refs]
            if len(scene.contact):
                place = np.zeros(len(scene), dtype=np.int64)
                place[refs] = np.arange(k)
                for link, pairs in zip(links, (scene.contact, scene.glue), strict=True):
                    link[i, place[pairs[:, 0]], place[pairs[:, 1]]] = True
            if self.points and len(scene.glue):
                points = glue_points(scene)[: self.points]
                records["glued"][i], records["points"][i, : len(points)] = len(points), points
        for name, link in zip(("touch", "glue"), links, strict=True):
            records[name] = np.packbits((link | link.swapaxes(1, 2)).reshape(b, n * n), axis=1)
        return records

    def unpack(self, records: Records, mirror: Bools | None = None, device: str | torch.device = "cpu") -> Batch:
        """`arrays` as tensors on a device."""
        arrays = self.arrays(records, mirror)
        values = {each.name: getattr(arrays, each.name) for each in fields(arrays)}
        parts: dict[str, Any] = {name: None if value is None else _tensor(value) for name, value in values.items()}
        batch = Batch(**parts)
        return batch if str(device) == "cpu" else batch.to(device)

    def arrays(self, records: Records, mirror: Bools | None = None) -> Arrays:
        """The batch of records, padded to the largest scene among them; those of `mirror` (B,) with left and right swapped."""
        b, n = len(records), self.rows
        count = records["count"].astype(np.int64)
        r = int(count.max())
        pose, velocity = records["pose"][:, :r].astype(np.float32), records["velocity"][:, :r].astype(np.float32)
        points = records["points"][:, : int(records["glued"].max())].astype(np.float32) if self.points else None
        if mirror is not None:
            sign = np.where(mirror, np.float32(-1), np.float32(1))[:, None, None]
            pose[:, :, 0::2] *= sign  # x and angle
            velocity[:, :, 0::2] *= sign
            if points is not None:
                points[:, :, :1] *= sign

        def link(name: str) -> Floats32:
            bits = np.unpackbits(records[name], axis=1, count=n * n).reshape(b, n, n)[:, :r, :r]
            return bits.astype(np.float32)

        return Arrays(
            present=np.arange(r) < count[:, None],
            available=np.unpackbits(records["available"][:, None], axis=1, count=SLOTS).astype(bool),
            pose=pose,
            size=records["size"][:, :r].astype(np.float32),
            velocity=velocity,
            role=records["role"][:, :r].astype(np.int64),
            sticky=records["sticky"][:, :r].astype(np.float32),
            touch=link("touch"),
            glue=link("glue"),
            points=points,
            glued=None if points is None else records["glued"].astype(np.int64),
            steps_left=records["steps_left"].astype(np.int64) if self.clock else None,
        )


@dataclass(frozen=True)
class Layout(SceneLayout):
    """How the states of one task are stored for one space of discrete actions, and what these are."""

    codec: Discrete
    stores_legal: bool
    """Whether the mask of legal actions is part of a record."""

    @staticmethod
    def of(task: Task, codec: Discrete, stores_legal: bool, beyond: bool = True, pictures: bool = False, clock: bool = False) -> Layout:
        """The layout with room for every scene of a task's curriculum and, with `beyond`, of its generalisation levels too.

        With `pictures`, glue points are stored, without which a scene cannot be drawn; with a `clock`, how many steps are left.
        """
        rows = SceneLayout.rows_of(task, beyond)
        return Layout(rows, codec, stores_legal, points=POINTS * rows if pictures else 0, clock=clock)

    @cached_property
    def offsets(self) -> int:
        """Placements that an edge offers, sticky not counted; cells of the grid for absolute actions."""
        return prod(self.codec.tail)

    @cached_property
    def scenes(self) -> Layout:
        """The same without masks of legal actions: all that the value of a state depends on."""
        return replace(self, stores_legal=False)

    def _columns(self) -> list[tuple[Any, ...]]:
        legal = [("legal", "u1", ((KINDS * self.rows * self.offsets + 7) // 8,))] if self.stores_legal else []
        return [*super()._columns(), *legal]

    def pack(self, scenes: Sequence[Scene], legals: Sequence[Bools] | None = None, steps_left: Sequence[int] | None = None) -> Records:
        """(B,) records of scenes; `legals` are their masks from the codec, `steps_left` what their episodes have left, both needed if the
        layout stores them."""
        records = super().pack(scenes)
        if self.clock:
            assert steps_left is not None
            records["steps_left"] = np.minimum(steps_left, np.iinfo(np.uint8).max)
        if self.stores_legal:
            assert legals is not None
            mask = np.zeros((len(scenes), KINDS, self.rows, self.offsets), dtype=bool)
            for i, (scene, legal) in enumerate(zip(scenes, legals, strict=True)):
                refs = reference_rows(scene)
                free = legal[:, refs].reshape(SLOTS, len(refs), -1)
                for slot, kind in enumerate(KIND_OF_SLOT):
                    mask[i, kind, : len(refs)] |= free[slot]
            records["legal"] = np.packbits(mask.reshape(len(scenes), -1), axis=1)
        return records

    def arrays(self, records: Records, mirror: Bools | None = None) -> Arrays:
        arrays = super().arrays(records, mirror)
        if not self.stores_legal:
            return arrays
        bits = np.unpackbits(records["legal"], axis=1, count=KINDS * self.rows * self.offsets)
        legal = bits.reshape(len(records), KINDS, self.rows, self.offsets)[:, :, : arrays.present.shape[1]].astype(bool)
        if mirror is not None:
            legal[mirror] = legal[mirror][..., self._mirrored_offsets]
        return replace(arrays, legal=legal)

    @cached_property
    def _mirrored_offsets(self) -> Ints:
        """(offsets,): what each offset is in the mirrored scene."""
        tail = self.codec.tail
        actions = np.zeros((self.offsets, self.codec.length), dtype=np.int64)
        actions[:, -1 - len(tail) : -1] = np.indices(tail).reshape(len(tail), -1).T
        return np.ravel_multi_index(tuple(self.codec.mirror(actions)[:, -1 - len(tail) : -1].T), tail)

    def mirror_actions(self, actions: Ints, mirror: Bools) -> Ints:
        """Actions (B, 4) as they are in the mirrored states, for those of `mirror` (B,)."""
        swapped = actions.copy()
        swapped[:, 2] = np.where(mirror, self._mirrored_offsets[actions[:, 2]], actions[:, 2])
        return swapped

    def decode(self, scene: Scene, action: Sequence[int]) -> Placement:
        """The placement of an action (sender, receiver, offset, sticky)."""
        sender, receiver, offset, sticky = (int(part) for part in action)
        if self.codec.relative and (sender >= SLOTS or receiver < SLOTS):
            return INVALID_EDGE
        edge = (sender, int(reference_rows(scene)[receiver - SLOTS])) if self.codec.relative else (sender,)
        return self.codec.decode(scene, (*edge, *(int(part) for part in np.unravel_index(offset, self.codec.tail)), sticky))

    def encode(self, scene: Scene, placement: Placement) -> tuple[int, int, int, int]:
        """The action whose placement comes nearest to a given one, among those with its block: the inverse of `decode`."""
        tail = self.codec.tail
        action = self.codec.encode(scene, placement)
        receiver = SLOTS + int(reference_rows(scene).searchsorted(action[1])) if self.codec.relative else 0
        return action[0], receiver, int(np.ravel_multi_index(action[-1 - len(tail) : -1], tail)), action[-1]


@dataclass(frozen=True, eq=False)
class Arrays:
    """B scenes of up to R objects, available blocks aside. Padding is all zero and `present` is False there."""

    present: Bools
    """(B, R): where there is an object."""
    available: Bools
    """(B, 7): slots whose block can still be used."""
    pose: Floats32
    """(B, R, 3)"""
    size: Floats32
    """(B, R, 2)"""
    velocity: Floats32
    """(B, R, 3)"""
    role: Ints
    """(B, R)"""
    sticky: Floats32
    """(B, R), 0 or 1."""
    touch: Floats32
    """(B, R, R), 0 or 1: whether each two objects touch."""
    glue: Floats32
    """(B, R, R), 0 or 1: whether they are glued."""
    legal: Bools | None = None
    """(B, 3, R, offsets): placements of each kind of block that overlap nothing, if the layout stores them."""
    points: Floats32 | None = None
    """(B, P, 2): where in the world welds hold, if the layout stores them."""
    glued: Ints | None = None
    """(B,): how many of `points` there are in each scene."""
    steps_left: Ints | None = None
    """(B,): how many steps are left, if the layout stores it."""

    def __len__(self) -> int:
        return len(self.present)

    @cached_property
    def first(self) -> Ints:
        """(B + 1,): which row each scene begins at where all objects are rows one after another, and how many rows there are."""
        return np.concatenate([[0], np.cumsum(self.present.sum(axis=1))])

    @cached_property
    def first_pair(self) -> Ints:
        """(B + 1,): the same where all pairs of objects of a scene are."""
        return np.concatenate([[0], np.cumsum(np.diff(self.first) ** 2)])

    @cached_property
    def left(self) -> Floats32:
        """(B, 3): how many blocks of each kind are available."""
        return self.available.astype(np.float32) @ SLOTS_OF_KIND.T.astype(np.float32)


@dataclass(frozen=True, eq=False)
class Batch:
    """`Arrays` as tensors, on any device."""

    present: Tensor
    available: Tensor
    pose: Tensor
    size: Tensor
    velocity: Tensor
    role: Tensor
    sticky: Tensor
    touch: Tensor
    glue: Tensor
    legal: Tensor | None = None
    points: Tensor | None = None
    glued: Tensor | None = None
    steps_left: Tensor | None = None
    source: Batch | None = None
    """The same batch in main memory, of which it is a copy on a device; None: it is in main memory itself."""
    memo: dict[str, Any] = field(default_factory=dict)
    """What networks have computed from the batch alone, to be used again."""

    def __len__(self) -> int:
        return len(self.present)

    def __getitem__(self, which: slice) -> Batch:
        """Some of the scenes, with the padding they have here."""
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "memo"}
        parts: dict[str, Any] = {name: None if value is None else value[which] for name, value in values.items()}
        return Batch(**parts)

    def to(self, device: str | torch.device) -> Batch:
        """A copy on a device, whose `host` is this one."""
        values = {each.name: getattr(self.host, each.name) for each in fields(self) if each.name not in ("source", "memo")}
        parts: dict[str, Any] = {name: None if value is None else value.to(device) for name, value in values.items()}
        return Batch(**parts, source=self.host)

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return self.present.device

    @property
    def host(self) -> Batch:
        """The batch in main memory. What depends on how much there is of something (which rows, which edges) is computed from
        it, and the indices are sent: a device would have to be waited for to tell."""
        return self if self.source is None else self.source

    def send(self, tensor: Tensor) -> Tensor:
        """A tensor in main memory as one where the batch is."""
        return tensor if self.source is None else tensor.to(self.device)  # even `to` where it is already takes its time

    @cached_property
    def arrays(self) -> Arrays:
        """The batch in main memory as arrays, which share its memory."""
        values = {each.name: getattr(self.host, each.name) for each in fields(Arrays)}
        parts: dict[str, Any] = {name: None if value is None else value.numpy() for name, value in values.items()}
        return Arrays(**parts)

    @property
    def first(self) -> Ints:
        """(B + 1,): that of `arrays`, and so `first_pair`."""
        return self.arrays.first

    @property
    def first_pair(self) -> Ints:
        return self.arrays.first_pair

    @cached_property
    def start(self) -> Tensor:
        """(B,): `first` without its end, on the device."""
        return self.send(_tensor(self.first[:-1]))

    @cached_property
    def count(self) -> Tensor:
        """(B,): how many objects each scene has."""
        return self.send(_tensor(np.diff(self.first)))

    @cached_property
    def scene(self) -> Tensor:
        """(n,): the scene of each object, all objects one after another."""
        return self.send(_tensor(np.repeat(np.arange(len(self)), np.diff(self.first))))

    @cached_property
    def padded(self) -> tuple[Tensor, Tensor]:
        """(n,) and (p,): the place of each object in (B · R), and of each pair of objects of a scene in (B · R · R)."""
        present = self.host.present
        pairs = present[:, :, None] & present[:, None]
        objects, both = (self.send(each.flatten().nonzero()[:, 0]) for each in (present, pairs))
        return objects, both

    @cached_property
    def left(self) -> Tensor:
        """(B, 3): how many blocks of each kind are available."""
        return self.send(_tensor(self.arrays.left))


def _tensor(array: NDArray[Any]) -> Tensor:
    """The tensor that shares an array's memory."""
    import torch

    return torch.from_numpy(array)


def windows_of(arrays: Arrays, tight: bool = False) -> tuple[Ints, Ints, Floats32]:
    """What `raster.windows` shows of all objects of some scenes: of each the available blocks, then the others."""
    assert arrays.points is not None, "the layout stores no glue points"
    assert arrays.glued is not None
    objects = arrays.pose, arrays.size, arrays.role, arrays.sticky, arrays.points, arrays.glued
    return windows(arrays.available, arrays.present.sum(axis=1), *objects, tight)
