// Keyboard shortcuts. Plain keys count only outside of fields; with a dialog open, none does.
import { isComposing } from '../ui/composing';

export interface Shortcuts {
  newChat: () => void;
  search: () => void;
  sidebar: () => void;
  help: () => void;
  compose: () => void;
  stop: () => void;
}

export function keysOf(shortcuts: Shortcuts): (event: KeyboardEvent) => void {
  const withAlt: Record<string, () => void> = {
    KeyN: shortcuts.newChat,
    KeyK: shortcuts.search,
    KeyB: shortcuts.sidebar,
  };
  const plain: Record<string, () => void> = { '?': shortcuts.help, '/': shortcuts.compose };
  return (event) => {
    const action = actionOf(event, withAlt, plain, shortcuts.stop);
    if (!action || event.defaultPrevented || document.querySelector('dialog[open]')) return;
    event.preventDefault();
    action();
  };
}

function actionOf(
  event: KeyboardEvent,
  withAlt: Record<string, () => void>,
  plain: Record<string, () => void>,
  stop: () => void,
): (() => void) | undefined {
  if (event.ctrlKey || event.metaKey || isComposing(event)) return undefined;
  // By place on the keyboard: with Alt, some layouts write another character.
  if (event.altKey) return withAlt[event.code];
  const field = isField(event.target);
  // In other fields Escape ends what is done there.
  if (event.key === 'Escape') return field && !isComposer(event.target) ? undefined : stop;
  return field ? undefined : plain[event.key];
}

function isComposer(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.id === 'composer';
}

function isField(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && target.matches('input, textarea, select, [contenteditable]')
  );
}
