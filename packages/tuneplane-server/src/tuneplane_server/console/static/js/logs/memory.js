/** How the reader likes logs to look, kept in this browser. */

const KEY = "tuneplane-logs";

export function remembered() {
  try {
    return JSON.parse(localStorage.getItem(KEY)) ?? {};
  } catch {
    return {};
  }
}

export function remember(values) {
  try {
    localStorage.setItem(KEY, JSON.stringify(values));
  } catch {
    return; // storage is full or forbidden: the choice lasts for this page
  }
}
