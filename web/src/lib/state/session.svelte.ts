// Whether the server wants its token before it talks.
import { whenUnauthorised } from '../api/client';
import { describe } from '../api/errors';
import { signIn } from '../services/system';

export class Session {
  locked = $state(false);
  error = $state<string | null>(null);
  /** Grows with every sign-in, so that the page starts anew. */
  generation = $state(0);

  constructor() {
    whenUnauthorised(() => (this.locked = true));
  }

  async signIn(token: string): Promise<void> {
    this.error = null;
    try {
      await signIn(token);
    } catch (error) {
      this.error = describe(error);
      return;
    }
    this.locked = false;
    this.generation += 1;
  }
}
