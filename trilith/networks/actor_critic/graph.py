"""The paper's graph network for actors and critics (§C.2). It differs from the paper's Q-network (`q/graph.py`) in three ways. Its graphs
have only the edges of `observations.graph.sparse_links`. By default it has one processing step, without a GRU. Its decoder is a full graph
block.

Actor and critic share the encoder; each has its own core and decoder. The critic reads an action as part of the globals. The outputs of
actor and critic are computed from the decoded globals. As in the Q-network, every MLP has two layers, both with a ReLU. Edges are summed
into nodes, and edges and nodes are averaged into globals.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from trilith.networks.inputs.scene_batch import SceneBatch
from trilith.networks.layers.graph import MLP, GraphBlock, Links, RecurrentGraph
from trilith.networks.q.graph import GLOBAL_FEATURES, edge_codes, pack
from trilith.world.observations.graph import EDGE_FEATURES
from trilith.world.observations.objects import FEATURES


class Seen(NamedTuple):
    """A batch of encoded graphs. In each row of `edges`, `nodes` and `globals`, the input columns come first, then `width` columns that the
    encoder computed from them."""

    links: Links
    edges: Tensor
    """(4, 2 + width): a row for each of the four possible inputs of an edge (see `edge_codes`), because the encoder sees nothing else of an
    edge."""
    nodes: Tensor
    """(V, 15 + width): a row for each of the V nodes of all graphs."""
    globals: Tensor
    """(1, 1 + width): one row for all graphs, because their global input is the same."""


class GraphEncoder(nn.Module):
    """Encodes edges, nodes and globals, each independently of the others."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.codes = edge_codes()
        self.edge, self.node, self.glob = (MLP(n, width) for n in (EDGE_FEATURES, FEATURES, GLOBAL_FEATURES))

    def forward(self, batch: SceneBatch) -> Seen:
        """Encodes the graphs of a batch."""
        packed = pack(batch, "sparse")
        zero = packed.nodes.new_zeros(1, GLOBAL_FEATURES)
        return Seen(
            packed.links,
            torch.cat([self.codes, self.edge(self.codes)], dim=1),
            torch.cat([packed.nodes, self.node(packed.nodes)], dim=1),
            torch.cat([zero, self.glob(zero)], dim=1),
        )


class GraphCore(nn.Module):
    """Core and decoder of an actor or a critic. Only a critic reads actions. The output is a linear function of the decoded globals.

    With one recurrent step, as in the paper, the core has no GRUs.
    """

    def __init__(self, actions: int, width: int, outputs: int, recurrent: int = 1) -> None:
        super().__init__()
        self.width = width
        self.core = (
            GraphBlock(EDGE_FEATURES + width, FEATURES + width, GLOBAL_FEATURES + width + actions, width)
            if recurrent == 1
            else RecurrentGraph(EDGE_FEATURES, FEATURES, GLOBAL_FEATURES + actions, width, recurrent)
        )
        self.decoder = GraphBlock(width, width, width, width)
        self.out = nn.Linear(width, outputs)

    def forward(self, seen: Seen, actions: Tensor | None = None) -> Tensor:
        """Returns the outputs (B, outputs) for B states. If `actions` (B, K, A) are given, K actions of A numbers in each state, returns
        the outputs (B, K, outputs)."""
        scenes, times = len(seen.links.per_graph), 1 if actions is None else actions.shape[1]
        links = seen.links.repeat(times)
        globs = seen.globals.expand(scenes * times, -1)
        each = None if actions is None else actions.transpose(0, 1).flatten(0, 1)
        if isinstance(self.core, RecurrentGraph):
            rows = seen.edges.index_select(0, links.code), seen.nodes.repeat(times, 1), globs
            given, encoded = zip(*(row.split([row.shape[1] - self.width, self.width], dim=1) for row in rows), strict=True)
            if each is not None:
                given = (*given[:2], torch.cat([given[2], each], dim=1))
            processed = self.core(given, encoded, links)
        else:
            if each is not None:
                globs = torch.cat([globs, each], dim=1)
            processed = self.core(seen.edges, seen.nodes, globs, links, table=True)
        out: Tensor = self.out(self.decoder(*processed, links)[2])
        return out if actions is None else out.view(times, scenes, -1).transpose(0, 1)
