// The one way to the brain for plain requests: typed by its OpenAPI document, failing with the server's own words.
import createClient from 'openapi-fetch';

import { ApiError, messageOf } from './errors';
import type { paths } from './schema';

let onUnauthorised: () => void = () => undefined;

/** Register what happens when the server asks for its token (the page shows the sign-in form). */
export function whenUnauthorised(action: () => void): void {
  onUnauthorised = action;
}

/** Tell the page that the server answered 401. */
export function reportUnauthorised(): void {
  onUnauthorised();
}

export const client = createClient<paths>({
  baseUrl: globalThis.location?.origin ?? '',
  fetch: (request) => globalThis.fetch(request),
});

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** The body of a good answer; otherwise an ApiError that carries the server's message. */
export async function unwrap<T>(pending: Promise<Answer<T>>): Promise<T> {
  const { data, error, response } = await reached(pending);
  if (response.ok) return data as T;
  if (response.status === 401) reportUnauthorised();
  throw new ApiError(response.status, messageOf(error, response.statusText));
}

async function reached<T>(pending: Promise<T>): Promise<T> {
  try {
    return await pending;
  } catch (cause) {
    throw ApiError.unreachable(cause);
  }
}
