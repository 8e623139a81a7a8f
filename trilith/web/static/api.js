// The server's API. The server keeps no state, so every request contains the state, as the same text that the server sent.
// JSON.stringify would write -0 as 0, and the next state would differ from the one that the rules give elsewhere.

export class ApiError extends Error {
  /** `again`: whether the same request may succeed a little later. */
  constructor(line, again) {
    super(line);
    this.again = again;
  }
}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server does not answer. Is it still running?", true);
  }
  if (response.ok) return response;
  let line = `The server answered ${response.status}.`;
  try {
    line = (await response.json()).error ?? line;
  } catch { /* not from our server: the number has to do */ }
  throw new ApiError(line, response.status >= 500);
}

const post = (name, data, signal) =>
  ask(`/api/${name}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(data), signal });

/** The moment of an answer. It has the state as text, to send back, and parsed, to draw. */
const read = (moment) => ({ ...moment, text: moment.state, state: JSON.parse(moment.state) });

export const api = {
  about: async () => (await ask("/api/about")).json(),
  opened: async () => (await (await ask("/api/opened")).json()).recordings,
  start: async (task, level, seed, placements, signal) =>
    (await (await post("start", { task, level, seed, placements }, signal)).json()).moments.map(read),
  step: async (state, placement, zero_on_hit, signal) => read(await (await post("step", { state, placement, zero_on_hit }, signal)).json()),
  act: async (state, agent, seed, zero_on_hit, signal) => read(await (await post("act", { state, agent, seed, zero_on_hit }, signal)).json()),
  ideas: async (state, agent, seed, count, signal) => (await post("ideas", { state, agent, seed, count }, signal)).json(),
  values: async (state, agent, seed, slot, signal) => (await (await post("values", { state, agent, seed, slot }, signal)).json()).places,
  predict: async (state, placement, zero_on_hit, signal) => (await post("predict", { state, placement, zero_on_hit }, signal)).json(),
  replay: async (recording) => (await (await post("replay", { recording })).json()).moments.map(read),
  open: async (text) => (await (await post("open", { text })).json()).recordings,
  film: async (recording, by) => (await post("film", { recording, by })).blob(),
};
