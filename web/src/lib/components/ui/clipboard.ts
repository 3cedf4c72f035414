// Copying text, also where the page is not served securely and the clipboard interface is missing.
import { t } from '../../i18n';

/** Copy; fails with words for the person where the browser does not allow it. */
export async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Missing or forbidden: the old way needs neither a secure page nor a permission.
    if (!copyOldWay(text)) throw new Error(t.app.copyFailed);
  }
}

function copyOldWay(text: string): boolean {
  const area = document.createElement('textarea');
  area.value = text;
  // Outside of an open dialog nothing can be selected.
  const focused = document.activeElement;
  (focused?.closest('dialog') ?? document.body).append(area);
  area.select();
  const copied = document.execCommand('copy');
  area.remove();
  if (focused instanceof HTMLElement) focused.focus();
  return copied;
}
