// Watching: an agent, or a recorded episode, continues from the current moment, until it is paused or a person takes over.

export const RECORDED = "recorded"; // in the list of agents: continue the recorded episode

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class Watcher {
  constructor(app) {
    this.app = app;
    this.run = null; // token of the current loop; a loop ends when it finds another token here
    this.taken = false; // whether a person has taken over from an agent
    this.ahead = null; // the decision that is requested while the last block still falls
  }

  get playing() { return this.run !== null; }

  async play() {
    const { app } = this;
    if (this.playing) return undefined;
    if (this.finished()) {
      if (app.agent === RECORDED) app.jump(0);
      else if (app.episode.byHand) return app.say("Your tower stays. Restart or undo first, then the agent builds.");
      else app.replaceEpisode(app.episode.fresh());
    }
    await this.during({}, async (run) => {
      while (this.run === run && !this.finished()) await this.advance(run);
    });
    return undefined;
  }

  /** Runs a function as the current run, then pauses. An error is shown last, so that no other message replaces it. */
  async during(run, work) {
    const { app } = this;
    app.giveUp();
    this.run = run;
    this.taken = false;
    app.update();
    let failed = null;
    try {
      await work(run);
    } catch (error) {
      failed = error;
    }
    if (this.run !== run) return;
    this.pause();
    if (failed) app.fail(failed, () => (run.once ? this.step() : this.play()));
  }

  finished() {
    return this.app.agent === RECORDED ? !this.app.episode.canRedo : Boolean(this.app.episode.ended);
  }

  /** Makes one placement, unless the run was ended meanwhile. */
  async advance(run) {
    const { app } = this;
    if (app.think.on && app.agent !== RECORDED) { // first show the agent's ideas, long enough to be read, then its placement
      await app.think.refresh();
      await sleep(900 / app.speed);
      if (this.run !== run) return;
    }
    const { episode } = app;
    if (app.agent === RECORDED) {
      app.jump(episode.cursor + 1);
      await app.stage.show(app.panel, episode.now.frames, app.speed);
      if (this.run === run) await sleep(250 / app.speed);
      return;
    }
    const moment = await this.decision(run);
    if (this.run !== run || app.episode !== episode) return;
    moment.by = app.agent;
    episode.push(moment);
    if (this.playing && run.once !== true && !moment.state.ended) this.prefetch();
    await app.arrive(moment);
    if (this.run === run && !moment.state.ended) await sleep(250 / app.speed);
  }

  decision(run) {
    const { app } = this, { text } = app.episode.now;
    if (this.ahead?.text !== text || this.ahead.agent !== app.agent) this.prefetch();
    const { promise, stop } = this.ahead;
    this.ahead = null;
    return app.waitForAgent(promise, () => this.run === run, () => {
      this.run = null;
      stop.abort();
      return run.once ? this.step() : this.play();
    });
  }

  prefetch() {
    const { app } = this, { text } = app.episode.now, { agent } = app;
    this.abort();
    const stop = new AbortController();
    const promise = app.api.act(text, agent, app.episode.seed, app.episode.zero_on_hit, stop.signal);
    promise.catch(() => {}); // an awaiting caller gets the error; without one it is ignored
    this.ahead = { text, agent, promise, stop };
  }

  abort() {
    this.ahead?.stop.abort();
    this.ahead = null;
  }

  pause() {
    this.run = null;
    this.app.update();
  }

  async step() {
    if (this.playing) {
      this.pause();
      return;
    }
    if (this.finished()) return;
    await this.during({ once: true }, (run) => this.advance(run));
  }

  /** A person takes over. The agent's pending decision is dropped. */
  takeOver() {
    if (!this.playing) return;
    this.run = null;
    this.taken = true;
    this.abort();
    this.app.panel.settle();
    this.app.update();
  }

  toggleTaken() {
    if (this.taken) this.play();
    else this.takeOver();
  }
}
