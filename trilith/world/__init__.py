"""The simulated world as immutable snapshots: scenes, physics, tasks, actions, observations and the rules of an episode. It needs no
learning framework."""
