// The address holds task, level, seed and placements, so that a link shows what is seen. It is all behind the #, which no
// browser sends to a server. Numbers are written in full: the same placements give the same bytes.

const KNOWN = ["task", "level", "seed", "build"];

/** What comes after the # for an episode; empty if it came from a file. */
export function encode(episode, cursor = episode.cursor) {
  if (!episode.origin) return "";
  const { task, level, seed } = episode.origin;
  const parts = [`task=${task}`, `level=${level}`, `seed=${seed}`];
  if (cursor) {
    parts.push(`build=${episode.upTo(cursor).map((p) => (p ? `${p[0]},${p[1]},${p[2]}${p[3] ? ",s" : ""}` : "x")).join(";")}`);
  }
  return parts.join("&");
}

/**
 * {task, level, seed, placements} of an address, with null for what it does not say. Throws an error that says which part cannot
 * be read.
 */
export function decode(hash) {
  const values = new Map();
  for (const part of hash.replace(/^#/, "").split("&").filter(Boolean)) {
    const [name, value] = part.split("=", 2);
    if (!KNOWN.includes(name) || !value) throw new Error(`The link has a part that cannot be read: ${part.slice(0, 40)}`);
    values.set(name, value);
  }
  const number = (text) => (text !== undefined && /^\d{1,10}$/.test(text) ? Number(text) : null);
  const placements = [];
  for (const text of (values.get("build") ?? "").split(";").filter(Boolean)) {
    const [slot, x, y, sticky] = text.split(",");
    const one = text === "x" ? null : [Number(slot), Number(x), Number(y), sticky === "s"];
    if (one && (x === undefined || y === undefined || !one.slice(0, 3).every(Number.isFinite))) {
      throw new Error(`The link has a placement that cannot be read: ${text.slice(0, 40)}`);
    }
    placements.push(one);
  }
  const level = values.get("level"), seed = values.get("seed");
  if (seed !== undefined && !(number(seed) <= 4294967295 && number(seed) !== null)) {
    throw new Error(`The link's seed must be a whole number from 0 to 4294967295, not ${seed.slice(0, 40)}`);
  }
  return {
    task: values.get("task") ?? null,
    level: number(level) ?? level ?? null,
    seed: number(seed),
    placements,
  };
}
