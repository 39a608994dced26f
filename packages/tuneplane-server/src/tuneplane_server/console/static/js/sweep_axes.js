/** The axes of a sweep's picture: where a trial's value lies on each, from 0 (below) to 1 (above). */

/** `[{name, at(trial) -> place or null, ticks: [{text, place}], log}]`: the parameters, then the objective. */
export function axesOf(sweep) {
  const axes = Object.entries(sweep.params).map(([name, axis]) => ({
    name,
    ...scale(sweep.trials.map((trial) => trial.params[name]), axis.log === true),
    value: (trial) => trial.params[name],
  }));
  if (sweep.objective) {
    axes.push({
      name: sweep.objective.metric,
      ...scale(sweep.trials.map(measured).filter((value) => value !== null), false),
      value: measured,
    });
  }
  return axes.map((axis) => ({ ...axis, at: (trial) => axis.place(axis.value(trial)) }));
}

/** A trial's objective; null for none, and for what is no number. */
export function measured(trial) {
  return typeof trial.value === "number" ? trial.value : null;
}

function scale(values, log) {
  const numbers = values.map(asNumber);
  return numbers.length && numbers.every((number) => number !== null) ? numeric(numbers, log) : named(values);
}

function numeric(numbers, wantsLog) {
  const low = Math.min(...numbers);
  const high = Math.max(...numbers);
  const log = low > 0 && (wantsLog || high / low > 50);
  const turn = (number) => (log ? Math.log(number) : number);
  const span = turn(high) - turn(low);
  const place = (value) => {
    const number = asNumber(value);
    if (number === null) return null;
    return span > 0 ? (turn(number) - turn(low)) / span : 0.5;
  };
  const ends = span > 0 ? [low, high] : [low];
  return { log, place, ticks: ends.map((number) => ({ text: short(number), place: place(number) })) };
}

function named(values) {
  const texts = [...new Set(values.map(String))];
  const place = (value) => {
    const index = texts.indexOf(String(value));
    return index < 0 ? null : texts.length > 1 ? index / (texts.length - 1) : 0.5;
  };
  return { log: false, place, ticks: texts.map((text) => ({ text: cut(text), place: place(text) })) };
}

/** Numbers, and texts that are written as one: an environment variable is always a text. */
function asNumber(value) {
  if (typeof value === "number") return value;
  if (typeof value !== "string" || value.trim() === "" || !Number.isFinite(Number(value))) return null;
  return Number(value);
}

function short(number) {
  return String(Number(number.toPrecision(4)));
}

function cut(text) {
  return text.length > 14 ? `${text.slice(0, 13)}…` : text;
}
