"""Brings cards of weights up to date: those of format 1 did not hold the checksum of their weights.

python benchmarks/upgrade_cards.py trilith/zoo/fast/*.safetensors runs/*/best.safetensors
"""

from __future__ import annotations

from pathlib import Path

import tyro
from tyro.conf import Positional

from trilith.agents.card import FORMAT, load_policy
from trilith.support.files import read_json, write_json
from trilith.support.tensors import read_header


def main(weights: Positional[tuple[Path, ...]]) -> None:
    """Rewrites the card of each of these weights, and loads them by it."""
    for path in weights:
        where = path.with_suffix(".json")
        card = read_json(where)
        if card["format"] == 1:
            new = {}
            for name, value in card.items():
                new[name] = FORMAT if name == "format" else value
                if name == "physics":
                    new["weights"] = read_header(path).checksum
            write_json(where, new)
        load_policy(path)
        print(f"{where}: format {FORMAT}{'' if card['format'] == 1 else ' already'}")


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
