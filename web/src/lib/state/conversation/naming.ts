// The name of a new chat, after its first answer.
import type { ChatList } from '../chatList.svelte';

/** Let the model name a chat that has no title yet; without one, its first words do. */
export async function nameNewChat(
  list: ChatList,
  chatId: string,
  firstMessage: string,
): Promise<void> {
  if (list.get(chatId)?.title !== 'New chat') return;
  try {
    await list.generateTitle(chatId);
  } catch {
    // No title from the model: the message's own first words name the chat well enough.
    const title = firstMessage.split('\n')[0]?.slice(0, 60).trim();
    if (title) await list.change(chatId, { title });
  }
}
