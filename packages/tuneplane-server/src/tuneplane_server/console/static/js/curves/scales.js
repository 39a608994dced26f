/** Ranges and ticks of the axes of a chart. */

import { clock, duration, number, timeOfDay } from "../format.js";

export function widen(min, max) {
  if (min === null || max === null) return [0, 1];
  return min === max ? [min - 1, max + 1] : [min, max];
}

export function linearRange(min, max) {
  if (min === null || max === null) return [0, 1];
  if (min === max) return [min - (Math.abs(min) * 0.1 || 1), max + (Math.abs(max) * 0.1 || 1)];
  const room = (max - min) * 0.06;
  return [min - room, max + room];
}

export function logRange(min, max) {
  if (min === null || max === null || min <= 0) return [0.1, 10];
  return min === max ? [min / 2, max * 2] : [min * 0.9, max * 1.1];
}

/** Powers of ten; with 2 and 5 between them where there are few, and the plain range where there is less than that. */
export function logTicks(min, max) {
  const low = Math.floor(Math.log10(min));
  const high = Math.ceil(Math.log10(max));
  const every = Math.max(1, Math.ceil((high - low) / 6));
  const steps = high - low <= 3 ? [1, 2, 5] : [1];
  const ticks = [];
  for (let power = low; power <= high; power += every) {
    for (const step of steps) ticks.push(step * 10 ** power);
  }
  const inside = ticks.filter((tick) => tick >= min && tick <= max);
  return inside.length >= 2 ? inside : [min, Math.sqrt(min * max), max].map((tick) => Number(tick.toPrecision(2)));
}

export function plainTicks(_plot, ticks) {
  return ticks.map((tick) => number(Number(tick.toPrecision(6))));
}

/** How the ticks of the horizontal axis read. */
export function ticksOf(axis) {
  return { time: timeTicks, relative: spanTicks, tokens: countTicks, epoch: plainTicks, step: countTicks }[axis];
}

function timeTicks(_plot, ticks) {
  const spread = (ticks.at(-1) ?? 0) - (ticks[0] ?? 0);
  return ticks.map((tick) => {
    if (spread < 10) return timeOfDay(new Date(tick * 1000)).slice(0, 10);
    const text = clock(new Date(tick * 1000));
    return spread > 2 * 86400 ? text.slice(5, 10) : spread > 600 ? text.slice(11, 16) : text.slice(11);
  });
}

function spanTicks(_plot, ticks) {
  return ticks.map((tick) => (tick < 0 ? `−${duration(-tick)}` : duration(tick)));
}

/** 20k, 1.5M: steps and tokens grow long. */
function countTicks(_plot, ticks) {
  return ticks.map((tick) => shortCount(tick));
}

export function shortCount(value) {
  for (const [unit, letter] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (Math.abs(value) >= unit) return `${Number((value / (letter === "k" ? 1e3 : unit)).toPrecision(4))}${letter}`;
  }
  return String(Number(value.toPrecision(6)));
}
