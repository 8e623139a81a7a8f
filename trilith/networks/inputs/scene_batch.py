"""States as compact records, and the padded batches that networks read. A batch has arrays, and tensors on request. Unpacking can mirror
scenes.

This module imports torch only when tensors are requested, because agents can act without torch.

A record keeps only the data that differs between states: the objects of the scene, and which of the seven slots are still available.
The available blocks themselves are not stored, because their positions never change.

An action has three forms, and `ReplaySchema` converts between them:
- the codec's action, which names objects by their rows in the scene. Environments and users see this form;
- the edge action, four integers (slot, object, offset, sticky). A replay stores this form. Slot and object are node numbers: 0 to 6 are the
  slots, 7 + r is the r-th object of the scene in row order. The offset combines the position indices of the codec's action into one flat
  index. Absolute actions have object 0, and the cell of the grid as offset;
- the index, one integer. Networks and search trees use this form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, wraps
from math import prod
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from trilith.utils.checks import require
from trilith.world.actions import Discrete, reference_rows
from trilith.world.observations.batch_images import windows
from trilith.world.observations.image import glue_points
from trilith.world.scene import INVALID_EDGE, SLOT_WIDTHS, SLOTS, Bools, Ints, Placement, Role, Scene
from trilith.world.tasks import Level, Task

if TYPE_CHECKING:
    import torch
    from torch import Tensor

T = TypeVar("T")
P = ParamSpec("P")
KIND_WIDTHS = tuple(sorted(set(SLOT_WIDTHS)))
KINDS = len(KIND_WIDTHS)
"""Number of kinds of blocks. Available blocks of the same width are interchangeable, so they are one kind."""
KIND_OF_SLOT = np.array([KIND_WIDTHS.index(width) for width in SLOT_WIDTHS])
"""(7,): the kind of the block in each slot."""
SLOTS_OF_KIND = np.arange(KINDS)[:, None] == KIND_OF_SLOT
"""(3, 7): a mask; row k marks the slots whose blocks are of kind k."""

Floats32 = NDArray[np.float32]
POINTS = 2
"""If the network sees pictures, a record has room for this many glue points per object. Glue points are needed to draw pictures. Random
agents need less than half of this room."""

Records = NDArray[Any]
"""A structured array (B,) with one record for each of B states, see `SceneSchema.dtype`."""


@dataclass(frozen=True)
class SceneSchema:
    """The format in which states of one task are stored as records. This format does not depend on the action space."""

    rows: int
    """Maximum number of objects in a scene, without the available blocks."""
    points: int = field(default=0, kw_only=True)
    """Maximum number of glue points stored per scene, for pictures. If a scene has more, the last ones are left out."""
    clock: bool = field(default=False, kw_only=True)
    """Whether the number of steps left is stored."""

    @staticmethod
    def rows_of(task: Task, beyond: bool = True) -> int:
        """Maximum number of objects in the scenes of a task's curriculum, without the available blocks. With `beyond`, generalisation
        levels count too."""
        levels: list[Level] = [*task.levels, *(task.generalisation if beyond else ())]
        most = max(task.max_objects(level) for level in levels)
        return most - SLOTS if task.keeps_supply else most

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of one record."""
        return np.dtype(self._columns())

    def _columns(self) -> list[tuple[Any, ...]]:
        """The fields of a record, as numpy's `dtype` takes them. Boolean matrices are packed into bits. Velocities are almost zero, so half
        precision is enough."""
        n = self.rows
        square = (n * n + 7) // 8
        return [
            ("count", "u1"),
            ("available", "u1"),
            ("pose", "f4", (n, 3)),
            ("size", "f4", (n, 2)),
            ("velocity", "f2", (n, 3)),
            ("role", "u1", (n,)),
            ("sticky", "?", (n,)),
            ("touch", "u1", (square,)),
            ("glue", "u1", (square,)),
            *([("glued", "u1"), ("points", "f4", (self.points, 2))] if self.points else []),
            *([("steps_left", "u1")] if self.clock else []),
        ]

    def pack(self, scenes: Sequence[Scene], steps_left: Sequence[int] = ()) -> Records:
        """Packs B scenes into records (B,). `steps_left` has the number of steps left for each scene; it is required if the schema has
        `clock`. Raises ValueError if a scene has more than `rows` objects."""
        b, n = len(scenes), self.rows
        records = np.zeros(b, self.dtype)
        links = np.zeros((2, b, n, n), dtype=bool)
        for i, scene in enumerate(scenes):
            refs = reference_rows(scene)
            k = len(refs)
            require(k <= n, f"a scene of {k} objects besides the available blocks: the agent's task has at most {n}")
            records["count"][i], records["available"][i] = k, np.packbits(scene.role[:SLOTS] == Role.AVAILABLE)[0]
            for name in ("pose", "size", "velocity", "role", "sticky"):
                records[name][i, :k] = getattr(scene, name)[refs]
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
        if self.clock:
            records["steps_left"] = np.minimum(steps_left, np.iinfo(np.uint8).max)
        return records

    def unpack(self, records: Records, mirror: Bools | None = None, device: str | torch.device | None = None) -> SceneBatch:
        """Unpacks records into a batch of B scenes, padded to the largest of them. Scenes are mirrored (left and right swapped) where
        `mirror` (B,) is True. `device` is the device of the batch's tensors; None: main memory."""
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
        return SceneBatch(
            present=np.arange(r) < count[:, None],
            available=slots_of(records),
            pose=pose,
            size=records["size"][:, :r].astype(np.float32),
            velocity=velocity,
            role=records["role"][:, :r].astype(np.int64),
            sticky=records["sticky"][:, :r].astype(np.float32),
            touch=_bits(records["touch"], self.rows, self.rows)[:, :r, :r].astype(np.float32),
            glue=_bits(records["glue"], self.rows, self.rows)[:, :r, :r].astype(np.float32),
            points=points,
            glued=None if points is None else records["glued"].astype(np.int64),
            steps_left=records["steps_left"].astype(np.int64) if self.clock else None,
            device=device,
        )


def _bits(packed: NDArray[np.uint8], *shape: int) -> NDArray[np.uint8]:
    """Unpacks an array (B, bytes) of packed bits into an array of 0 and 1 with B entries of the given shape."""
    return np.unpackbits(packed, axis=1, count=prod(shape)).reshape(-1, *shape)


def slots_of(records: Records) -> Bools:
    """Mask (B, 7): for each of B records, the slots whose block is available."""
    return _bits(records["available"][:, None], SLOTS).astype(bool)


@dataclass(frozen=True)
class ReplaySchema(SceneSchema):
    """The format in which states of one task are stored for one discrete action space. The schema also converts actions between three
    forms: the codec's action, the edge action and the index (see the module)."""

    codec: Discrete
    stores_legal: bool
    """Whether the mask of legal actions is part of a record."""

    @staticmethod
    def of(
        task: Task, codec: Discrete, stores_legal: bool, beyond: bool = True, pictures: bool = False, clock: bool = False
    ) -> ReplaySchema:
        """Makes the schema that fits every scene of a task's curriculum. `stores_legal` says whether records include the mask of legal
        actions. With `beyond`, the schema also fits the scenes of generalisation levels, which can be larger.

        With `pictures`, records include the glue points, which are needed to draw a scene. With `clock`, they include the number of steps
        left.
        """
        rows = SceneSchema.rows_of(task, beyond)
        return ReplaySchema(rows, codec, stores_legal, points=POINTS * rows if pictures else 0, clock=clock)

    @cached_property
    def offsets(self) -> int:
        """Number of offsets per edge, which are the positions at which a block can be placed relative to one object. For absolute actions,
        the number of cells of the grid."""
        return prod(self.codec.tail)

    @cached_property
    def scenes(self) -> ReplaySchema:
        """The same schema without masks of legal actions, which state values do not need."""
        return replace(self, stores_legal=False)

    def edge(self, sender: Any, receiver: Any) -> Any:
        """The number of the edge from the node `sender` to the node `receiver`. Nodes 0 to 6 are the slots, node 7 + r is the r-th object.
        Sender and receiver are integers, arrays or tensors. The first action of an edge has the index 2 · `offsets` · (number of the
        edge)."""
        return sender * (self.rows + SLOTS) + receiver

    @cached_property
    def edges(self) -> int:
        """Number of possible edges: one for each ordered pair of nodes. A node also forms a pair with itself."""
        return (self.rows + SLOTS) ** 2

    def index(self, actions: Any) -> Any:
        """Converts edge actions to their indices. The argument (..., 4) has slot, object, offset and sticky along its last axis; the result
        is (...,). An array gives an array, a tensor gives a tensor."""
        sender, receiver, offset, sticky = (actions[..., part] for part in range(4))
        return (self.edge(sender, receiver) * self.offsets + offset) * 2 + sticky

    def parts(self, index: Any) -> tuple[Any, Any, Any, Any]:
        """Splits the index of an action into the parts of the edge action: slot, object, offset and sticky. `index` is an integer, an array
        or a tensor."""
        edge, output = index // (2 * self.offsets), index % (2 * self.offsets)
        return edge // (self.rows + SLOTS), edge % (self.rows + SLOTS), output // 2, output % 2

    def actions(self, index: Any) -> Ints:
        """Converts an index to an edge action (4,) of slot, object, offset and sticky. Converts an array of indices (...,) to edge actions
        (..., 4)."""
        return np.stack(self.parts(index), axis=-1)

    def _columns(self) -> list[tuple[Any, ...]]:
        legal = [("legal", "u1", ((KINDS * self.rows * self.offsets + 7) // 8,))] if self.stores_legal else []
        return [*super()._columns(), *legal]

    def pack(self, scenes: Sequence[Scene], steps_left: Sequence[int] = ()) -> Records:
        records = super().pack(scenes, steps_left)
        for record, scene in zip(records if self.stores_legal else (), scenes, strict=False):
            record["legal"] = self.pack_legal(scene, self.codec.mask(scene))
        return records

    def pack_legal(self, scene: Scene, mask: Bools | None) -> NDArray[np.uint8]:
        """Packs `mask`, the codec's mask of legal actions, into bits. The axes of the codec's mask are slot, row of the scene, and one or
        two for the offset. The axes of the packed mask are kind of block, object, and offset."""
        assert mask is not None, "these actions have no mask of legal ones"
        refs, legal = reference_rows(scene), np.zeros((KINDS, self.rows, self.offsets), dtype=bool)
        for slot, kind in enumerate(KIND_OF_SLOT):
            legal[kind, : len(refs)] |= mask[slot, refs].reshape(len(refs), -1)
        return np.packbits(legal)

    def unpack(self, records: Records, mirror: Bools | None = None, device: str | torch.device | None = None) -> SceneBatch:
        batch = super().unpack(records, mirror, device)
        if not self.stores_legal:
            return batch
        legal = _bits(records["legal"], KINDS, self.rows, self.offsets)[:, :, : batch.present.shape[1]].astype(bool)
        if mirror is not None:
            legal[mirror] = legal[mirror][..., self._mirrored_offsets]
        return replace(batch, legal=legal)

    @cached_property
    def _mirrored_offsets(self) -> Ints:
        """(offsets,): for each offset, the offset that it becomes when left and right are swapped."""
        tail = self.codec.tail
        actions = np.zeros((self.offsets, self.codec.length), dtype=np.int64)
        actions[:, -1 - len(tail) : -1] = np.indices(tail).reshape(len(tail), -1).T
        return np.ravel_multi_index(tuple(self.codec.mirror(actions)[:, -1 - len(tail) : -1].T), tail)

    def mirror_actions(self, actions: Ints, mirror: Bools) -> Ints:
        """Returns a copy of B edge actions `actions` (B, 4), in which left and right are swapped where `mirror` (B,) is True."""
        swapped = actions.copy()
        swapped[:, 2] = np.where(mirror, self._mirrored_offsets[actions[:, 2]], actions[:, 2])
        return swapped

    def decode(self, scene: Scene, action: Sequence[int]) -> Placement:
        """Converts an edge action (slot, object, offset, sticky) to a placement. The result is `INVALID_EDGE` if the action is relative,
        and its edge does not go from an available block to an object."""
        sender, receiver, offset, sticky = (int(part) for part in action)
        if self.codec.relative and (sender >= SLOTS or receiver < SLOTS):
            return INVALID_EDGE
        edge = (sender, int(reference_rows(scene)[receiver - SLOTS])) if self.codec.relative else (sender,)
        return self.codec.decode(scene, (*edge, *(int(part) for part in np.unravel_index(offset, self.codec.tail)), sticky))

    def encode(self, scene: Scene, placement: Placement) -> tuple[int, int, int, int]:
        """Converts a placement to the nearest edge action (slot, object, offset, sticky) that uses the same block."""
        tail = self.codec.tail
        action = self.codec.encode(scene, placement)
        receiver = SLOTS + int(reference_rows(scene).searchsorted(action[1])) if self.codec.relative else 0
        return action[0], receiver, int(np.ravel_multi_index(action[-1 - len(tail) : -1], tail)), action[-1]


@dataclass(frozen=True, eq=False)
class SceneBatch:
    """B scenes of up to R objects, without the available blocks. A scene of fewer objects is padded to R rows. Padded rows are 0, and
    `present` is False there.

    The fields are arrays in main memory. The property `tensors` gives each field as a tensor on the batch's device.
    """

    present: Bools
    """(B, R): for each scene, mask of the rows that are not padding."""
    available: Bools
    """(B, 7): for each scene, mask of the slots whose block is still available."""
    pose: Floats32
    """(B, R, 3): x, y in metres and angle in radians of each object."""
    size: Floats32
    """(B, R, 2): width and height of each object in metres."""
    velocity: Floats32
    """(B, R, 3): velocity of each object along x and y in m/s, and its angular velocity in rad/s."""
    role: Ints
    """(B, R): the `Role` of each object."""
    sticky: Floats32
    """(B, R), 0 or 1: whether each object is a sticky block."""
    touch: Floats32
    """(B, R, R), 0 or 1: for each pair of objects, whether the two touch."""
    glue: Floats32
    """(B, R, R), 0 or 1: for each pair of objects, whether the two are glued."""
    legal: Bools | None = None
    """(B, 3, R, offsets): for each scene, mask of the legal placements: the offsets at which each of three kinds of block can be placed at
    each object. None if the schema does not store it."""
    points: Floats32 | None = None
    """(B, P, 2): x and y of up to P glue points of each scene in metres. None if the schema does not store them."""
    glued: Ints | None = None
    """(B,): the number of glue points of each scene. None if the schema does not store them."""
    steps_left: Ints | None = None
    """(B,): the number of steps left in each scene. None if the schema does not store it."""
    device: str | torch.device | None = None
    """The device of the tensors of this batch. None: main memory; the tensors then use the same memory as the arrays."""
    memo: dict[Any, Any] = field(default_factory=dict)
    """Cache of results that depend on the batch alone, see `once_per_batch`."""

    def __len__(self) -> int:
        return len(self.present)

    def __getitem__(self, which: slice) -> SceneBatch:
        """Returns a batch of some of the scenes, with the same padding. Its cache is empty."""
        columns = {each.name: getattr(self, each.name) for each in fields(self)}
        arrays: dict[str, Any] = {name: value[which] for name, value in columns.items() if isinstance(value, np.ndarray)}
        return replace(self, **arrays, memo={})

    def send(self, array: NDArray[Any]) -> Tensor:
        """Converts an array to a tensor on the batch's device.

        Arrays whose size depends on the data, such as lists of rows or edges, are computed in main memory and then sent. If they were
        computed on the device, the program would have to wait until it knows their size.
        """
        import torch

        tensor = torch.from_numpy(array)
        return tensor if self.device is None else tensor.to(self.device)

    @cached_property
    def tensors(self) -> TensorView:
        """The arrays of this batch as tensors on its device."""
        return TensorView(self)

    @property
    def nodes(self) -> Bools:
        """Mask (B, 7 + R) of the nodes that exist in each of B scenes: the slots whose block is available, then up to R objects."""
        return np.concatenate([self.available, self.present], axis=1)

    @cached_property
    def first(self) -> Ints:
        """(B + 1,): the first packed row of each scene, followed by the number of all packed rows. Packed rows are the objects of all
        scenes, one scene after another without padding."""
        return np.concatenate([[0], np.cumsum(self.present.sum(axis=1))])

    @cached_property
    def first_pair(self) -> Ints:
        """(B + 1,): the first packed pair of each scene, followed by the number of all packed pairs. Packed pairs are all ordered pairs of
        objects in the same scene, including each object with itself, one scene after another."""
        return np.concatenate([[0], np.cumsum(self.count**2)])

    @property
    def start(self) -> Ints:
        """(B,): the first packed row of each scene, see `first`."""
        return self.first[:-1]

    @cached_property
    def count(self) -> Ints:
        """(B,): the number of objects in each scene, without the available blocks."""
        return np.diff(self.first)

    @cached_property
    def scene(self) -> Ints:
        """(n,): for each of the n objects of all scenes, without padding, the index of its scene."""
        return np.repeat(np.arange(len(self)), self.count)

    @property
    def place(self) -> Ints:
        """(n,): for each of the n objects of all scenes, without padding, its index in the list of B · R padded rows."""
        return np.flatnonzero(self.present)

    @property
    def pair_place(self) -> Ints:
        """(p,): for each of the p pairs of objects in the same scene, without padding, its index in the list of B · R · R padded pairs."""
        return np.flatnonzero(self.present[:, :, None] & self.present[:, None])

    @cached_property
    def pairs(self) -> tuple[Ints, Ints]:
        """Two index arrays (p,) for the p ordered pairs of objects in the same scene: the packed rows of the first and of the second object
        of each pair. The first object attends to the second. Packed rows are the objects of all scenes without padding."""
        scene, one, other = (self.present[:, :, None] & self.present[:, None]).nonzero()
        return self.start[scene] + one, self.start[scene] + other

    @cached_property
    def left(self) -> Floats32:
        """(B, 3): the number of available blocks of each kind in each scene."""
        return self.available.astype(np.float32) @ SLOTS_OF_KIND.T.astype(np.float32)

    @property
    def drawing(self) -> tuple[Bools, Ints, Floats32, Floats32, Ints, Floats32, Floats32, Ints]:
        """The arguments that `batch_images.images` and `batch_images.windows` need to draw this batch."""
        assert self.points is not None, "the schema stores no glue points"
        assert self.glued is not None
        return self.available, self.count, self.pose, self.size, self.role, self.sticky, self.points, self.glued

    def windows(self, tight: bool = False) -> tuple[Ints, Ints, Floats32]:
        """Returns the windows of the pictures of all objects, as `batch_images.windows` does. In each scene the available blocks come
        first, then the other objects. With `tight`, each window is just large enough for its object."""
        return windows(*self.drawing, tight=tight)


def once_per_batch(compute: Callable[Concatenate[SceneBatch, P], T]) -> Callable[Concatenate[SceneBatch, P], T]:
    """Decorator for a function of a batch: stores its result in `memo`, so that it runs once for each combination of the other arguments,
    which must be hashable. The online network and the target network share the result, so callers must not change it."""

    @wraps(compute)
    def kept(batch: SceneBatch, /, *args: P.args, **kwargs: P.kwargs) -> T:
        key = (compute, args, tuple(sorted(kwargs.items())))
        if key not in batch.memo:
            batch.memo[key] = compute(batch, *args, **kwargs)
        return batch.memo[key]

    return kept


class TensorView:
    """The arrays of a batch, and the arrays derived from them, as tensors on the batch's device. Each tensor is made once, when its name is
    first read as an attribute."""

    def __init__(self, batch: SceneBatch) -> None:
        self._batch = batch

    def __getattr__(self, name: str) -> Tensor:
        tensor = self._batch.send(getattr(self._batch, name))
        setattr(self, name, tensor)
        return tensor
