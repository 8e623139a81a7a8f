"""Q-values by the paper's graph network over segmented images (§C.2): CNN-GN-DQN sees nothing of an object except its pixels."""

from __future__ import annotations

from dataclasses import replace

from trilith.networks.config import Mask, NetConfig
from trilith.networks.inference.pixels import PIXEL_FEATURES
from trilith.networks.inputs.scene_batch import ReplaySchema, SceneBatch
from trilith.networks.layers.object_cnn import ObjectCNN
from trilith.networks.q.base import DEFAULT
from trilith.networks.q.graph import GraphNet, Packed


class PixelGraphNet(GraphNet):
    """The graph network with 32 features per node, which a small CNN computes from each object's segmented image.

    Other inputs: the number of objects (as nodes), and which objects touch and are glued (on the edges). The mask `edges` reveals
    which nodes are available blocks. The mask `legal` reveals more: where blocks fit, and so where solid objects are.
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
