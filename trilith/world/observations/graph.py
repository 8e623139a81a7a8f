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
"""full: edges between all objects. sparse: the edges of `sparse_links` (the paper's §C.2). sparse-both: these edges and their reverses."""
EDGE_COLUMNS = ("touching", "glued")
EDGE_FEATURES = len(EDGE_COLUMNS)


class Graph(NamedTuple):
    """A directed graph. The global input of the paper's networks is one zero, so it is not stored."""

    nodes: NDArray[np.float32]
    """(N, 15): 15 features of each of N objects, as the function `objects` returns them."""
    edges: NDArray[np.float32]
    """(E, 2): for each of E edges, whether its two objects touch, and whether they are glued; 1 or 0."""
    senders: NDArray[np.int64]
    """(E,): the row of the object where each of E edges starts, ascending."""
    receivers: NDArray[np.int64]
    """(E,): the row of the object where each of E edges ends, ascending among the edges with the same start."""


def graph(scene: Scene, connectivity: Connectivity = "full") -> Graph:
    """The graph of a scene. Its edges are all ordered pairs of different objects, or the subset that `sparse_links` describes. Raises
    ValueError if `connectivity` is not full, sparse or sparse-both."""
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
    """(N, N, 2): for each pair of N objects, whether they touch, and whether they are glued; 1 or 0, symmetric."""
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
    """(n (n - 1), 2): for each ordered pair of different objects among n, in the order of `_full_links`, whether they touch, and whether
    they are glued; 1 or 0. `contact` (C, 2) and `glue` (G, 2) are those of the scene."""
    features = np.zeros((n * (n - 1), EDGE_FEATURES), dtype=np.float32)
    for feature, pairs in enumerate((contact, glue)):
        for i, j in pairs:  # i < j
            features[i * (n - 1) + j - 1, feature] = features[j * (n - 1) + i, feature] = 1
    return features


def sparse_links(scene: Scene, both_ways: bool = False) -> Bools:
    """Mask (N, N) of the edges of the paper's sparse graph. Entry (i, j) is True if there is an edge from object i to object j.

    Edges lead from each available block to every object that is not an available block, from targets and obstacles to placed blocks, and
    both ways between placed blocks in contact. The floor counts as a placed block. The full graph has 3.1 to 3.4 times as many edges; the
    paper says about 4. With `both_ways` every edge also has its reverse, and the full graph has only 1.6 times as many.
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
    """The edges between all ordered pairs of n different objects. Returns two arrays (n (n - 1),): the rows where the edges start,
    ascending, and the rows where they end, ascending among the edges with the same start."""
    senders, receivers = np.nonzero(~np.eye(n, dtype=bool))
    for array in (senders, receivers):
        array.flags.writeable = False
    return senders, receivers
