// What went wrong with a request, in the server's words where it gave some.
import { t } from '../i18n';

/** A refused or failed request; `status` is 0 when no answer came at all. */
export class ApiError extends Error {
  readonly status: number;

  constructor(status: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ApiError';
    this.status = status;
  }

  static unreachable(cause: unknown): ApiError {
    return new ApiError(0, t.app.unreachable, { cause });
  }
}

/** The text of an `{"error": string}` body; anything else falls back to the status text. */
export function messageOf(body: unknown, fallback: string): string {
  if (typeof body === 'object' && body !== null && 'error' in body) {
    const { error } = body;
    if (typeof error === 'string' && error !== '') return error;
  }
  return fallback || t.app.failed;
}

/** A sentence for the page out of whatever was thrown. */
export function describe(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
