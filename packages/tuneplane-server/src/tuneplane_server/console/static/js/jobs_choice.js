/** Ticked runs of the list: kept while filters and pages change, and led to the page that compares them. */

import { address } from "./api.js";
import { tn } from "./i18n.js";

const KEY = "tuneplane-chosen";
const MOST = 50; // as many as one comparison shows

export function startChoice(element) {
  const bar = document.getElementById("chosen");
  const chosen = new Set(JSON.parse(sessionStorage.getItem(KEY) ?? "[]"));
  const show = () => {
    for (const box of document.querySelectorAll("[data-tick]")) {
      box.checked = chosen.has(box.dataset.tick);
      box.closest("tr").classList.toggle("chosen", box.checked);
    }
    bar.hidden = chosen.size === 0;
    bar.querySelector("[data-chosen-count]").textContent = tn("{count} run chosen", "{count} runs chosen", chosen.size);
    bar.querySelector("[data-chosen-compare]").href = address("/compare", { run: [...chosen] });
    sessionStorage.setItem(KEY, JSON.stringify([...chosen]));
  };
  const onChange = (event) => {
    const { tick } = event.target.dataset;
    if (!tick) return;
    if (event.target.checked && chosen.size < MOST) chosen.add(tick);
    else chosen.delete(tick);
    show();
  };
  const onNone = () => {
    chosen.clear();
    show();
  };
  const none = bar.querySelector("[data-chosen-none]");
  document.addEventListener("change", onChange);
  none.addEventListener("click", onNone);
  document.body.addEventListener("htmx:afterSwap", show);
  show();
  return () => {
    document.removeEventListener("change", onChange);
    none.removeEventListener("click", onNone);
    document.body.removeEventListener("htmx:afterSwap", show);
  };
}
