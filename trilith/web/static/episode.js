// An episode on the page: all moments so far, and a cursor at the current one. Undo and redo only move the cursor. A new placement
// drops all moments after the cursor.

export class Episode {
  /** `origin` is {task, level, seed}, or null for an episode from a file, which no address can describe. */
  constructor(moments, origin, zero_on_hit = false, seed = origin?.seed) {
    this.moments = moments;
    this.cursor = moments.length - 1;
    this.origin = origin;
    this.zero_on_hit = zero_on_hit;
    this.seed = seed ?? 0; // also seeds the agents' random generators
    this.builder = ""; // the builder that a file names
  }

  get now() { return this.moments[this.cursor]; }
  get state() { return this.now.state; }
  get ended() { return this.state.ended; }
  get canUndo() { return this.cursor > 0; }
  get canRedo() { return this.cursor < this.moments.length - 1; }
  /** Whether a block was placed by hand, or by an unknown builder, as in some links. */
  get byHand() { return this.moments.slice(1).some(({ by }) => by === "you" || by === undefined); }
  get placements() { return this.moments.slice(1, this.cursor + 1).map(({ placement }) => placement); }

  push(moment) {
    this.moments.length = this.cursor + 1;
    this.moments.push(moment);
    this.cursor += 1;
  }

  jump(index) {
    this.cursor = Math.min(Math.max(index, 0), this.moments.length - 1);
  }

  /** A new episode in the same scene, from its first state. */
  fresh() {
    return new Episode([this.moments[0]], this.origin, this.zero_on_hit, this.seed);
  }

  /** The JSON of a recording up to the cursor, for `Recording.from_json`. The start is the server's own text, see api.js. */
  recording(physics, by = "") {
    const { placements, zero_on_hit, seed } = this;
    return `{"start":${this.moments[0].text},"placements":${JSON.stringify(placements)},"zero_on_hit":${zero_on_hit},"physics":${physics},"seed":${seed},"by":${JSON.stringify(by)}}`;
  }
}
