"""The world as a value: scenes, physics, tasks, actions, observations and the rules of an episode. It needs no learning framework."""
