// Small things kept in this browser. A full or forbidden storage costs convenience, never function.

const PREFIX = 'daapu.';

export function read(key: string): string | null {
  try {
    return localStorage.getItem(PREFIX + key);
  } catch {
    return null; // storage is switched off
  }
}

/** Keep a value, or remove it with null. Says whether it was kept. */
export function write(key: string, value: string | null): boolean {
  try {
    if (value === null) localStorage.removeItem(PREFIX + key);
    else localStorage.setItem(PREFIX + key, value);
    return true;
  } catch {
    return false; // full or switched off
  }
}

export function readJson<T>(key: string): T | null {
  const text = read(key);
  if (text === null) return null;
  try {
    return JSON.parse(text) as T;
  } catch {
    return null; // written by something else
  }
}
