/** The metrics that a reader keeps on top, in this browser, by name. */

const KEY = "tuneplane-pins";
const MOST = 200;

export function pins() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY));
    return new Set(Array.isArray(kept) ? kept.filter((name) => typeof name === "string").slice(0, MOST) : []);
  } catch {
    return new Set();
  }
}

/** Pin or unpin `name`; whether it is pinned now. */
export function togglePin(name) {
  const kept = pins();
  if (!kept.delete(name)) kept.add(name);
  try {
    localStorage.setItem(KEY, JSON.stringify([...kept].slice(-MOST)));
  } catch {
    return kept.has(name); // storage is full or forbidden: it lasts for this page
  }
  return kept.has(name);
}
