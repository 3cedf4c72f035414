// Stands in for the table of character names that the Markdown parser brings: the browser has its own.

const area = document.createElement('textarea');

/** Decode character references. A text area takes no markup, only text. */
export function decodeHTMLStrict(text: string): string {
  area.innerHTML = text;
  return area.value;
}
