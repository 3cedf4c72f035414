// Chats of the list under headings: pinned ones first, then by age.
import type { ChatInfo } from '../../api/types';
import { t } from '../../i18n';

export interface Group {
  label: string;
  chats: ChatInfo[];
}

const DAY = 86_400_000;

/** When a chat was made: said by the server, or by the milliseconds that its id begins with. */
function createdAt(chat: ChatInfo): number {
  const said = Date.parse(chat.createdAt);
  return Number.isNaN(said) ? Number.parseInt(chat.id, 10) : said;
}

export function groupsOf(chats: readonly ChatInfo[], now: Date): Group[] {
  const midnight = new Date(now).setHours(0, 0, 0, 0);
  const labelOf = (chat: ChatInfo) => {
    if (chat.pinned) return t.chats.pinned;
    const made = createdAt(chat);
    if (made >= midnight) return t.chats.today;
    if (made >= midnight - DAY) return t.chats.yesterday;
    if (made >= midnight - 7 * DAY) return t.chats.week;
    return made >= midnight - 30 * DAY ? t.chats.month : t.chats.older;
  };
  const order = [
    t.chats.pinned,
    t.chats.today,
    t.chats.yesterday,
    t.chats.week,
    t.chats.month,
    t.chats.older,
  ];
  return order
    .map((label) => ({ label, chats: chats.filter((chat) => labelOf(chat) === label) }))
    .filter((group) => group.chats.length > 0);
}
