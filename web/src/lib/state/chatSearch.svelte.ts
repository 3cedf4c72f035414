// Search over the messages of all chats.
import { describe } from '../api/errors';
import type { SearchHit } from '../api/types';
import { searchChats } from '../services/chats';

export class ChatSearch {
  query = $state('');
  hits = $state.raw<SearchHit[]>([]);
  searching = $state(false);
  answered = $state(false);
  error = $state<string | null>(null);
  nextCursor = $state<string | undefined>();
  #run = 0;

  /** Search for what is in `query`; an answer that a later search overtook is dropped. */
  async search(): Promise<void> {
    const run = ++this.#run;
    const q = this.query.trim();
    this.answered = false;
    this.hits = [];
    this.nextCursor = undefined;
    this.error = null;
    if (q !== '') await this.#page(run, q);
  }

  async more(): Promise<void> {
    if (this.nextCursor && !this.searching) await this.#page(this.#run, this.query.trim());
  }

  async #page(run: number, q: string): Promise<void> {
    this.searching = true;
    try {
      const page = await searchChats(q, this.nextCursor);
      if (run !== this.#run) return;
      this.hits = [...this.hits, ...page.hits];
      this.nextCursor = page.nextCursor;
      this.answered = true;
    } catch (error) {
      if (run === this.#run) this.error = describe(error);
    } finally {
      if (run === this.#run) this.searching = false;
    }
  }
}

export interface SnippetPiece {
  text: string;
  hit: boolean;
}

/** A snippet with its hits (U+E000 … U+E001) told apart. */
export function pieces(snippet: string): SnippetPiece[] {
  const result: SnippetPiece[] = [];
  let hit = false;
  for (const part of snippet.split(/([\uE000\uE001])/)) {
    if (part === '\uE000') hit = true;
    else if (part === '\uE001') hit = false;
    else if (part !== '') result.push({ text: part, hit });
  }
  return result;
}
