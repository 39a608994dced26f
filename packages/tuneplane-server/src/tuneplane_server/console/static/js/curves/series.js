/**
 * The points of one metric of one job: attempts spliced, numbers that are none set apart, smoothing.
 *
 * A resumed attempt begins again at its checkpoint's step. The curve follows the newest attempt from there on; what the
 * older one reported beyond that step stays visible as "replaced".
 */

import { toNumber } from "../format.js";

/**
 * Columns of one attempt, all of one length; `epoch` and `tokens` may be missing. Values keep NaN and infinities. `count`: of
 * all points that are stored, of which the columns may be the thinned form. `fine`: a stretch read again, closer.
 */
export class Attempt {
  constructor(raw) {
    this.attempt = raw.attempt;
    this.step = [...raw.step];
    this.time = [...raw.time];
    this.value = raw.value.map(toNumber);
    this.epoch = raw.epoch ? raw.epoch.map(toNumber) : null;
    this.tokens = raw.x ? raw.x.map((x) => (x === null ? NaN : toNumber(x))) : null;
    this.count = raw.count ?? raw.step.length;
    this.fine = null;
  }

  /** Add points that came later. A step reported twice keeps the later value. */
  append(raw) {
    for (let i = 0; i < raw.step.length; i++) {
      const last = this.step.at(-1);
      if (last !== undefined && raw.step[i] < last) continue; // an echo of what is here already
      const at = raw.step[i] === last ? this.step.length - 1 : this.step.length;
      if (at === this.step.length) this.count += 1;
      this.step[at] = raw.step[i];
      this.time[at] = raw.time[i];
      this.value[at] = toNumber(raw.value[i]);
      if (this.epoch) this.epoch[at] = raw.epoch ? toNumber(raw.epoch[i]) : NaN;
      if (this.tokens) this.tokens[at] = NaN; // known when the curve is read again
    }
  }

  /** Whether points were left out between the steps `first` and `last`. */
  isThinned(first, last) {
    if (this.count <= this.step.length) return false;
    return this.step.some((step) => step >= first && step <= last) || this.step[0] < first;
  }

  /** The columns with the closer look in the place of what it shows. */
  get shown() {
    const { fine } = this;
    if (!fine || fine.step.length === 0) return this;
    const [from, to] = [fine.step[0], fine.step.at(-1)];
    const before = this.step.findIndex((step) => step >= from);
    const after = this.step.findIndex((step) => step > to);
    const head = before === -1 ? this.step.length : before;
    const tail = after === -1 ? this.step.length : after;
    const join = (name) => (this[name] && fine[name] ? [...this[name].slice(0, head), ...fine[name], ...this[name].slice(tail)] : this[name] && null);
    return { step: join("step"), time: join("time"), value: join("value"), epoch: join("epoch"), tokens: join("tokens") };
  }
}

/** A metric: its attempts in order. */
export class Series {
  constructor(name) {
    this.name = name;
    this.attempts = [];
  }

  replace(list) {
    this.attempts = list.map((raw) => new Attempt(raw)).sort((a, b) => a.attempt - b.attempt);
  }

  append(list) {
    for (const raw of list) {
      const known = this.attempts.find((one) => one.attempt === raw.attempt);
      if (known) known.append(raw);
      else this.attempts.push(new Attempt(raw));
    }
    this.attempts.sort((a, b) => a.attempt - b.attempt);
  }

  /** Points of one stretch, closer; an empty list forgets them. */
  refine(list) {
    for (const one of this.attempts) {
      const raw = list.find((found) => found.attempt === one.attempt);
      one.fine = raw ? new Attempt(raw) : null;
    }
  }

  /** First and last step of the points whose place on `axis` lies within `range`, with a neighbour each; null without any. */
  stepsWithin(range, axis, start) {
    let found = null;
    for (const one of this.attempts) {
      const xs = places(one, axis, start);
      for (let i = 0; i < xs.length; i++) {
        if (!(xs[i] >= range[0] && xs[i] <= range[1])) continue;
        const [low, high] = [one.step[Math.max(0, i - 1)], one.step[Math.min(xs.length - 1, i + 1)]];
        found = found ? [Math.min(found[0], low), Math.max(found[1], high)] : [low, high];
      }
    }
    return found;
  }

  isThinned([first, last]) {
    return this.attempts.some((one) => one.isThinned(first, last));
  }

  get size() {
    return this.attempts.reduce((sum, one) => sum + one.step.length, 0);
  }

  get count() {
    return this.attempts.reduce((sum, one) => sum + one.count, 0);
  }

  get hasEpoch() {
    return this.attempts.some((one) => one.epoch !== null);
  }

  /**
   * Columns for drawing over `axis` (step, time, relative, tokens, epoch): {x, kept, replaced, odd, marks, at}. `start`: Unix
   * seconds of zero on the axis `relative`.
   * `kept` and `replaced` hold undefined where the other has the point (lines pass), null where the value is no finite
   * number (lines break).
   * `odd`: points that are NaN or infinite. `marks`: [{x, attempt}] where a later attempt takes over.
   * `at`: index -> {x, attempt, step, time, value, replacedBy}, or {gap: true} where the line breaks between attempts.
   */
  columns(axis, start = 0) {
    const onClock = axis === "time" || axis === "relative";
    const points = [];
    const marks = [];
    this.attempts.forEach((one, index) => {
      const next = this.attempts[index + 1];
      const cut = next && next.step.length ? next.step[0] : Infinity;
      const shown = one.shown;
      const xs = places(shown, axis, start);
      if (index > 0 && xs.length) marks.push({ x: xs[0], attempt: one.attempt });
      // On a clock nothing was measured between two attempts: no line may suggest it.
      if (index > 0 && xs.length && onClock) points.push({ x: xs[0] - 0.001, attempt: one.attempt, gap: true, value: null, replacedBy: null });
      for (let i = 0; i < xs.length; i++) {
        if (!Number.isFinite(xs[i])) continue;
        points.push({
          x: xs[i], attempt: one.attempt, step: shown.step[i], time: shown.time[i], value: shown.value[i],
          replacedBy: shown.step[i] >= cut ? next.attempt : null,
        });
      }
    });
    points.sort((a, b) => a.x - b.x || a.attempt - b.attempt);
    const passing = onClock ? null : undefined; // on a clock, attempts follow one another
    const finite = (point) => (Number.isFinite(point.value) ? point.value : null);
    return {
      x: points.map((point) => point.x),
      kept: points.map((point) => (point.replacedBy === null ? finite(point) : passing)),
      replaced: points.map((point) => (point.replacedBy === null ? undefined : finite(point))),
      odd: points.filter((point) => !point.gap && !Number.isFinite(point.value)),
      marks,
      at: points,
    };
  }

  /** The newest finite-or-not value of the newest attempt. */
  get latest() {
    return this.attempts.at(-1)?.value.at(-1);
  }
}

function places(columns, axis, start) {
  if (axis === "relative") return columns.time.map((time) => time - start);
  return columns[axis] ?? [];
}

/**
 * Exponential moving average, corrected for its start (Kingma & Ba 2015, §3), so that the first points are not pulled
 * to zero. `weight` 0 … 0.99. What is no number stays what it is and does not count.
 */
export function smooth(values, weight) {
  let average = 0;
  let count = 0;
  return values.map((value) => {
    if (typeof value !== "number") return value;
    average = average * weight + (1 - weight) * value;
    count += 1;
    return average / (1 - weight ** count);
  });
}
