// Texts that survive a reload, until the tab is closed. A browser that does not allow this forgets them at a reload.

export function recall(name) {
  try {
    return sessionStorage.getItem(name);
  } catch {
    return null;
  }
}

/** Keeps a text; null forgets it. */
export function keep(name, text) {
  try {
    if (text === null) sessionStorage.removeItem(name);
    else sessionStorage.setItem(name, text);
  } catch { /* too large, or not allowed: then it is not there after a reload */ }
}
