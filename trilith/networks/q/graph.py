"""Q-values by the paper's graph network (§C.2). A node is an object, given by its features or by its segmented image. The network encodes
the graph, processes the graph n_rec times with GRUs, and decodes values from the edges.

Up to rounding, the result equals that of the plain network in `tests/networks/plain_graph.py`. It is made fast as follows:
- graphs of different sizes are packed, with one row per node or edge, so that nothing is computed for padding;
- the first layer of the edge function is a sum of four parts: from the edge, its sender, its receiver and the globals. The parts of
  nodes and globals are computed once per node or graph, not once per edge;
- the input of an edge is two bits. So everything that depends on these bits alone (the encoded edge, and its part of the first step)
  is computed for four rows and looked up. The global input is a constant, so its encoding is one row;
- in the last step the GRU processes only edges whose value is needed, and no nodes;
- values are decoded only where an action can exist.

Our choices where the paper is not specific: both layers of every MLP have a ReLU. Edges are summed into nodes. Edges and nodes are averaged
into globals, because sums over all edges would saturate the GRU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trilith.networks.config import Mask, NetConfig
from trilith.networks.inference.pixels import PIXEL_FEATURES
from trilith.networks.inputs.scene_batch import KIND_OF_SLOT, Floats32, ReplaySchema, SceneBatch, once_per_batch
from trilith.networks.kernels.graph_edges import EdgeInputs, EdgeParts, edge_function
from trilith.networks.kernels.gru import gru
from trilith.networks.layers.graph import MLP, Links
from trilith.networks.layers.object_cnn import ObjectCNN
from trilith.networks.q.base import DEFAULT, QNet
from trilith.world.observations.graph import EDGE_FEATURES, Connectivity
from trilith.world.observations.objects import FEATURES
from trilith.world.scene import BLOCK_HEIGHT, SLOT_WIDTHS, SLOT_X, SLOT_Y, SLOTS, Bools, Ints, Role

GLOBAL_FEATURES = 1
"""Number of global input features. As in the paper, the only one is always 0."""


def edge_codes() -> nn.Buffer:
    """A buffer (4, 2) with the four possible inputs (touching, glued) of an edge. The index of a row is touching + 2 · glued."""
    return nn.Buffer(torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), persistent=False)


class Decoder(nn.Module):
    """Computes values from the features of an edge and the globals, or from the globals alone: two hidden layers and a linear output."""

    def __init__(self, inputs: int, width: int, outputs: int) -> None:
        super().__init__()
        self.hidden = MLP(inputs, width)
        self.out = nn.Linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Maps (..., inputs) to (..., outputs)."""
        return self.out(self.hidden(x))


@dataclass(frozen=True, eq=False)
class Packed:
    """A batch of graphs without padding: one row for each of V nodes and for each of E edges."""

    nodes: Tensor
    """(V, 15): the rows of `observations.objects`; in `PixelGraphNet` (V, 32), features of the CNN."""
    links: Links
    where: Ints
    """(E,): the index of each edge in a flattened adjacency matrix (B, 7 + R, 7 + R). This array is in main memory, because the edges to
    decode are selected there."""
    place: Tensor
    """(B · (7 + R) · (7 + R),): the inverse of `where`. For each index of the flattened adjacency matrix it has the row of the edge;
    meaningless where there is no edge."""


class GraphNet(QNet):
    """The paper's graph network as a Q-network. With absolute actions, values are decoded from the globals instead of the edges."""

    def __init__(self, schema: ReplaySchema, mask: Mask = "legal", net: NetConfig = DEFAULT, features: int = FEATURES) -> None:
        """`features` is the number of features of a node."""
        super().__init__(schema, mask)
        self.codes = edge_codes()
        self.width, self.recurrent, self.connectivity, self.relative = net.width, net.recurrent, net.connectivity, schema.codec.relative
        self.features, width = features, net.width
        edge, node, glob = EDGE_FEATURES + 2 * width, features + 2 * width, GLOBAL_FEATURES + 2 * width
        self.encode_edge, self.encode_node, self.encode_global = (MLP(n, width) for n in (EDGE_FEATURES, features, GLOBAL_FEATURES))
        self.core_edge = MLP(edge + 2 * node + glob, width)
        self.core_node = MLP(width + node + glob, width)
        self.core_global = MLP(2 * width + glob, width)
        self.gru_edge, self.gru_node, self.gru_global = (nn.GRUCell(width, width) for _ in range(3))
        self.decode_global = MLP(width, width)
        if self.relative:
            self.decode_edge = MLP(width, width)
            self.value = Decoder(2 * width, width, self.outputs)
        else:
            self.value = Decoder(width, width, SLOTS * self.outputs)

    # ---- the network

    def process(self, packed: Packed, chosen: Tensor | None) -> tuple[Tensor, Tensor]:
        """Computes the inputs of the decoder. Returns the features (C, width) of the edges `chosen` (C,), and the globals (B, width). If
        `chosen` is None, only the globals are meaningful."""
        width, links = self.width, packed.links
        split = [EDGE_FEATURES, width, width, *[self.features + 2 * width] * 2, GLOBAL_FEATURES + 2 * width]
        of_input, of_edge, of_hidden, of_sender, of_receiver, of_global = self.core_edge.first.weight.split(split, dim=1)
        of_nodes = torch.cat([of_sender, of_receiver])

        bits = self.codes  # (4, 2): all possible inputs of an edge
        encoded = self.encode_edge(bits)
        first = F.linear(bits, of_input)  # (4, width)
        table = first + F.linear(encoded, of_edge + of_hidden)
        edge = edge_hidden = encoded  # a table of four rows in the first step, later a row for each edge
        node = node_hidden = self.encode_node(packed.nodes)
        zero = packed.nodes.new_zeros(len(links.per_graph), GLOBAL_FEATURES)
        glob = glob_hidden = self.encode_global(zero[:1]).expand(len(zero), -1)

        ends = links.code, links.sender, links.receiver
        for n in range(1, self.recurrent + 1):
            glob_in = torch.cat([zero, glob, glob_hidden], dim=1)
            node_in = torch.cat([packed.nodes, node, node_hidden], dim=1)
            send, receive = F.linear(node_in, of_nodes).chunk(2, dim=1)
            send = send + F.linear(glob_in, of_global, self.core_edge.first.bias).index_select(0, links.graph)
            known = EdgeParts(table) if n == 1 else EdgeParts(first, edge, of_edge, edge_hidden, of_hidden)
            second = self.core_edge.second
            new_edge, arrived = edge_function(EdgeInputs(known, send, receive, second.weight, second.bias, *ends))
            node = self.core_node(torch.cat([arrived, node_in, glob_in.index_select(0, links.graph)], dim=1))
            sums = zero.new_zeros(len(zero), 2 * width).index_add(0, links.graph, torch.cat([arrived, node], dim=1))
            means = sums / links.per_graph.repeat_interleave(width, dim=1).clamp(min=1)
            glob = self.core_global(torch.cat([means, glob_in], dim=1))
            glob_hidden = gru(self.gru_global, glob, glob_hidden)

            which = links.code if n == 1 else None  # rows of the table in the first step
            if n < self.recurrent:
                edge, edge_hidden = new_edge, gru(self.gru_edge, new_edge, edge_hidden, which)
                node_hidden = gru(self.gru_node, node, node_hidden)
            elif chosen is not None:
                if which is None:
                    edge_hidden = edge_hidden.index_select(0, chosen)
                else:
                    which = which.index_select(0, chosen)
                edge_hidden = gru(self.gru_edge, new_edge.index_select(0, chosen), edge_hidden, which)
        return edge_hidden, glob_hidden

    def _decode(self, edges: Tensor, globals_: Tensor, graph: Tensor) -> Tensor:
        """The values (C, outputs) of the actions of C edges, from their features (C, width) and the globals (B, width). `graph` (C,) is the
        scene of each edge."""
        layer = self.value.hidden.first
        of_edge, of_global = layer.weight.chunk(2, dim=1)
        whole = F.linear(self.decode_global(globals_), of_global, layer.bias).index_select(0, graph)
        return self.value.out(self.value.hidden.after(torch.addmm(whole, self.decode_edge(edges), of_edge.t())))

    def packed(self, batch: SceneBatch) -> Packed:
        """The graphs of a batch."""
        return pack(batch, self.connectivity)

    def q(self, batch: SceneBatch) -> Tensor:
        packed = self.packed(batch)
        b, n = len(batch), SLOTS + batch.present.shape[1]
        if not self.relative:
            return self.value(self.decode_global(self.process(packed, None)[1])).view(b, SLOTS, 1, self.outputs)
        sender, receiver = packed.where // n % n, packed.where % n
        chosen = np.arange(len(sender)) if self.mask_rule == "none" else np.flatnonzero((sender < SLOTS) & (receiver >= SLOTS))
        where = batch.send(packed.where[chosen])
        edges, globals_ = self.process(packed, batch.send(chosen))
        values = self._decode(edges, globals_, where // (n * n))
        dense = values.new_zeros(b * n * n, self.outputs).index_copy(0, where, values).view(b, n, n, self.outputs)
        return dense if self.mask_rule == "none" else dense[:, :SLOTS, SLOTS:]

    def q_at(self, batch: SceneBatch, index: Tensor, scenes: Tensor | None = None) -> Tensor:
        packed, n = self.packed(batch), SLOTS + batch.present.shape[1]
        each = torch.arange(len(batch), device=index.device) if scenes is None else scenes
        sender, receiver, _, _ = self.schema.parts(index)
        output = (index % self.outputs)[:, None]
        if not self.relative:
            values = self.value(self.decode_global(self.process(packed, None)[1])).view(len(batch), SLOTS, self.outputs)
            return values[each, sender].gather(1, output)[:, 0]
        chosen = packed.place[(each * n + sender) * n + receiver]
        edges, globals_ = self.process(packed, chosen)
        return self._decode(edges, globals_, each).gather(1, output)[:, 0]

    def mask(self, batch: SceneBatch) -> Tensor:
        edges = batch.available[:, :, None] & batch.present[:, None]
        if not self.relative:
            edges = (batch.available | (self.mask_rule == "none"))[..., None]
        elif self.mask_rule == "none":
            edges = linked_nodes(batch, self.connectivity)
        elif self.mask_rule == "legal":
            assert batch.legal is not None
            return batch.send((edges[..., None] & batch.legal[:, KIND_OF_SLOT]).repeat(2, axis=-1))
        return batch.send(edges)[..., None].expand(-1, -1, -1, self.outputs)


class PixelGraphNet(GraphNet):
    """The network of CNN-GN-DQN. It sees only the pixels of an object: a small CNN computes the 32 features of a node from the
    object's segmented image.

    The graph also reveals the number of objects (the number of nodes), and which objects touch or are glued (the edge features). The mask
    `edges` reveals which nodes are available blocks. The mask `legal` reveals where blocks fit, and so where solid objects are.
    """

    def __init__(self, schema: ReplaySchema, mask: Mask = "none", net: NetConfig = DEFAULT) -> None:
        super().__init__(schema, mask, net, PIXEL_FEATURES)
        if net.connectivity != "full":
            raise ValueError(
                "the sparse graph is made from what objects are, which the network pixels does not see: choose connectivity full"
            )
        self.cnn = ObjectCNN(net.blank)

    def packed(self, batch: SceneBatch) -> Packed:
        return replace(super().packed(batch), nodes=self.cnn(batch))


# ---- graphs from batches


@once_per_batch
def pack(batch: SceneBatch, connectivity: Connectivity) -> Packed:
    """The graphs of a batch without padding. The nodes of a graph are the available blocks, followed by the objects of the scene."""
    linked, send = linked_nodes(batch, connectivity), batch.send
    present = batch.nodes
    b, n = present.shape
    row = present.cumsum().reshape(b, n) - 1
    scene, sender, receiver = linked.nonzero()
    where = (scene * n + sender) * n + receiver
    place = np.zeros(b * n * n, np.int64)
    place[where] = np.arange(len(where))
    return Packed(
        nodes=send(node_features(batch)[present]),
        links=Links(
            graph=send(present.nonzero()[0]),
            sender=send(row[scene, sender]),
            receiver=send(row[scene, receiver]),
            code=send(_between_nodes(batch.touch + 2 * batch.glue)[scene, sender, receiver].astype(np.int64)),
            per_graph=send(np.stack([linked.sum(axis=(1, 2)), present.sum(axis=1)], axis=1).astype(np.float32)),
        ),
        where=where,
        place=send(place),
    )


def node_features(batch: SceneBatch) -> Floats32:
    """The features (B, 7 + R, 15) of all nodes, as in `observations.objects`. The seven slots come first, including slots whose block has
    been used."""
    position, angle, role = batch.pose[..., :2], batch.pose[..., 2:], np.eye(len(Role), dtype=np.float32)[batch.role]
    columns = [position, np.cos(angle), np.sin(angle), batch.size, batch.velocity, batch.sticky[..., None], role]
    return np.concatenate([np.broadcast_to(_SLOT_ROWS, (len(batch), *_SLOT_ROWS.shape)), np.concatenate(columns, axis=-1)], axis=1)


def _between_nodes(pairs: Floats32) -> Floats32:
    """Extends a feature of pairs of objects (B, R, R) to pairs of nodes (B, 7 + R, 7 + R). The feature is 0 for pairs that contain a
    slot."""
    return np.pad(pairs, ((0, 0), (SLOTS, 0), (SLOTS, 0)))


def linked_nodes(batch: SceneBatch, connectivity: Connectivity) -> Bools:
    """The adjacency matrices (B, 7 + R, 7 + R) of the graphs, with the same edges as in `observations.graph`."""
    present = batch.nodes
    both = present[:, :, None] & present[:, None]
    if connectivity == "full":
        return both & ~np.eye(present.shape[1], dtype=bool)
    available = np.arange(present.shape[1]) < SLOTS
    block = np.pad(np.isin(batch.role, (Role.BLOCK, Role.FLOOR)), ((0, 0), (SLOTS, 0)))
    one_way = (available[:, None] & ~available) | ((~available & ~block)[:, :, None] & block[:, None])
    touching = (_between_nodes(batch.touch) > 0) & block[:, :, None] & block[:, None]
    if connectivity == "sparse-both":
        one_way = one_way | one_way.swapaxes(1, 2)
    return (one_way | touching) & both


_SLOT_ROWS = np.zeros((SLOTS, FEATURES), np.float32)
_SLOT_ROWS[:, 0], _SLOT_ROWS[:, 1], _SLOT_ROWS[:, 2], _SLOT_ROWS[:, 4], _SLOT_ROWS[:, 5] = SLOT_X, SLOT_Y, 1.0, SLOT_WIDTHS, BLOCK_HEIGHT
_SLOT_ROWS[:, FEATURES - len(Role) + int(Role.AVAILABLE)] = 1.0
