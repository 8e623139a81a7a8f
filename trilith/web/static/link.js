// The address holds task, level, seed and placements, so that a link shows what is seen. It is all behind the #, which no
// browser sends to a server. Numbers are written in full: the same placements give the same bytes.

/** What comes after the # for an episode; empty if it came from a file. */
export function encode(episode) {
  if (!episode.origin) return "";
  const { task, level, seed } = episode.origin;
  const parts = [`task=${task}`, `level=${level}`, `seed=${seed}`];
  if (episode.cursor) {
    parts.push(`build=${episode.placements.map((p) => (p ? `${p[0]},${p[1]},${p[2]}${p[3] ? ",s" : ""}` : "x")).join(";")}`);
  }
  return parts.join("&");
}

/** {task, level, seed, placements} of an address, with null for what it does not say or says wrongly. */
export function decode(hash) {
  const values = new Map(hash.replace(/^#/, "").split("&").map((part) => part.split("=", 2)).filter((pair) => pair.length === 2));
  const number = (text) => (text !== undefined && /^\d{1,10}$/.test(text) ? Number(text) : null);
  const placements = [];
  for (const text of (values.get("build") ?? "").split(";").filter(Boolean)) {
    const [slot, x, y, sticky] = text.split(",");
    const one = text === "x" ? null : [Number(slot), Number(x), Number(y), sticky === "s"];
    if (one && (x === undefined || y === undefined || !one.slice(0, 3).every(Number.isFinite))) {
      throw new Error(`The address has a placement that cannot be read: ${text.slice(0, 40)}`);
    }
    placements.push(one);
  }
  const level = values.get("level");
  return {
    task: values.get("task") ?? null,
    level: number(level) ?? level ?? null,
    seed: number(values.get("seed")),
    placements,
  };
}
