// Where the reader is: the hash of the address, because the server knows only the one page.

const PAGES = [
  'chat',
  'personas',
  'memory',
  'tools',
  'maintenance',
  'settings',
  'archive',
] as const;
export type PageName = (typeof PAGES)[number];

export interface Route {
  page: PageName;
  /** What follows the page's name: a chat id, an entity id. */
  id: string | null;
  /** The message to show, from a search hit: `?m=12`. */
  message: number | null;
}

export function parse(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  const [name = '', ...rest] = path.split('/');
  const page = PAGES.find((known) => known === name) ?? 'chat';
  return { page, id: decoded(rest.join('/')) || null, message: messageOf(query) };
}

function messageOf(query: string): number | null {
  const found = /(?:^|&)m=(\d+)/.exec(query)?.[1];
  return found === undefined ? null : Number(found);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a stray percent sign
  }
}

export function hrefOf(page: PageName, id?: string | number | null): string {
  if (page === 'chat' && (id === undefined || id === null)) return '#/';
  return id === undefined || id === null ? `#/${page}` : `#/${page}/${encodeURIComponent(id)}`;
}

export class Router {
  route = $state.raw<Route>(parse(location.hash));

  listen(): () => void {
    const update = () => (this.route = parse(location.hash));
    addEventListener('hashchange', update);
    return () => removeEventListener('hashchange', update);
  }

  go(page: PageName, id?: string | number | null): void {
    location.hash = hrefOf(page, id);
  }

  /** Change the address without a step in the browser's history. */
  replace(page: PageName, id: string): void {
    history.replaceState(null, '', hrefOf(page, id));
    this.route = parse(location.hash);
  }
}
