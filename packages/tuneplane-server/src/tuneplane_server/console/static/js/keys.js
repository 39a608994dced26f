/** Keyboard: `g g` and `G` to the start and end of a log, `/` search, j k rows, x choose, c compare, Enter open, g j / g t pages, 1–7 tabs, t colours, ? help. */

import { showHelp } from "./dialogs.js";
import { nextTheme } from "./theme.js";

const PLACES = { j: "/jobs", q: "/queue", t: "/settings/tokens" };
const SEQUENCE_MS = 1500;
let waitingSince = 0;

export function startKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && isField(event.target)) event.target.blur();
    if (event.ctrlKey || event.metaKey || event.altKey || isField(event.target) || document.querySelector("dialog[open]")) return;
    if (handle(event)) event.preventDefault();
  });
}

function handle(event) {
  if (Date.now() - waitingSince < SEQUENCE_MS) {
    waitingSince = 0;
    return go(event.key);
  }
  if (event.key === "g") {
    waitingSince = Date.now();
    return true;
  }
  if (event.key === "G") return press("G");
  if (event.key === "c") return press("c");
  if (event.key === "x") return tickRow();
  if (event.key === "/") return focusSearch();
  if (event.key === "?") return showHelp() ?? true;
  if (event.key === "t") return nextTheme() ?? true;
  if (event.key === "j" || event.key === "k") return moveRow(event.key === "j" ? 1 : -1);
  if (event.key === "Enter") return openRow(event.target);
  if (/^[1-9]$/.test(event.key)) return openTab(event.key);
  return false;
}

function go(key) {
  if (key === "g") return press("gg");
  if (!(key in PLACES)) return false;
  location.assign(PLACES[key]);
  return true;
}

/** What the page's own button for these keys does. */
function press(keys) {
  const button = document.querySelector(`[data-key="${keys}"]`);
  if (!button || button.closest("[hidden]")) return false;
  button.click();
  return true;
}

function focusSearch() {
  const field = document.querySelector("[data-search]");
  field?.focus();
  field?.select?.();
  return Boolean(field);
}

function moveRow(by) {
  const rows = [...document.querySelectorAll("[data-rows] [data-row]")];
  if (rows.length === 0) return false;
  const current = rows.findIndex((row) => row.getAttribute("aria-selected") === "true");
  const next = Math.min(rows.length - 1, Math.max(0, current === -1 ? 0 : current + by));
  rows[current]?.removeAttribute("aria-selected");
  rows[next].setAttribute("aria-selected", "true");
  rows[next].scrollIntoView({ block: "nearest" });
  rows[next].querySelector("a")?.focus({ preventScroll: true });
  return true;
}

function tickRow() {
  const box = document.querySelector("[data-row][aria-selected=true] [data-tick]");
  box?.click();
  return Boolean(box);
}

function openRow(target) {
  if (target.closest("a, button, summary")) return false;
  const link = document.querySelector("[data-row][aria-selected=true] a");
  link?.click();
  return Boolean(link);
}

function openTab(key) {
  const tab = document.querySelector(`[data-tab="${key}"]`);
  tab?.click();
  return Boolean(tab);
}

function isField(element) {
  return element instanceof Element && element.matches("input:not([type=checkbox], [type=range], [type=radio]), textarea, select, [contenteditable]");
}
