"""Layers of the paper's graph networks (§C.2): an MLP, a full graph network block, and a recurrent graph network.

They are used by `actor_critic/graph.py` and `dynamics/graph.py`. The Q-network of gn-dqn, in `q/graph.py`, uses only `MLP` and `Links`,
because it has its own, faster form of the recurrent graph network.

Graphs are packed without padding: a row for each node and a row for each edge, one graph after another.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trilith.networks.kernels.graph_edges import EdgeInputs, EdgeParts, edge_function
from trilith.networks.kernels.gru import gru


class MLP(nn.Module):
    """Two linear layers, each followed by a ReLU."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, width)
        self.second = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Maps (..., inputs) to (..., width)."""
        return self.after(self.first(x))

    def after(self, first: Tensor) -> Tensor:
        """Applies the MLP without its first linear layer. `first` (..., width) is the output of that layer, before the ReLU."""
        return F.relu(self.second(F.relu(first)))


class Links(NamedTuple):
    """The structure of G graphs with V nodes and E edges in all."""

    graph: Tensor
    """(V,): index of the graph of each node."""
    sender: Tensor
    """(E,): row of the node where each edge starts."""
    receiver: Tensor
    """(E,): row of the node where each edge ends."""
    code: Tensor
    """(E,): the input of each edge as a number from 0 to 3: touching + 2 · glued."""
    per_graph: Tensor
    """(G, 2): how many edges and nodes each graph has."""

    def repeat(self, times: int) -> Links:
        """`times` copies of all graphs, one copy after another."""
        if times == 1:
            return self
        nodes, graphs = len(self.graph), len(self.per_graph)

        def shifted(index: Tensor, by: int) -> Tensor:
            return (index + by * torch.arange(times, device=index.device)[:, None]).flatten()

        return Links(
            shifted(self.graph, graphs),
            shifted(self.sender, nodes),
            shifted(self.receiver, nodes),
            self.code.repeat(times),
            self.per_graph.repeat(times, 1),
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
        """Returns the updated edges (E, width), nodes (V, width) and globals (G, width). The input `edges` has one row per edge (E, e) or,
        with `table`, one row (4, e) for each value of `Links.code`.

        The first layer of each MLP is a sum of parts. The part that reads nodes is computed once per node, not once per edge. The part that
        reads globals is computed once per graph. If `links` has several copies of the graphs (see `Links.repeat`), `nodes` may have the
        rows of one copy only.
        """
        of_edge, of_sender, of_receiver, of_glob = self.edge.first.weight.split(self.split, dim=1)
        of_arrived, of_node, of_glob_too = self.node.first.weight.split([self.edge.second.out_features, *self.split[2:]], dim=1)
        times = len(links.graph) // len(nodes)
        of_nodes = F.linear(nodes, torch.cat([of_sender, of_receiver, of_node])).repeat(times, 1)
        send, receive, own = of_nodes.chunk(3, dim=1)
        biases = torch.cat([self.edge.first.bias, self.node.first.bias])
        of_globs = F.linear(globs, torch.cat([of_glob, of_glob_too]), biases).index_select(0, links.graph)
        first, rest = of_globs.chunk(2, dim=1)
        known = EdgeParts(F.linear(edges, of_edge)) if table else EdgeParts(None, edges, of_edge)
        second, ends = self.edge.second, (links.code, links.sender, links.receiver)
        new_edges, arrived = edge_function(EdgeInputs(known, send + first, receive, second.weight, second.bias, *ends))
        new_nodes = self.node.after(torch.addmm(own + rest, arrived, of_arrived.t()))
        both = torch.cat([arrived, new_nodes], dim=1)
        sums = both.new_zeros(len(globs), both.shape[1]).index_add(0, links.graph, both)
        means = sums / links.per_graph.repeat_interleave(new_nodes.shape[1], dim=1).clamp(min=1)
        return new_edges, new_nodes, self.glob(torch.cat([means, globs], dim=1))


class RecurrentGraph(nn.Module):
    """Several steps of one graph network block and three GRUs: for edges, nodes and globals. In every step the block reads the input
    features, its previous output and the hidden states. Then the GRUs read the new output."""

    def __init__(self, edge: int, node: int, glob: int, width: int, steps: int) -> None:
        """`edge`, `node` and `glob` are the numbers of input features."""
        super().__init__()
        self.steps = steps
        self.block = GraphBlock(edge + 2 * width, node + 2 * width, glob + 2 * width, width)
        self.grus = nn.ModuleList(nn.GRUCell(width, width) for _ in range(3))

    def forward(self, given: tuple[Tensor, ...], encoded: tuple[Tensor, ...], links: Links) -> tuple[Tensor, ...]:
        """Returns the hidden states of edges (E, width), nodes (V, width) and globals (G, width) after the last step. `given` has the input
        features of the three. `encoded` has their encodings: the output of the block and the hidden states before the first step."""
        last = hidden = encoded
        cells = [cell for cell in self.grus if isinstance(cell, nn.GRUCell)]
        for _ in range(self.steps):
            last = self.block(*(torch.cat(each, dim=1) for each in zip(given, last, hidden, strict=True)), links)
            hidden = tuple(gru(cell, new, old) for cell, new, old in zip(cells, last, hidden, strict=True))
        return hidden
