"""The paper's graph network, written to be read: dense, padded, every edge through every layer. Slow on purpose.

    e = E(o)                       o_0 = o'_0 = e
    o_n = G([o, o_{n-1}, o'_{n-1}])
    o'_n = GRU(o_n, hidden o'_{n-1})
    q = M([D(edge), D(globals)])

Names and shapes of the parameters are those of `trilith.networks.q.graph.GraphNet`, so that weights can be copied between the two.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from trilith.networks.layers.graph import MLP
from trilith.networks.q.graph import Decoder
from trilith.world.observations.graph import Connectivity, graph
from trilith.world.scene import SLOTS, Scene


class PlainGraphNet(nn.Module):
    def __init__(
        self, outputs: int, width: int = 64, recurrent: int = 3, connectivity: Connectivity = "full", relative: bool = True
    ) -> None:
        super().__init__()
        self.outputs, self.recurrent, self.connectivity, self.relative = outputs, recurrent, connectivity, relative
        edge, node, glob = 2 + 2 * width, 15 + 2 * width, 1 + 2 * width
        self.encode_edge, self.encode_node, self.encode_global = MLP(2, width), MLP(15, width), MLP(1, width)
        self.core_edge = MLP(edge + 2 * node + glob, width)
        self.core_node = MLP(width + node + glob, width)
        self.core_global = MLP(2 * width + glob, width)
        self.gru_edge, self.gru_node, self.gru_global = nn.GRUCell(width, width), nn.GRUCell(width, width), nn.GRUCell(width, width)
        self.decode_global = MLP(width, width)
        if relative:
            self.decode_edge = MLP(width, width)
            self.value = Decoder(2 * width, width, outputs)
        else:
            self.value = Decoder(width, width, SLOTS * outputs)

    def forward(self, nodes: Tensor, edges: Tensor, present: Tensor, linked: Tensor) -> Tensor:
        """Values (B, N, N, outputs) on edges from row i to row j, or (B, 7, outputs) with absolute actions.

        From nodes (B, N, 15), edges (B, N, N, 2), and where there is a node (B, N) and an edge (B, N, N).
        """
        b, n = present.shape
        globals_ = torch.zeros(b, 1)
        there, on = present[..., None].float(), linked[..., None].float()
        e, v, u = self.encode_edge(edges), self.encode_node(nodes), self.encode_global(globals_)
        e_hidden, v_hidden, u_hidden = e, v, u
        for _ in range(self.recurrent):
            e_in = torch.cat([edges, e, e_hidden], dim=-1)
            v_in = torch.cat([nodes, v, v_hidden], dim=-1)
            u_in = torch.cat([globals_, u, u_hidden], dim=-1)
            sender = v_in[:, :, None].expand(-1, -1, n, -1)
            receiver = v_in[:, None].expand(-1, n, -1, -1)
            e = self.core_edge(torch.cat([e_in, sender, receiver, u_in[:, None, None].expand(-1, n, n, -1)], dim=-1))
            arrived = (e * on).sum(dim=1)
            v = self.core_node(torch.cat([arrived, v_in, u_in[:, None].expand(-1, n, -1)], dim=-1))
            mean_e = (e * on).sum(dim=(1, 2)) / on.sum(dim=(1, 2))
            mean_v = (v * there).sum(dim=1) / there.sum(dim=1)
            u = self.core_global(torch.cat([mean_e, mean_v, u_in], dim=-1))
            e_hidden = self.gru_edge(e.flatten(0, 2), e_hidden.flatten(0, 2)).view_as(e)
            v_hidden = self.gru_node(v.flatten(0, 1), v_hidden.flatten(0, 1)).view_as(v)
            u_hidden = self.gru_global(u, u_hidden)
        d_globals = self.decode_global(u_hidden)
        if not self.relative:
            return self.value(d_globals).view(b, SLOTS, self.outputs)
        d_edges = self.decode_edge(e_hidden)
        return self.value(torch.cat([d_edges, d_globals[:, None, None].expand(-1, n, n, -1)], dim=-1))


def dense(scenes: Sequence[Scene], connectivity: Connectivity = "full") -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Nodes, edges, and where there are any, of scenes padded to the largest."""
    b, n = len(scenes), max(len(scene) for scene in scenes)
    nodes, edges = np.zeros((b, n, 15), np.float32), np.zeros((b, n, n, 2), np.float32)
    present, linked = np.zeros((b, n), bool), np.zeros((b, n, n), bool)
    for i, scene in enumerate(scenes):
        g = graph(scene, connectivity)
        nodes[i, : len(scene)], present[i, : len(scene)] = g.nodes, True
        edges[i, g.senders, g.receivers] = g.edges
        linked[i, g.senders, g.receivers] = True
    return tuple(torch.from_numpy(a) for a in (nodes, edges, present, linked))
