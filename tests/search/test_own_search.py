"""A search algorithm of one's own is found by its name, solves a toy, and builds."""

from __future__ import annotations

import numpy as np
import own_search
import pytest
from search_toys import Table, Toy, Trap, starts

from trilith.agents.registry import load
from trilith.evaluation.play import play
from trilith.search.agent import SearchAgent
from trilith.search.config import SearchConfig, make_algorithm

CONFIG = SearchConfig(258, algorithm="own_search:BestFirst")
"""As many simulations as there are actions in a toy of three steps with six actions each."""


@pytest.mark.parametrize("seed", range(10))
def test_it_finds_the_best_action_of_a_toy_that_it_simulates_whole(seed: int) -> None:
    world, algorithm = Toy(seed), make_algorithm(CONFIG)
    [root] = algorithm.make_roots(world, [()])
    algorithm.search(world, world, [root], [np.random.default_rng(0)], CONFIG.budget)
    assert root.values == pytest.approx(world.best(()))
    assert algorithm.decide(root, np.random.default_rng(0)) == np.argmax(world.best(()))
    assert len(world.made) == 6 + 36 + 216


def test_it_gets_out_of_a_trap() -> None:
    world, algorithm = Trap(actions=3), make_algorithm(CONFIG)
    [root] = algorithm.make_roots(world, [()])
    algorithm.search(world, world, [root], [np.random.default_rng(0)], 12)
    assert algorithm.decide(root, np.random.default_rng(0)) == 2


def test_it_takes_the_options_that_it_has() -> None:
    assert make_algorithm(SearchConfig(algorithm="own_search:BestFirst", max_candidates=3, c=7.0)) == own_search.BestFirst(3)


def test_it_builds_and_keeps_its_tree() -> None:
    first, rngs = starts(4, "silhouette"), [np.random.default_rng(k) for k in range(4)]
    searching = load("legal", SearchConfig(40, algorithm="own_search:BestFirst"))
    rewards = [sum(end.total for _, end in play(agent, first, rngs)) for agent in (load("legal"), searching)]
    assert rewards[1] > rewards[0]
    ideas = SearchAgent(Table(), SearchConfig(40, algorithm="own_search:BestFirst")).ideas(first[0], rngs[0], 3)
    assert len(ideas) == 3


def test_what_is_no_algorithm_is_told_in_one_line() -> None:
    with pytest.raises(ValueError, match="there is no search algorithm 'first': choose rollout, halving, mcts, lookahead, or"):
        SearchConfig(algorithm="first")
    with pytest.raises(ValueError, match="there is no search algorithm 'own_search:WorstFirst': module"):
        make_algorithm(SearchConfig(algorithm="own_search:WorstFirst"))
    with pytest.raises(ValueError, match="own_search:back_up is not a search algorithm: derive it from"):
        make_algorithm(SearchConfig(algorithm="own_search:back_up"))
