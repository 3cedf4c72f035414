// The model and the persona that answer: chosen in a chat, else the ones used last.
import type { Catalog } from '../catalog.svelte';
import type { ChatList } from '../chatList.svelte';
import type { Preferences } from '../preferences.svelte';
import type { Round } from './rounds';

export class Choice {
  modelId = $state<string | null>(null);
  personaId = $state(0);
  readonly #catalog: Catalog;
  readonly #chats: ChatList;
  readonly #preferences: Preferences;

  constructor(catalog: Catalog, chats: ChatList, preferences: Preferences) {
    this.#catalog = catalog;
    this.#chats = chats;
    this.#preferences = preferences;
  }

  /** Choose for a chat what was chosen there, what answered there, or what was used last. */
  preselect(chatId: string | null, stored: readonly Round[]): void {
    const kept = this.#preferences.choiceOf(chatId);
    const last = this.#preferences.choiceOf(null);
    const used = stored.findLast((round) => round.modelId)?.modelId;
    const known = (id: string | undefined) => this.#catalog.get(id ?? null)?.id;
    this.modelId =
      known(kept.model) ??
      this.#catalog.byRawId(used)?.id ??
      known(last.model) ??
      this.#catalog.models[0]?.id ??
      null;
    const recorded = this.#chats.get(chatId)?.personaId;
    this.personaId = kept.personaId ?? recorded ?? last.personaId ?? 0;
  }

  /** Keep what is chosen for a chat, and for the next new one. */
  keep(chatId: string | null): void {
    const { modelId, personaId } = this;
    this.#preferences.keepChoice(chatId, { personaId, ...(modelId && { model: modelId }) });
  }
}
