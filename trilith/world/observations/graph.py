"""The scene as a graph: objects are nodes, and edges say whether two objects touch and whether they are glued."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from trilith.utils.compiled import compiled
from trilith.world.observations.objects import objects
from trilith.world.scene import Bools, Ints, Role, Scene

Connectivity = Literal["full", "sparse", "sparse-both"]
"""full: edges between all objects. sparse: the edges of the paper's sparse graph (§C.2). sparse-both: the same edges in both directions."""
EDGE_COLUMNS = ("touching", "glued")
EDGE_FEATURES = len(EDGE_COLUMNS)


class Graph(NamedTuple):
    """A directed graph. The global input of the paper's networks is one zero, so it is not stored."""

    nodes: NDArray[np.float32]
    """(N, 15): the rows of `objects`."""
    edges: NDArray[np.float32]
    """(E, 2): whether sender and receiver touch, and whether they are glued."""
    senders: NDArray[np.int64]
    """(E,): row where each edge starts, ascending."""
    receivers: NDArray[np.int64]
    """(E,): row where each edge ends, ascending within a sender."""


def graph(scene: Scene, connectivity: Connectivity = "full") -> Graph:
    """The graph of a scene: all ordered pairs of different objects, or the sparse subset (see `sparse_links`)."""
    if connectivity == "full":
        senders, receivers = _full_links(len(scene))
        edges = _full_edges(len(scene), scene.contact, scene.glue)
    elif connectivity in get_args(Connectivity):
        senders, receivers = np.nonzero(sparse_links(scene, both_ways=connectivity == "sparse-both"))
        edges = edge_features(scene)[senders, receivers]
    else:
        raise ValueError(f"connectivity {connectivity!r}: must be full, sparse or sparse-both")
    return Graph(objects(scene), edges, senders, receivers)


def edge_features(scene: Scene) -> NDArray[np.float32]:
    """(N, N, 2): whether two objects touch, and whether they are glued; symmetric."""
    return _edge_features(len(scene), scene.contact, scene.glue)


@compiled
def _edge_features(n: int, contact: Ints, glue: Ints) -> NDArray[np.float32]:
    features = np.zeros((n, n, EDGE_FEATURES), dtype=np.float32)
    for feature, pairs in enumerate((contact, glue)):
        for i, j in pairs:
            features[i, j, feature] = features[j, i, feature] = 1
    return features


@compiled
def _full_edges(n: int, contact: Ints, glue: Ints) -> NDArray[np.float32]:
    """(N (N - 1), 2): `edge_features` for all edges of `_full_links`, in the same order. Each sender has N - 1 edges, none of them to
    itself."""
    features = np.zeros((n * (n - 1), EDGE_FEATURES), dtype=np.float32)
    for feature, pairs in enumerate((contact, glue)):
        for i, j in pairs:  # i < j
            features[i * (n - 1) + j - 1, feature] = features[j * (n - 1) + i, feature] = 1
    return features


def sparse_links(scene: Scene, both_ways: bool = False) -> Bools:
    """(N, N): which edges (sender, receiver) the paper's sparse graph has. The floor counts as a block.

    Edges lead from each available block to every other object, from targets and obstacles to blocks, and both ways between blocks in
    contact. The full graph has 3.1 to 3.4 times as many edges; the paper says about 4. With `both_ways` every edge also has its
    reverse, and the factor is 1.6.
    """
    available = scene.role == Role.AVAILABLE
    block = (scene.role == Role.BLOCK) | (scene.role == Role.FLOOR)
    marker = ~available & ~block
    links = (available[:, None] & ~available) | (marker[:, None] & block)
    if both_ways:
        links |= links.T
    touching = scene.contact[block[scene.contact].all(axis=1)]
    links[touching[:, 0], touching[:, 1]] = links[touching[:, 1], touching[:, 0]] = True
    return links


@lru_cache(maxsize=128)
def _full_links(n: int) -> tuple[Ints, Ints]:
    """Senders and receivers of all edges of a full graph."""
    senders, receivers = np.nonzero(~np.eye(n, dtype=bool))
    for array in (senders, receivers):
        array.flags.writeable = False
    return senders, receivers
