/** Colours (system, light, dark) and language: kept in cookies, so that the server draws the next page right at once. */

import { t } from "./i18n.js";
import { toast } from "./parts.js";

const ORDER = ["auto", "light", "dark"];
const WHEN_DARK = { auto: "(prefers-color-scheme: dark)", light: "not all", dark: "all" };
const NAMES = { auto: () => t("Colours: as the system"), light: () => t("Colours: light"), dark: () => t("Colours: dark") };
const YEAR = 365 * 86400;

export function startTheme() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-action]");
    if (button?.dataset.action === "theme") nextTheme();
    if (button?.dataset.action === "language") {
      keep("tuneplane_language", button.dataset.language);
      location.reload();
    }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", announce);
}

export function nextTheme() {
  const root = document.documentElement;
  const theme = ORDER[(ORDER.indexOf(root.dataset.theme) + 1) % ORDER.length];
  root.dataset.theme = theme;
  document.getElementById("dark-sheet").media = WHEN_DARK[theme];
  keep("tuneplane_theme", theme);
  toast(NAMES[theme]());
  announce();
}

/** Canvases do not follow style sheets: they draw again on this event. */
function announce() {
  requestAnimationFrame(() => document.dispatchEvent(new CustomEvent("tp:colours")));
}

function keep(name, value) {
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `${name}=${value}; Path=/; Max-Age=${YEAR}; SameSite=Lax${secure}`;
}
