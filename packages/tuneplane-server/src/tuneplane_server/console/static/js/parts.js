/** Small parts of every page: notices, copying, times that tell how long ago, menus. */

import { t } from "./i18n.js";
import { clock, date, duration, exact, relative } from "./format.js";

const TOAST_MS = 3500;

export function toast(text, tone = "") {
  const box = document.getElementById("toasts");
  if (!box) return;
  const item = document.createElement("p");
  item.className = `toast ${tone}`;
  item.textContent = text;
  box.replaceChildren(item);
  setTimeout(() => item.remove(), TOAST_MS);
}

export function startParts() {
  document.addEventListener("click", onClick);
  document.addEventListener("submit", onSubmit);
  setInterval(() => tickTimes(), 1000);
  document.body.addEventListener("htmx:load", (event) => tickTimes(event.target));
  tickTimes();
}

async function onClick(event) {
  for (const menu of document.querySelectorAll("details[data-menu][open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
  const copying = event.target.closest("[data-copy]");
  if (copying) await copy(copying);
}

async function copy(button) {
  try {
    await writeClipboard(button.dataset.copy);
    button.classList.add("copied");
    setTimeout(() => button.classList.remove("copied"), 1200);
    toast(t("Copied"));
  } catch {
    toast(t("Copying was refused by the browser; select the text instead."), "bad");
  }
}

/** The clipboard API exists only on https and localhost; a console on plain http in a lab still copies. */
async function writeClipboard(text) {
  if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "visually-hidden";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) throw new Error("refused");
}

/** A form is sent once. */
function onSubmit(event) {
  if (event.defaultPrevented || event.target.method === "dialog" || event.target.method === "get") return;
  const button = event.submitter;
  if (button) setTimeout(() => (button.disabled = true));
}

window.addEventListener("pageshow", (event) => {
  if (event.persisted) for (const button of document.querySelectorAll("form button[disabled]")) button.disabled = false;
});

function tickTimes(root = document) {
  const now = Date.now();
  for (const element of root.querySelectorAll("time[data-time]")) {
    const when = new Date(element.dateTime);
    setText(element, relative(when, now));
    if (!element.dataset.titled) {
      element.title = exact(when);
      element.dataset.titled = "yes";
    }
  }
  for (const element of root.querySelectorAll("time[data-clock]")) setText(element, clock(new Date(element.dateTime)));
  for (const element of root.querySelectorAll("time[data-date]")) setText(element, date(new Date(element.dateTime)));
  for (const element of root.querySelectorAll("[data-since]")) {
    if (!element.dataset.since) continue;
    const until = element.dataset.until ? Date.parse(element.dataset.until) : now;
    setText(element, duration((until - Date.parse(element.dataset.since)) / 1000));
  }
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
