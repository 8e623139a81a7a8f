// Building by hand: a block of the supply is dragged, or picked by its number and moved with the arrow keys, then released.

import { clamp, eased, inside, landing, objection, snapped } from "./geometry.js";
import { describe, tell } from "./tip.js";
import { fixed } from "./words.js";

const NUDGE = 0.35, FINE = 0.05; // metres that an arrow key moves a block
const RESTING = 0.001; // metres above the floor, for a block that is dragged into the floor
const TAP = 6; // pixels: a pointer that moves less makes a tap, not a drag
const REACH = 22; // pixels: a finger picks a block within this distance
const FINGER = 46; // pixels between a finger and the block above it, which the finger would hide
const round = (value) => Math.round(value * 1000) / 1000; // millimetres keep links short

export class Builder {
  constructor(app) {
    this.app = app;
    this.ghost = null;
    this.hover = null;
    const { canvas } = app.stage;
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.release(event));
    canvas.addEventListener("pointercancel", () => this.cancel());
    canvas.addEventListener("pointerleave", ({ pointerType }) => { // the tooltip of a tapped object stays when the finger is lifted
      if (pointerType === "mouse") this.look(null);
    });
    // A finger that takes a block must not scroll the page; anywhere else on the canvas it still does.
    canvas.addEventListener("touchstart", (event) => {
      if (this.slotAt(event.touches[0]) !== null) event.preventDefault();
    }, { passive: false });
  }

  get view() { return this.app.stage.layout()[0]; }

  world({ clientX, clientY }) {
    const box = this.app.stage.canvas.getBoundingClientRect();
    return this.view.world(clientX - box.left, clientY - box.top);
  }

  /** The row of the topmost object under the pointer, null if there is none. */
  rowAt(event) {
    const { scene } = this.app.episode.state, [x, y] = this.world(event), order = scene.role.map((_, row) => row).reverse();
    const { roles } = this.app.about;
    order.sort((a, b) => (scene.role[a] === roles.target) - (scene.role[b] === roles.target));
    return order.find((row) => inside(x, y, scene.pose[row], scene.size[row])) ?? null;
  }

  /** The available block under the pointer. For a finger, which is less exact, the nearest block within its reach. */
  slotAt(event) {
    if (!this.app.canBuild) return null;
    const { pose, size, role } = this.app.episode.state.scene, [x, y] = this.world(event);
    const reach = event.pointerType === "mouse" ? 0 : REACH / this.view.scale; // touch events have no pointer type
    const away = (slot) => Math.hypot(...[x, y].map((at, axis) => Math.max(Math.abs(at - pose[slot][axis]) - size[slot][axis] / 2, 0)));
    const near = Array.from({ length: this.app.about.slots }, (_, slot) => slot)
      .filter((slot) => role[slot] === this.app.about.roles.available && away(slot) <= reach);
    return near.sort((a, b) => away(a) - away(b))[0] ?? null;
  }

  press(event) {
    const slot = event.button === 0 ? this.slotAt(event) : null;
    if (this.app.episode.ended && !this.app.compare.active) this.app.say("The episode has ended: undo a step, or restart.");
    if (slot === null) {
      if (event.pointerType !== "mouse") this.point(event);
      return;
    }
    this.app.watch.takeOver();
    this.look(null);
    const [x, y] = this.world(event), [bx, by] = this.app.episode.state.scene.pose[slot];
    const lift = event.pointerType === "touch" ? FINGER / this.view.scale : 0;
    this.grip = [bx - x, by - y + lift];
    this.pressed = [event.clientX, event.clientY];
    this.pointer = event.pointerId;
    this.app.stage.canvas.setPointerCapture(event.pointerId);
    this.app.stage.canvas.classList.add("pointed");
    this.app.stage.canvas.focus({ preventScroll: true });
    this.take(slot, bx, by + lift);
  }

  move(event) {
    if (this.ghost && event.pointerId === this.pointer) {
      const [x, y] = this.world(event);
      if (Math.hypot(event.clientX - this.pressed[0], event.clientY - this.pressed[1]) > TAP) this.pressed = [Infinity, 0]; // this is a drag
      this.moveTo(x + this.grip[0], y + this.grip[1]);
    } else if (!this.ghost && event.pointerType === "mouse") {
      this.point(event);
      this.app.stage.canvas.classList.toggle("grab", this.slotAt(event) !== null);
    }
  }

  /** Shows the tooltip of the object under the pointer or, without one, of the nearest position of the value map. */
  point(event) {
    const row = this.app.compare.active ? null : this.rowAt(event), value = row === null ? this.app.values.at(...this.world(event)) : null;
    this.look(row, event);
    if (value !== null) tell(value, event);
  }

  release(event) {
    if (!this.ghost || event.pointerId !== this.pointer) return;
    this.pointer = null;
    if (this.pressed[0] === Infinity) this.drop();
    else this.cancel(); // a tap releases nothing, although a finger lifts the block into the scene
  }

  take(slot, x, y) {
    this.app.giveUp();
    this.ghost = { slot, sticky: this.app.sticky };
    this.app.values.choose(slot);
    this.moveTo(x, y);
  }

  /**
   * Moves the ghost to (x, y), where the pointer or the keys hold it. The ghost is clipped to where blocks may be, snapped if wanted, and
   * eased. More than 1 m below the floor, it follows freely and counts as back in the supply (`home`).
   */
  moveTo(x, y) {
    const { app, ghost } = this, { about } = app, { state } = app.episode;
    y = Math.min(y, this.view.world(0, this.view.top)[1] - state.scene.size[ghost.slot][1] / 2);
    [ghost.rawX, ghost.rawY] = [x, y];
    ghost.home = y < -1;
    const floor = state.scene.size[ghost.slot][1] / 2 + RESTING;
    let place = [round(clamp(x, about.place_x)), round(Math.max(clamp(y, about.place_y), floor))];
    if (app.snap && !ghost.home) place = app.guide.near(ghost.slot, ...place) ?? snapped(about, state, ghost.slot, ...place);
    if (!ghost.home) place = eased(about, state, ghost.slot, ...place, app.sticky);
    [ghost.x, ghost.y] = ghost.home ? [x, y] : place;
    ghost.objection = ghost.home ? null : objection(about, state, ghost.slot, ghost.x, ghost.y);
    const below = ghost.home ? { top: y, obstacle: false } : landing(about, state, ghost.slot, ghost.x, ghost.y);
    ghost.landing = below.top;
    ghost.warning = below.obstacle ? "It would fall onto an obstacle." : null;
    ghost.sticky = app.sticky;
    app.predictions.hold();
    app.stage.invalidate();
  }

  /** Releases the block. If it cannot be placed here, it returns to the supply and the reason is shown. */
  drop() {
    const { ghost, app } = this;
    this.cancel();
    if (!ghost || ghost.home) return;
    if (ghost.objection) {
      app.say(`Not there. ${ghost.objection}`, "bad");
      return;
    }
    app.place([ghost.slot, ghost.x, ghost.y, app.sticky]);
  }

  cancel() {
    this.ghost = null;
    this.pointer = null;
    if (this.app.panel) this.app.predictions.refresh();
    this.app.stage.invalidate();
  }

  /** Handles a key for the block in the hand. Returns whether the key had an effect. */
  key(event) {
    const { app } = this, slot = Number(event.key) - 1;
    if (slot >= 0 && slot < app.about.slots && app.canBuild) {
      if (app.episode.state.scene.role[slot] !== app.about.roles.available) {
        app.say("This block is used up.", "bad");
        return true;
      }
      app.watch.takeOver();
      const { scene } = app.episode.state, { roles } = app.about;
      const top = Math.max(0, ...scene.pose.filter((_, row) => scene.role[row] === roles.block || scene.role[row] === roles.obstacle).map(([, y]) => y));
      this.take(slot, this.ghost?.rawX ?? 0, this.ghost?.rawY ?? top + 1.4);
      app.stage.canvas.classList.remove("pointed");
      app.stage.canvas.focus({ preventScroll: true });
      app.say("Arrows move the block, Enter lets it fall, Escape puts it back.");
      return true;
    }
    if (!this.ghost) {
      if (event.key !== "Escape" || !app.pending) return false;
      app.giveUp();
      return true;
    }
    const far = event.shiftKey ? FINE : NUDGE;
    const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key] ?? [0, 0];
    if (dx || dy) {
      const { about } = app;
      this.moveTo(clamp(this.ghost.rawX + dx * far, about.place_x), clamp(this.ghost.rawY + dy * far, about.place_y));
      if (this.ghost.objection) app.say(this.ghost.objection, "bad");
      else if (this.ghost.warning) app.say(this.ghost.warning, "bad");
      else app.say(`At ${fixed(this.ghost.x)}, ${fixed(this.ghost.y)}.`);
    } else if (event.key === "Enter") this.drop();
    else if (event.key === "Escape") this.cancel();
    else return false;
    return true;
  }

  /** Shows the features of an object beside the pointer, or beside the object if there is none. */
  look(row, event = null) {
    const changed = row !== this.hover;
    this.hover = row;
    describe(this.app, row, event);
    if (changed) this.app.stage.invalidate();
  }
}
