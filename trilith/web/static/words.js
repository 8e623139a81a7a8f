// Names of things, and the reasons why an episode ended, in words.

export const REASONS = {
  complete: { short: "complete", long: "Complete: everything there was to do is done.", tone: "good" },
  max_steps: { short: "no steps left", long: "The end: no steps or blocks are left.", tone: "" },
  obstacle_hit: { short: "obstacle hit", long: "The end: a block touched an obstacle.", tone: "bad" },
  spawn_collision: { short: "spawn collision", long: "The end: the new block overlapped something.", tone: "bad" },
  bad_choice: { short: "bad choice", long: "The end: that block was used up.", tone: "bad" },
  invalid_edge: { short: "invalid edge", long: "The end: the agent chose an edge that is no placement.", tone: "bad" },
  stopped: { short: "stopped", long: "The end: the builder stopped. It saw nothing more to gain.", tone: "" },
  bad_simulation: { short: "bad simulation", long: "The end: the simulation failed.", tone: "bad" },
};

/** The words for the reason `name`; made from the name itself if `REASONS` lacks it. */
export const reason = (name) => REASONS[name] ?? { short: name.replaceAll("_", " "), long: `The end: ${name.replaceAll("_", " ")}.`, tone: "" };

/** A number with this many decimals, never −0. */
export const fixed = (value, digits = 2) => value.toFixed(digits).replace(/^-(0\.?0*)$/, "$1");

/** Whether to mention keys. A device without a mouse rarely has a keyboard. */
export const KEYS = matchMedia("(hover: hover) and (pointer: fine)").matches;

/** The note in place of ideas or values while two agents are compared. */
export const COMPARED = "Two agents are compared: close that to see this of one.";

const KINDS = { 0.7: "small", 2.1: "medium", 3.5: "large" };

/** The name of a block by its width. */
export const kind = (width) => KINDS[width] ?? "block";

const WORDS = {
  nine_targets: "nine targets", double_the_targets: "double the targets",
  mixed_height_targets: "mixed heights", additional_layer: "additional layer",
};

export const levelName = (level) => WORDS[level] ?? String(level);
