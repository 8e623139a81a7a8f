"""The curve of the Stable-Baselines3 example: `python docs/sb3_curve.py FOLDER` draws docs/images/sb3.png from the files that
`python examples/sb3_maskable_ppo.py` wrote there, one a seed."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from trilith.evaluation.runner import evaluate


def main(folder: Path) -> None:
    """Writes the picture."""
    files = sorted(folder.glob("sb3_maskable_ppo_*.csv"))
    if not files:
        raise SystemExit(f"there are no files sb3_maskable_ppo_*.csv in {folder}")
    chance = evaluate("legal", "connecting", level=2, scenes=1000)["reward"]
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for file in files:
        steps, reward = np.loadtxt(file, delimiter=",", skiprows=1, unpack=True)
        axes.plot(steps, reward, label=f"maskable PPO, seed {file.stem.rpartition('_')[2]}")
    axes.axhline(3, color="black", linewidth=0.8, label="all there is to earn")
    axes.axhline(chance, color="grey", linestyle="--", label=f"any legal placement: {chance:.2f}")
    axes.set(xlabel="steps", ylabel="mean reward of 200 episodes", title="Connecting, level 2", ylim=(0, 3.1))
    axes.legend(fontsize="small", loc="center right")
    out = Path(__file__).parent / "images" / "sb3.png"
    figure.savefig(out, dpi=150)
    print(out)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
