"""The paper's CNN of one object on whole segmented images: slow, plain, and what windows are held against."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from trilith.networks.layers.object_cnn import ObjectCNN


def plain_features(net: ObjectCNN, images: np.ndarray) -> Tensor:
    """(N, 32) from segmented images (N, 64, 64, 6), with the weights of `net`."""
    x = torch.from_numpy(images).permute(0, 3, 1, 2)
    for layer in net.layers:
        x = F.max_pool2d(F.pad(layer(x), (0, 1, 0, 1), value=-torch.inf), 3, stride=2)
    return F.relu(net.out(F.relu(net.hidden(F.relu(x).flatten(1)))))
