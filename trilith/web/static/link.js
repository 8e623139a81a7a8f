// The address describes the page: the scene (task, level, seed), its steps and who made them, and the view.
// All of it is behind the #, which browsers do not send to a server. Numbers are exact, so the same placements give the same bytes.

const SCENE = ["task", "level", "seed", "build", "by"];
const VIEW = ["agent", "rival", "speed", "show", "hide", "block", "guide"];

/** The part of an address for the scene and its steps; empty for an episode from a file. */
export function encode(episode, cursor = episode.cursor) {
  if (!episode.origin) return "";
  const { task, level, seed } = episode.origin, steps = episode.moments.slice(1, cursor + 1);
  const parts = [`task=${task}`, `level=${level}`, `seed=${seed}`];
  if (steps.length) {
    parts.push(`build=${steps.map(({ placement: p }) => (p ? `${p[0]},${p[1]},${p[2]}${p[3] ? ",s" : ""}` : "x")).join(";")}`);
    if (steps.some(({ by }) => by)) parts.push(`by=${steps.map(({ by }) => encodeURIComponent(by ?? "")).join(";")}`);
  }
  return parts.join("&");
}

/** The part of an address for the view, with an & before each field. Empty fields are left out. */
export function encodeView(view) {
  return VIEW.filter((name) => view[name]).map((name) => `&${name}=${encodeURIComponent(view[name])}`).join("");
}

/** The part of an address that `encode` wrote. */
export const sceneOf = (hash) => hash.split("&").filter((part) => SCENE.includes(part.split("=", 1)[0])).join("&");

const number = (text) => (text !== undefined && /^\d{1,10}$/.test(text) ? Number(text) : null);

function placement(text) {
  if (text === "x") return null;
  const [slot, x, y, sticky] = text.split(","), one = [Number(slot), Number(x), Number(y), sticky === "s"];
  if (x === undefined || y === undefined || !one.slice(0, 3).every(Number.isFinite)) {
    throw new Error(`The link has a placement that cannot be read: ${text.slice(0, 40)}`);
  }
  return one;
}

/**
 * {task, level, seed, placements, by, view} of an address, with null for missing parts. Throws an error that names the part that
 * cannot be read.
 */
export function decode(hash) {
  const values = new Map();
  for (const part of hash.replace(/^#/, "").split("&").filter(Boolean)) {
    const [name, value] = part.split("=", 2);
    try {
      if (![...SCENE, ...VIEW].includes(name) || !value) throw new URIError();
      values.set(name, name === "by" ? value.split(";").map(decodeURIComponent) : decodeURIComponent(value));
    } catch {
      throw new Error(`The link has a part that cannot be read: ${part.slice(0, 40)}`);
    }
  }
  const level = values.get("level"), seed = values.get("seed");
  if (seed !== undefined && !(number(seed) <= 4294967295 && number(seed) !== null)) {
    throw new Error(`The link's seed must be a whole number from 0 to 4294967295, not ${seed.slice(0, 40)}`);
  }
  return {
    task: values.get("task") ?? null,
    level: number(level) ?? level ?? null,
    seed: number(seed),
    placements: (values.get("build") ?? "").split(";").filter(Boolean).map(placement),
    by: values.get("by") ?? [],
    view: Object.fromEntries(VIEW.map((name) => [name, values.get(name) ?? null])),
  };
}
