"""The paper's graph network for actors and critics (§C.2). Unlike the Q-network, it uses the sparse graph, has one processing step without
a GRU, and its decoder is a full graph network.

Actor and critic share the encoder; each has its own core and decoder. The critic reads an action as part of the globals. The outputs of
actor and critic are computed from the decoded globals. As in `q/graph.py`, every MLP has two layers, both with a ReLU. Edges are summed
into nodes, and edges and nodes are averaged into globals.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trilith.networks.inputs.scene_batch import SceneBatch
from trilith.networks.kernels.graph_edges import EdgeInputs, edge_function
from trilith.networks.q.graph import GLOBAL_FEATURES, MLP, Links, edge_codes, pack
from trilith.world.observations.graph import EDGE_FEATURES
from trilith.world.observations.objects import FEATURES


class Seen(NamedTuple):
    """A batch of encoded graphs. In each row of edges, nodes and globals, the input columns come first, then the output of the encoder."""

    links: Links
    edges: Tensor
    """(4, 2 + width): a row for each of the four possible inputs of an edge, see `edge_codes`."""
    nodes: Tensor
    """(V, 15 + width): a row for each node."""
    globals: Tensor
    """(1, 1 + width): one row, because the input is the same for all graphs."""


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


class GraphBlock(nn.Module):
    """A full graph network block. It updates first the edges (each from the edge itself, its two nodes and the globals), then the nodes,
    then the globals."""

    def __init__(self, edge: int, node: int, glob: int, width: int) -> None:
        super().__init__()
        self.split = [edge, node, node, glob]
        self.edge = MLP(sum(self.split), width)
        self.node = MLP(width + node + glob, width)
        self.glob = MLP(2 * width + glob, width)

    def forward(self, edges: Tensor, nodes: Tensor, globs: Tensor, links: Links, table: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the updated edges (E, width), nodes (V, width) and globals (G, width). `edges` (E, e) has one row per edge. With `table`,
        `edges` is (4, e) instead: one row for each of the four possible inputs of an edge.

        The first layer of each MLP is a sum of parts. The part from the nodes is computed once per node, not once per edge, and the part
        from the globals once per graph. If `links` contains each graph several times, once for each action, pass the nodes of one copy
        only.
        """
        of_edge, of_sender, of_receiver, of_glob = self.edge.first.weight.split(self.split, dim=1)
        of_arrived, of_node, of_glob_too = self.node.first.weight.split([self.edge.second.out_features, *self.split[2:]], dim=1)
        times = len(links.graph) // len(nodes)
        of_nodes = F.linear(nodes, torch.cat([of_sender, of_receiver, of_node])).repeat(times, 1)
        send, receive, own = of_nodes.chunk(3, dim=1)
        biases = torch.cat([self.edge.first.bias, self.node.first.bias])
        of_globs = F.linear(globs, torch.cat([of_glob, of_glob_too]), biases).index_select(0, links.graph)
        first, rest = of_globs.chunk(2, dim=1)
        given, times_edge = (F.linear(edges, of_edge), None) if table else (edges, of_edge)
        second, ends = self.edge.second, (links.code, links.sender, links.receiver)
        new_edges, arrived = edge_function(EdgeInputs(given, times_edge, send + first, receive, second.weight, second.bias, *ends))
        new_nodes = self.node.after(torch.addmm(own + rest, arrived, of_arrived.t()))
        both = torch.cat([arrived, new_nodes], dim=1)
        sums = both.new_zeros(len(globs), both.shape[1]).index_add(0, links.graph, both)
        means = sums / links.per_graph.repeat_interleave(new_nodes.shape[1], dim=1).clamp(min=1)
        return new_edges, new_nodes, self.glob(torch.cat([means, globs], dim=1))


class GraphCore(nn.Module):
    """Core and decoder of an actor or a critic. Only a critic reads actions. The output is a linear function of the decoded globals."""

    def __init__(self, actions: int, width: int, outputs: int) -> None:
        super().__init__()
        self.core = GraphBlock(EDGE_FEATURES + width, FEATURES + width, GLOBAL_FEATURES + width + actions, width)
        self.decoder = GraphBlock(width, width, width, width)
        self.out = nn.Linear(width, outputs)

    def forward(self, seen: Seen, actions: Tensor | None = None) -> Tensor:
        """Returns the outputs (B, outputs) or, given K actions (B, K, A) in each state, the outputs (B, K, outputs)."""
        scenes, times = len(seen.links.per_graph), 1 if actions is None else actions.shape[1]
        links = seen.links.repeat(times)
        globs = seen.globals.expand(scenes * times, -1)
        if actions is not None:
            globs = torch.cat([globs, actions.transpose(0, 1).flatten(0, 1)], dim=1)
        out: Tensor = self.out(self.decoder(*self.core(seen.edges, seen.nodes, globs, links, table=True), links)[2])
        return out if actions is None else out.view(times, scenes, -1).transpose(0, 1)
