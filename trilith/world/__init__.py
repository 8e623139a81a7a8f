"""The world as a value: scenes, physics, tasks, actions, observations and the rules of an episode. numpy and Box2D only."""
