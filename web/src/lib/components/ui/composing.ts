// Whether a key belongs to an input method that is putting a character together (Chinese, Japanese, Korean).

/** Such a key is none of ours: Enter chooses a word, Escape gives it up. */
export function isComposing(event: KeyboardEvent): boolean {
  // Safari ends the composition before it sends the key; only the old code tells.
  return event.isComposing || event.keyCode === 229;
}
