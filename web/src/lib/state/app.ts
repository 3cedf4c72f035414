// The stores of the running page, made once and handed to the pages.
import { Catalog } from './catalog.svelte';
import { ChatList } from './chatList.svelte';
import { Conversation } from './conversation/conversation.svelte';
import { Notices } from './notices.svelte';
import { Personas } from './personas.svelte';
import { Preferences } from './preferences.svelte';
import { Router } from './router.svelte';
import { Session } from './session.svelte';

export const router = new Router();
export const session = new Session();
export const preferences = new Preferences();
export const notices = new Notices();
export const catalog = new Catalog();
export const personas = new Personas();
export const chatList = new ChatList();
export const conversation = new Conversation({
  catalog,
  chats: chatList,
  preferences,
  onCreated: (id) => router.replace('chat', id),
});

/** Read what every page needs. */
export async function loadBasics(): Promise<void> {
  await Promise.all([catalog.load(), personas.load(), chatList.refresh()]);
}
