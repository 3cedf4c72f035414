// What "daapu doctor" found out about a model, against what the configuration says of it.
import type { Model } from '../api/types';
import { t } from '../i18n/pages';

/** Keys of a measurement; a missing one means that nothing could be said. */
interface Measured {
  reachable?: boolean;
  error?: string;
  contextLength?: number;
  toolCalls?: boolean;
  structuredOutput?: boolean;
  image?: boolean;
}

const CAPABILITIES = [
  ['tool_calls', 'toolCalls'],
  ['structured_output', 'structuredOutput'],
  ['image', 'image'],
] as const;

/** Sentences about what should be changed; empty when all agrees, null before the first measurement. */
export function disagreementsOf(model: Model): string[] | null {
  if (model.measured === null) return null;
  const measured = model.measured as Measured;
  if (measured.reachable === false) return [t.settings.silent(measured.error ?? '')];
  const found: string[] = [];
  const window = measured.contextLength;
  if (window !== undefined && window < model.contextLength)
    found.push(t.settings.window(model.contextLength, window));
  for (const [capability, key] of CAPABILITIES) {
    const promised = model.capabilities.includes(capability);
    if (promised && measured[key] === false) found.push(t.settings.promised(capability));
    if (!promised && measured[key] === true) found.push(t.settings.unused(capability));
  }
  return found;
}
