/** Values as people read them. `console/display.py` says the same on the server. */

import { language, t } from "./i18n.js";

const SIZES = ["B", "kB", "MB", "GB", "TB", "PB"];

/** A metric's number from the API: JSON lacks NaN and infinities, so they travel as words. */
export function toNumber(value) {
  return typeof value === "number" ? value : Number(value);
}

/** Five significant digits; powers of ten outside 0.001 … 999,999. */
export function number(raw) {
  if (raw === null || raw === undefined) return "–";
  const value = toNumber(raw);
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const magnitude = Math.abs(value);
  if (Number.isInteger(value) && magnitude < 1e6) return String(value);
  if (magnitude >= 1e-3 && magnitude < 1e6) {
    return String(Number(value.toFixed(Math.max(0, 4 - Math.floor(Math.log10(magnitude))))));
  }
  const [mantissa, exponent] = value.toExponential(3).split("e");
  return `${Number(mantissa)}e${Number(exponent)}`;
}

/** Bytes in decimal units with three significant digits. */
export function size(count) {
  let value = count;
  let unit = 0;
  while (value >= 999.5 && unit < SIZES.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return unit === 0 ? `${count} B` : `${value.toFixed(Math.max(0, 2 - Math.floor(Math.log10(value))))} ${SIZES[unit]}`;
}

export function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const days = Math.floor(whole / 86400);
  const hours = Math.floor(whole / 3600) % 24;
  const minutes = Math.floor(whole / 60) % 60;
  const two = (n) => String(n).padStart(2, "0");
  if (days) return t("{days}d {hours}h", { days, hours });
  if (hours) return t("{hours}h {minutes}m", { hours, minutes: two(minutes) });
  if (minutes) return t("{minutes}m {seconds}s", { minutes, seconds: two(whole % 60) });
  return t("{seconds}s", { seconds: whole });
}

export function relative(when, now = Date.now()) {
  const age = (now - when.getTime()) / 1000;
  if (age < 10) return t("just now");
  if (age < 60) return t("{n}s ago", { n: Math.floor(age) });
  if (age < 3600) return t("{n}m ago", { n: Math.floor(age / 60) });
  if (age < 86400) return t("{n}h ago", { n: Math.floor(age / 3600) });
  if (age < 30 * 86400) return t("{n}d ago", { n: Math.floor(age / 86400) });
  return date(when);
}

const exactFormat = new Intl.DateTimeFormat(language, {
  year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZoneName: "short",
});
const dateFormat = new Intl.DateTimeFormat("sv-SE", { year: "numeric", month: "2-digit", day: "2-digit" });
const clockFormat = new Intl.DateTimeFormat("sv-SE", {
  year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
});
const timeFormat = new Intl.DateTimeFormat("sv-SE", {
  hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3,
});

/** The exact time in the reader's zone, with the zone. */
export const exact = (when) => exactFormat.format(when);
/** 2026-07-31 */
export const date = (when) => dateFormat.format(when);
/** 2026-07-31 14:05:09 */
export const clock = (when) => clockFormat.format(when);
/** 14:05:09.123, for lines of one log. */
export const timeOfDay = (when) => timeFormat.format(when).replace(",", ".");
